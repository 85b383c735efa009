#include "engine/weights/model_directory.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/base/shell_line.h"
#include "engine/data/data_file.h"
#include "engine/weights/model_files.h"
#include "engine/weights/weight_files.h"
#include "io/base/status.h"
#include "io/file_system.h"

namespace spillway {
namespace {

constexpr const char* kConfigName = "config.json";

bool HasFile(const std::string& directory, absl::string_view name) {
  return Exists(absl::StrCat(directory, "/", name));
}

// The newest folder in `directory` that has a config.json, by length of name and then letters, so
// that checkpoint-1000 comes after checkpoint-500; "" if there is none.
std::string FolderWithModel(const std::string& directory) {
  std::vector<std::string> names =
      FileSystem::Real().List(directory).value_or(std::vector<std::string>());
  std::stable_sort(names.begin(), names.end(),
                   [](const std::string& a, const std::string& b) { return a.size() < b.size(); });
  std::string last;
  for (const std::string& name : names) {
    const std::string folder = absl::StrCat(directory, "/", name);
    if (HasFile(folder, kConfigName)) last = folder;
  }
  return last;
}

std::string FileEndingWith(const std::string& directory, absl::string_view end) {
  for (const std::string& name :
       FileSystem::Real().List(directory).value_or(std::vector<std::string>())) {
    if (absl::EndsWith(name, end)) return name;
  }
  return "";
}

}  // namespace

absl::Status CheckIsDirectory(const std::string& directory) {
  if (IsDirectory(directory)) return absl::OkStatus();
  struct stat info;
  if (::stat(directory.c_str(), &info) == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("--model ", directory,
                     " is not a directory: give the one that holds config.json and the weights"));
  }
  const int error = errno;
  if (error != ENOENT) return ErrnoStatus(error, absl::StrCat("--model ", directory));
  return absl::NotFoundError(absl::StrCat(
      "--model ", directory.empty() ? "''" : directory,
      ": there is no such directory. A model's directory has a config.json; ORG/NAME is looked up "
      "in the cache of Hugging Face's hub"));
}

absl::Status CheckModelDirectory(const std::string& directory) {
  RETURN_IF_ERROR(CheckIsDirectory(directory));
  return HasFile(directory, kConfigName) ? absl::OkStatus() : DescribeNoModel(directory);
}

absl::Status DescribeNoModel(const std::string& directory) {
  const auto no = [&](absl::string_view why) {
    return absl::NotFoundError(absl::StrCat("--model ", directory, ": ", why));
  };
  if (HasFile(directory, kAdapterConfigName)) {
    const std::string base = BaseModelOfAdapter(directory);
    return no(absl::StrCat(
        "it is an adapter", base.empty() ? "" : absl::StrCat(" for ", base), ": give ",
        ShellLine({"--model", base.empty() ? "MODEL" : base, "--adapter", directory})));
  }
  if (HasFile(directory, "config.resolved.json")) {
    for (const char* result : {"model", "adapter"}) {
      const std::string folder = absl::StrCat(directory, "/", result);
      if (!HasFile(folder,
                   result == absl::string_view("model") ? kConfigName : kAdapterConfigName)) {
        continue;
      }
      return no(absl::StrCat("it is the OUTPUT of a run, which has its trained ", result, " in ",
                             folder));
    }
    return no(
        "it is the OUTPUT of a run that has neither a commit nor an exported model: --resume goes "
        "on with it");
  }
  if (const std::string folder = FolderWithModel(directory); !folder.empty()) {
    return no(absl::StrCat("no config.json in it, but in ", folder, ": give ",
                           ShellLine({"--model", folder})));
  }
  if (const absl::Status sharded = DescribeShardedCheckpoint(directory); !sharded.ok()) {
    return no(sharded.message());
  }
  if (const std::string gguf = FileEndingWith(directory, ".gguf"); !gguf.empty()) {
    return no(
        absl::StrCat("it holds ", gguf,
                     ", and GGUF is not read: give the model's directory of safetensors, from "
                     "which it was made"));
  }
  const std::string weights = FileEndingWith(directory, ".safetensors");
  return no(absl::StrCat(
      "no config.json in it (a Hugging Face model directory has one)",
      weights.empty() ? "" : ", only weights: copy config.json from where they came from",
      "; it holds: ", ShownEntries(directory)));
}

}  // namespace spillway
