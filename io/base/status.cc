#include "io/base/status.h"

#include <cerrno>
#include <cstring>
#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace spillway {
namespace {

using enum absl::StatusCode;

struct ErrnoMeaning {
  int error;
  absl::StatusCode code;
  absl::string_view remedy;
};

constexpr absl::string_view kNotSupported =
    "this kernel, filesystem or mount does not support it: use another path";

constexpr ErrnoMeaning kMeanings[] = {
    {ENOSPC, kResourceExhausted, "free some space there, or name a path on another filesystem"},
    {EDQUOT, kResourceExhausted,
     "your disk quota there is used up: free some of it, or name another path"},
    {EACCES, kPermissionDenied, "check the owner and mode of the path and of its parents"},
    {EPERM, kPermissionDenied,
     "the kernel or a sandbox forbids it to this user: check privileges and the container's "
     "profile"},
    {ENOENT, kNotFound, "check the path"},
    {EEXIST, kAlreadyExists, "remove it, or choose another name"},
    {EINVAL, kInvalidArgument,
     "the filesystem does not take this request (size, alignment or flag)"},
    {EIO, kUnavailable,
     "the storage device failed, and its filesystem may be read-only by now: see the kernel log "
     "(dmesg) and the drive's health"},
    {EROFS, kUnknown, "the filesystem is mounted read-only"},
    {ENOTDIR, kFailedPrecondition, "a part of the path is not a directory"},
    {EISDIR, kFailedPrecondition, "name a file, not a directory"},
    {ELOOP, kFailedPrecondition,
     "symbolic links are not followed here, or lead in a circle: name the place they point to"},
    {ENAMETOOLONG, kFailedPrecondition, "the filesystem takes shorter names"},
    {EFBIG, kUnknown, "larger than the filesystem or `ulimit -f` allows: raise the limit"},
    {EMFILE, kUnknown, "too many open files: raise `ulimit -n`"},
    {ENFILE, kUnknown, "too many open files: raise `ulimit -n`"},
    {ENOMEM, kUnknown,
     "the kernel has no memory for it: check `ulimit -l` and the cgroup's memory limit"},
    {EBADF, kUnknown, "the file is not open for this operation"},
    {ENOLCK, kUnknown, kNotSupported},
    {ENOSYS, kUnknown, kNotSupported},
    {EOPNOTSUPP, kUnknown, kNotSupported},
    {ESTALE, kUnknown, "the network filesystem lost the file: remount it"},
};

}  // namespace

absl::Status ErrnoStatus(int error, absl::string_view what) {
  ErrnoMeaning meaning = {error, kUnknown, ""};
  for (const ErrnoMeaning& known : kMeanings) {
    if (known.error == error) meaning = known;
  }
  const char* name = strerrorname_np(error);
  const char* description = strerrordesc_np(error);
  std::string message = absl::StrCat(what, ": ", description ? description : "unknown error", " (",
                                     name ? std::string(name) : absl::StrCat("errno ", error), ")");
  if (!meaning.remedy.empty()) absl::StrAppend(&message, "; ", meaning.remedy);
  if (error == ENOENT && absl::StartsWith(what, "create")) {
    absl::StrAppend(&message, ": its parent must exist");
  }
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
