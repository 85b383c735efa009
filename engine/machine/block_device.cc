#include "engine/machine/block_device.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cstdlib>
#include <fstream>
#include <memory>
#include <sstream>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "io/file_system.h"

namespace spillway {
namespace {

constexpr uint64_t kSectorBytes = 512;  // sysfs's unit, whatever the device has

// /proc/self/mountinfo writes a space in a path as \040.
std::string Unescaped(const std::string& text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 3 < text.size()) {
      out += static_cast<char>(std::strtol(text.substr(i + 1, 3).c_str(), nullptr, 8));
      i += 3;
    } else {
      out += text[i];
    }
  }
  return out;
}

// The first of `names` with content, for a partition the whole drive's.
std::string Ask(const std::string& block, std::initializer_list<const char*> names) {
  for (const char* above : {"", "/.."}) {
    for (const char* name : names) {
      const std::string line = ReadFirstLine(absl::StrCat(block, above, "/", name));
      if (!line.empty()) return line;
    }
  }
  return "";
}

std::string NumberOf(dev_t device) { return absl::StrCat(major(device), ":", minor(device)); }

}  // namespace

std::string ReadFirstLine(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return std::string(absl::StripAsciiWhitespace(line));
}

MountPoint FindMount(const std::string& path) {
  MountPoint found;
  const std::unique_ptr<char, decltype(&std::free)> real(::realpath(path.c_str(), nullptr),
                                                         &std::free);
  if (real == nullptr) return found;
  const std::string absolute = real.get();
  std::ifstream in("/proc/self/mountinfo");
  std::string line;
  size_t longest = 0;
  // The longest mount point above it, and of equal ones the last, which covers the others.
  while (std::getline(in, line)) {
    std::istringstream words(line);
    std::string word, point;
    words >> word >> word >> word >> word >> point;
    point = Unescaped(point);
    const bool above = point == "/" || absolute == point || absl::StartsWith(absolute, point + "/");
    if (!above || point.size() < longest) continue;
    while (words >> word && word != "-") {
    }
    if (!(words >> found.filesystem >> found.source)) continue;
    found.source = Unescaped(found.source);
    longest = point.size();
  }
  return found;
}

BlockDevice FindBlockDevice(const std::string& path) {
  BlockDevice device;
  struct stat info;
  if (::stat(path.c_str(), &info) != 0) return device;
  const MountPoint mount = FindMount(path);
  device.filesystem = mount.filesystem;
  device.number = NumberOf(info.st_dev);
  std::string block = absl::StrCat("/sys/dev/block/", device.number);
  if (!Exists(block)) {
    struct stat source;
    if (::stat(mount.source.c_str(), &source) != 0 || !S_ISBLK(source.st_mode)) return device;
    device.number = NumberOf(source.st_rdev);
    block = absl::StrCat("/sys/dev/block/", device.number);
  }
  if (Exists(block)) device.name = FileName(FileSystem::Real().Resolve(block));
  device.model = Ask(block, {"device/model", "dm/name"});
  device.serial = Ask(block, {"device/serial", "serial", "wwid", "device/wwid", "dm/uuid"});
  uint64_t sectors = 0;
  if (absl::SimpleAtoi(ReadFirstLine(block + "/size"), &sectors)) {
    device.size_bytes = sectors * kSectorBytes;
  }
  return device;
}

}  // namespace spillway
