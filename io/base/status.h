// Statuses that tell a person what to do.
//
// Every failure of the outside world is an absl::Status whose message names the object, the numbers
// and the remedy. Our own bugs are CHECKs (io/base/check.h).
#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace spillway {

// The only table from errno to a status code and a remedy. `what` names the operation and its
// object: "open /nvme/run/data-0". ENOSPC and EDQUOT give kResourceExhausted, EACCES and EPERM
// kPermissionDenied, ENOENT kNotFound, EEXIST kAlreadyExists, EINVAL kInvalidArgument, EIO
// kUnavailable, impossible paths (ENOTDIR, EISDIR, ELOOP, ENAMETOOLONG) kFailedPrecondition;
// anything else kUnknown.
absl::Status ErrnoStatus(int error, absl::string_view what);

// kDataLoss, for bytes that differ from those that were written. The program ends with exit code 4
// for kDataLoss, which nothing else returns.
absl::Status WrongBytesError(absl::string_view message);

// Puts `context` and ": " before the message; the code and payloads stay.
absl::Status Annotate(const absl::Status& status, absl::string_view context);

}  // namespace spillway

#define SPILLWAY_CONCAT_INNER(a, b) a##b
#define SPILLWAY_CONCAT(a, b) SPILLWAY_CONCAT_INNER(a, b)

// Returns from the enclosing function when `expr` is not OK.
#define RETURN_IF_ERROR(expr)                             \
  do {                                                    \
    if (::absl::Status status_ = (expr); !status_.ok()) { \
      return status_;                                     \
    }                                                     \
  } while (false)

// ASSIGN_OR_RETURN(auto file, File::Open(path));
#define ASSIGN_OR_RETURN(lhs, expr) \
  ASSIGN_OR_RETURN_IMPL(SPILLWAY_CONCAT(statusor_, __LINE__), lhs, expr)
#define ASSIGN_OR_RETURN_IMPL(name, lhs, expr)     \
  auto name = (expr);                              \
  if (!name.ok()) return std::move(name).status(); \
  lhs = *std::move(name)
