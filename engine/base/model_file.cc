#include "engine/base/model_file.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "io/base/format_bytes.h"
#include "io/base/status.h"

namespace spillway {
namespace {

constexpr absl::string_view kGitLfsBegin = "version https://git-lfs";

// The folder of blobs that belongs to a snapshot in the hub's cache; "": `directory` is none.
std::string BlobsOf(absl::string_view directory) {
  const size_t snapshots = directory.rfind("/snapshots/");
  return snapshots == absl::string_view::npos
             ? ""
             : absl::StrCat(directory.substr(0, snapshots), "/blobs/");
}

}  // namespace

absl::Status CheckModelFile(absl::string_view directory, absl::string_view name,
                            FileSystem& files) {
  const std::string path = absl::StrCat(directory, "/", name);
  ASSIGN_OR_RETURN(const FileInfo found, files.Look(path, SymbolicLink::kFollow));
  if (found.kind != FileInfo::Kind::kFile) {
    return absl::InvalidArgumentError(absl::StrCat(path, found.kind == FileInfo::Kind::kDirectory
                                                             ? " is not a plain file but a folder"
                                                             : " is not a plain file"));
  }
  const std::string inside = files.Resolve(directory), real = files.Resolve(path);
  const std::string blobs = BlobsOf(inside);
  if (absl::StartsWith(real, inside == "/" ? inside : inside + "/") ||
      (!blobs.empty() && absl::StartsWith(real, blobs))) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(path, " is a link that leads out of the model's directory, to ", real,
                   ", and such links are not followed: put the file itself there (cp "
                   "--dereference)"));
}

absl::StatusOr<std::string> ReadModelFile(absl::string_view directory, absl::string_view name,
                                          uint64_t limit_bytes, FileSystem& files) {
  RETURN_IF_ERROR(CheckModelFile(directory, name, files));
  const std::string path = absl::StrCat(directory, "/", name);
  ASSIGN_OR_RETURN(const FileInfo found, files.Look(path, SymbolicLink::kFollow));
  if (found.size_bytes > limit_bytes) {
    return absl::InvalidArgumentError(absl::StrCat(path, " has ", FormatBytes(found.size_bytes),
                                                   "; at most ", FormatBytes(limit_bytes),
                                                   " are read of a file of this kind"));
  }
  ASSIGN_OR_RETURN(std::string content, files.ReadSmallFile(path, limit_bytes));
  if (absl::StartsWith(content, kGitLfsBegin)) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, " is git-lfs's pointer to the file: fetch the file itself (git lfs pull)"));
  }
  return content;
}

absl::StatusOr<JsonDocument> ReadModelJson(absl::string_view directory, absl::string_view name,
                                           const JsonLimits& limits) {
  ASSIGN_OR_RETURN(const std::string text, ReadModelFile(directory, name, limits.max_bytes));
  return ParseStrictJson(text, absl::StrCat(directory, "/", name), limits);
}

}  // namespace spillway
