#include "io/base/status.h"

#include <cerrno>
#include <cstring>
#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"

namespace spillway {
namespace {

struct ErrnoMeaning {
  absl::StatusCode code;
  const char* remedy;
};

ErrnoMeaning Meaning(int error) {
  switch (error) {
    case ENOSPC:
      return {absl::StatusCode::kResourceExhausted,
              "free some space there, or name a path on another filesystem"};
    case EDQUOT:
      return {absl::StatusCode::kResourceExhausted,
              "your disk quota there is used up: free some of it, or name another path"};
    case EACCES:
      return {absl::StatusCode::kPermissionDenied,
              "check the owner and mode of the path and of its parents"};
    case EPERM:
      return {absl::StatusCode::kPermissionDenied,
              "the kernel or a sandbox forbids it to this user: check privileges and the "
              "container's profile"};
    case ENOENT:
      return {absl::StatusCode::kNotFound, "check the path; its parent must exist"};
    case EEXIST:
      return {absl::StatusCode::kAlreadyExists, "remove it, or choose another name"};
    case EINVAL:
      return {absl::StatusCode::kInvalidArgument,
              "the filesystem does not take this request (size, alignment or flag)"};
    case EIO:
      return {absl::StatusCode::kUnavailable,
              "the storage device failed, and its filesystem may be read-only by now: see the "
              "kernel log "
              "(dmesg) and the drive's health"};
    case EROFS:
      return {absl::StatusCode::kUnknown, "the filesystem is mounted read-only"};
    case ENOTDIR:
      return {absl::StatusCode::kFailedPrecondition, "a part of the path is not a directory"};
    case EISDIR:
      return {absl::StatusCode::kFailedPrecondition, "name a file, not a directory"};
    case ELOOP:
      return {
          absl::StatusCode::kFailedPrecondition,
          "symbolic links are not followed here, or lead in a circle: name the place they point "
          "to"};
    case ENAMETOOLONG:
      return {absl::StatusCode::kFailedPrecondition, "the filesystem takes shorter names"};
    case EFBIG:
      return {absl::StatusCode::kUnknown,
              "larger than the filesystem or `ulimit -f` allows: raise the limit"};
    case EMFILE:
    case ENFILE:
      return {absl::StatusCode::kUnknown, "too many open files: raise `ulimit -n`"};
    case ENOMEM:
      return {absl::StatusCode::kUnknown,
              "the kernel has no memory for it: check `ulimit -l` and the cgroup's memory limit"};
    case EBADF:
      return {absl::StatusCode::kUnknown, "the file is not open for this operation"};
    case ENOLCK:
    case ENOSYS:
    case EOPNOTSUPP:
      return {absl::StatusCode::kUnknown,
              "this kernel, filesystem or mount does not support it: use another path"};
    case ESTALE:
      return {absl::StatusCode::kUnknown, "the network filesystem lost the file: remount it"};
    default:
      return {absl::StatusCode::kUnknown, nullptr};
  }
}

}  // namespace

absl::Status ErrnoStatus(int error, absl::string_view what) {
  const ErrnoMeaning meaning = Meaning(error);
  const char* name = strerrorname_np(error);
  const char* description = strerrordesc_np(error);
  std::string message = absl::StrCat(what, ": ", description ? description : "unknown error", " (",
                                     name ? std::string(name) : absl::StrCat("errno ", error), ")");
  if (meaning.remedy != nullptr) absl::StrAppend(&message, "; ", meaning.remedy);
  return absl::Status(meaning.code, message);
}

absl::Status WrongBytesError(absl::string_view message) { return absl::DataLossError(message); }

absl::Status Annotate(const absl::Status& status, absl::string_view context) {
  if (status.ok()) return status;
  absl::Status annotated(status.code(), absl::StrCat(context, ": ", status.message()));
  status.ForEachPayload([&](absl::string_view type_url, const absl::Cord& payload) {
    annotated.SetPayload(type_url, payload);
  });
  return annotated;
}

}  // namespace spillway
