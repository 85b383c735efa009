#include "tests/fuzz/fuzzing.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "io/base/log.h"
#include "nlohmann/json.hpp"

namespace spillway {
namespace {

// The last refusal, for people.
std::string& Reason() {
  static std::string& reason = *new std::string;
  return reason;
}

std::map<std::string, FuzzTarget::Accepts>& Targets() {
  static auto& targets = *new std::map<std::string, FuzzTarget::Accepts>;
  return targets;
}

// The one that this process runs.
FuzzTarget::Accepts Chosen() {
  const char* const name = std::getenv("SPILLWAY_FUZZ_TARGET");
  const auto found = Targets().find(name == nullptr ? "" : name);
  if (found != Targets().end()) return found->second;
  std::fprintf(stderr, "SPILLWAY_FUZZ_TARGET names none of the targets:");
  for (const auto& target : Targets()) std::fprintf(stderr, " %s", target.first.c_str());
  std::fprintf(stderr, "\n");
  std::exit(2);
}

FuzzTarget::Accepts accepts = nullptr;

// Exit code of `--accepted`: 0 where all files are.
int CheckAccepted(int count, char** paths) {
  int refused = count == 0;
  if (count == 0) std::fprintf(stderr, "--accepted needs files that the reader is to accept\n");
  for (int i = 0; i < count; ++i) {
    std::ifstream in(paths[i], std::ios::binary);
    const std::string input((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
    Reason() = "the target does not say why";
    if (in && accepts(input)) continue;
    ++refused;
    std::fprintf(stderr, "%s is to be accepted, and is refused: %s\n", paths[i],
                 in ? Reason().c_str() : "it cannot be read");
  }
  return refused == 0 ? 0 : 1;
}

}  // namespace

FuzzTarget::FuzzTarget(const char* name, Accepts accepts) {
  SPILLWAY_CHECK(Targets().emplace(name, accepts).second);
}

bool Refuse(const absl::Status& status, std::initializer_list<absl::StatusCode> codes) {
  Reason() = status.ToString();
  SPILLWAY_CHECK(std::count(codes.begin(), codes.end(), status.code()) == 1);
  SPILLWAY_CHECK(!status.message().empty());
  return false;
}

size_t SomewhereIn(absl::string_view input) {
  return input.empty() ? 0 : static_cast<uint8_t>(input.back()) * input.size() / 256;
}

MemoryFile::MemoryFile(absl::string_view content)
    : fd_(::memfd_create("fuzz", MFD_CLOEXEC)), path_(absl::StrCat("/proc/self/fd/", fd_)) {
  SPILLWAY_CHECK(::write(fd_, content.data(), content.size()) ==
                 static_cast<ssize_t>(content.size()));
}

MemoryFile::~MemoryFile() { ::close(fd_); }

ScratchDirectory::ScratchDirectory() {
  path_ = (std::filesystem::temp_directory_path() / "spillway-fuzz-XXXXXX").string();
  SPILLWAY_CHECK(::mkdtemp(path_.data()) != nullptr);
}

ScratchDirectory::~ScratchDirectory() {
  std::error_code error;
  std::filesystem::remove_all(path_, error);
}

std::string ScratchDirectory::PathOf(absl::string_view name) const {
  return absl::StrCat(path_, "/", name);
}

void ScratchDirectory::Write(absl::string_view name, absl::string_view content) const {
  std::ofstream out(PathOf(name), std::ios::binary | std::ios::trunc);
  out.write(content.data(), static_cast<std::streamsize>(content.size()));
  SPILLWAY_CHECK(out.flush().good());
}

void ScratchDirectory::Empty() const {
  for (const auto& entry : std::filesystem::directory_iterator(path_)) {
    std::filesystem::remove_all(entry.path());
  }
}

std::map<std::string, std::string> FilesOf(absl::string_view input) {
  constexpr absl::string_view kMark = "=== ";
  std::map<std::string, std::string> files;
  std::string* file = &files[""];
  while (!input.empty()) {
    const absl::string_view line = input.substr(0, input.find('\n'));
    const size_t taken = std::min(input.size(), line.size() + 1);
    if (absl::StartsWith(line, kMark)) {
      file = &files[std::string(line.substr(kMark.size()))];
    } else {
      absl::StrAppend(file, input.substr(0, taken));
    }
    input.remove_prefix(taken);
  }
  return files;
}

std::string SafetensorsOf(absl::string_view text) {
  const absl::string_view header = text.substr(0, text.find('\n'));
  absl::string_view data = text.substr(header.size());
  absl::ConsumePrefix(&data, "\n");
  uint64_t data_bytes = 0;
  const auto json = nlohmann::json::parse(header, nullptr, /*allow_exceptions=*/false);
  for (const auto& tensor : json.is_object() ? json : nlohmann::json::object()) {
    const auto end = nlohmann::json::json_pointer("/data_offsets/1");
    if (!tensor.is_object() || !tensor.contains(end)) continue;
    if (tensor[end].is_number_unsigned()) {
      data_bytes = std::max(data_bytes, tensor[end].get<uint64_t>());
    }
  }
  std::string content(sizeof(uint64_t), '\0');
  const uint64_t header_bytes = header.size();  // little-endian, as this machine is
  std::memcpy(content.data(), &header_bytes, sizeof(header_bytes));
  absl::StrAppend(&content, header, data);
  content.resize(sizeof(uint64_t) + header.size() + std::min<uint64_t>(data_bytes, 64 << 10));
  return content;
}

// libFuzzer's, before anything else.
extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  SetLogLevel(LogLevel::kError);  // a warning an input otherwise
  accepts = Chosen();
  if (*argc < 2 || absl::string_view((*argv)[1]) != "--accepted") return 0;
  std::exit(CheckAccepted(*argc - 2, *argv + 2));
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  accepts({reinterpret_cast<const char*>(data), size});
  return 0;
}

}  // namespace spillway
