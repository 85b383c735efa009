#include "tools/last_resort.h"

#include <sys/resource.h>
#include <unistd.h>

#include <cstdlib>
#include <exception>
#include <new>
#include <string>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "engine/machine/memory_limits.h"
#include "io/base/format_bytes.h"
#include "io/base/log.h"
#include "io/base/status.h"

namespace spillway {
namespace {

std::terminate_handler before = nullptr;

// The limits of this process that may be the cause; "" if there are none.
std::string AddressSpaceLimit() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return "";
  return absl::StrCat(" of the ", FormatBytes(limit.rlim_cur),
                      " of addresses that `ulimit -v` allows");
}

absl::Status NoMemory() {
  const std::string limit = AddressSpaceLimit();
  return DoesNotFitError(
      absl::StrCat("there is no memory left", limit, " (", FormatBytes(ResidentBytes()),
                   " are resident, ", FormatBytes(AvailableMemoryBytes()),
                   " are free): ", limit.empty() ? "" : "raise that limit, or ",
                   "lower --device-memory and --host-memory, or free some memory"));
}

absl::Status Refused(const std::system_error& error) {
  if (error.code() != std::errc::resource_unavailable_try_again) {
    return ErrnoStatus(error.code().value(), error.what());
  }
  // The error of starting a thread, also if memory is short.
  return absl::AbortedError(absl::StrCat(
      "the system starts no more threads (EAGAIN)", AddressSpaceLimit(),
      ": raise `ulimit -u`, `ulimit -v` or the container's limit of processes, or take fewer "
      "--threads"));
}

[[noreturn]] void OnTerminate() {
  try {
    if (std::current_exception()) std::rethrow_exception(std::current_exception());
  } catch (...) {
    try {
      const absl::Status status = StatusOfException();
      LogError(status.message());
      // Other threads still run: their objects must not be destroyed.
      _exit(ExitCodeOf(status));
    } catch (...) {
    }
  }
  before();
  std::abort();
}

}  // namespace

absl::Status StatusOfException() {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return NoMemory();
  } catch (const std::system_error& error) {
    return Refused(error);
  }
}

void ExplainTerminate() { before = std::set_terminate(&OnTerminate); }

}  // namespace spillway
