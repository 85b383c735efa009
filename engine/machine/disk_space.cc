#include "engine/machine/disk_space.h"

#include <sys/stat.h>
#include <sys/statvfs.h>

#include <filesystem>
#include <map>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "io/base/format_bytes.h"

namespace spillway {
namespace {

namespace fs = std::filesystem;

struct FileSystem {
  std::string path;  // the first that was asked about
  uint64_t needed_bytes = 0;
  uint64_t returned_bytes = 0;
  std::vector<std::string> what;
};

std::string NearestExisting(const std::string& path) {
  std::error_code error;
  fs::path nearest = fs::absolute(path, error);
  while (!fs::exists(nearest, error) && nearest.has_relative_path()) {
    nearest = nearest.parent_path();
  }
  return nearest.string();
}

// None where it cannot be looked at; that is found out where it is used.
std::optional<dev_t> DeviceOf(const std::string& path) {
  struct stat info;
  if (::stat(NearestExisting(path).c_str(), &info) != 0) return std::nullopt;
  return info.st_dev;
}

}  // namespace

absl::Status CheckSpace(const std::vector<SpaceNeed>& needs, const std::vector<SpaceNeed>& returned,
                        absl::string_view remedy) {
  std::map<dev_t, FileSystem> systems;
  for (const SpaceNeed& need : needs) {
    const std::optional<dev_t> device = DeviceOf(need.path);
    if (need.bytes == 0 || !device) continue;
    FileSystem& system = systems[*device];
    if (system.path.empty()) system.path = NearestExisting(need.path);
    system.needed_bytes += need.bytes;
    system.what.push_back(absl::StrCat(FormatBytes(need.bytes), " for ", need.what));
  }
  for (const SpaceNeed& back : returned) {
    const std::optional<dev_t> device = DeviceOf(back.path);
    if (device && systems.contains(*device)) systems[*device].returned_bytes += back.bytes;
  }
  const FileSystem* worst = nullptr;
  uint64_t worst_missing = 0, worst_free = 0;
  for (const auto& [device, system] : systems) {
    struct statvfs info;
    if (::statvfs(system.path.c_str(), &info) != 0 || info.f_blocks == 0) continue;
    const uint64_t free_bytes = static_cast<uint64_t>(info.f_bavail) * info.f_frsize;
    const uint64_t there = free_bytes + system.returned_bytes;
    if (system.needed_bytes <= there || system.needed_bytes - there <= worst_missing) continue;
    worst = &system;
    worst_missing = system.needed_bytes - there;
    worst_free = there;
  }
  if (worst == nullptr) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("the file system of ", worst->path, " has ", FormatBytes(worst_free),
                   " free, and this run needs ", FormatBytes(worst->needed_bytes), " there (",
                   absl::StrJoin(worst->what, ", "), "); free ", FormatBytes(worst_missing),
                   " more, or ", remedy, "; nothing was written"));
}

}  // namespace spillway
