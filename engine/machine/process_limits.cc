#include "engine/machine/process_limits.h"

#include <malloc.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <semaphore>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/machine/core_limits.h"
#include "io/base/format_bytes.h"

namespace spillway {
namespace {

// LibTorch's and our libraries, mapped, with their allocations while loading: 421 MiB were measured
// (2.11, CPU). CUDA's take more, which a later check notices.
constexpr uint64_t kLibraryBytes = uint64_t{480} << 20;
// The limit of malloc arenas where address space is limited: each takes 64 MiB of it, and by
// default there are eight per core.
constexpr int kArenas = 2;
// Address space of computing besides stacks and budgets: these arenas, generated code, and OpenMP's
// and MKL's own.
constexpr uint64_t kComputeBytes = uint64_t{224} << 20;

// 0 without /proc.
uint64_t MappedBytes() {
  std::ifstream in("/proc/self/statm");
  uint64_t pages = 0;
  in >> pages;
  return pages * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
}

uint64_t StackBytes() {
  pthread_attr_t attributes;
  size_t bytes = 0;
  if (::pthread_getattr_default_np(&attributes) == 0) {
    ::pthread_attr_getstacksize(&attributes, &bytes);
    ::pthread_attr_destroy(&attributes);
  }
  return bytes;
}

// Checks that `needed_bytes` more addresses are available for `what`.
absl::Status CheckAddresses(uint64_t needed_bytes, absl::string_view what) {
  const uint64_t spare = SpareAddressBytes();
  if (spare >= needed_bytes) return absl::OkStatus();
  const uint64_t mapped = MappedBytes();
  return absl::FailedPreconditionError(absl::StrCat(
      "`ulimit -v` allows this process ", FormatBytes(mapped + spare), " of addresses, of which ",
      FormatBytes(spare), " are left, and ", what, " takes about ", FormatBytes(needed_bytes),
      ": set it to at least ", (mapped + needed_bytes + 1023) / 1024, ", or to unlimited"));
}

void* Wait(void* released) {
  auto& semaphore = *static_cast<std::counting_semaphore<>*>(released);
  semaphore.acquire();
  return nullptr;
}

// How many threads the system allows at a time, and why no more.
struct Started {
  int threads = 0;
  int error = 0;
};
Started StartAtOnce(int threads) {
  std::counting_semaphore<> released(0);
  std::vector<pthread_t> ids(static_cast<size_t>(threads));
  Started started;
  while (started.threads < threads && started.error == 0) {
    started.error = ::pthread_create(&ids[started.threads], nullptr, &Wait, &released);
    started.threads += started.error == 0;
  }
  released.release(started.threads);
  for (int i = 0; i < started.threads; ++i) ::pthread_join(ids[i], nullptr);
  return started;
}

}  // namespace

uint64_t SpareAddressBytes() {
  rlimit limit = {};
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return UINT64_MAX;
  return limit.rlim_cur - std::min<uint64_t>(limit.rlim_cur, MappedBytes());
}

absl::Status CheckAddressesForLibrary() {
  if (SpareAddressBytes() != UINT64_MAX) ::mallopt(M_ARENA_MAX, kArenas);
  return CheckAddresses(kLibraryBytes + kComputeBytes, "what computes, with LibTorch,");
}

absl::Status CheckLimitsForCompute(int compute_threads, uint64_t budget_bytes) {
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  // Threads of OpenMP and of LibTorch's own pool, which starts with as many as the machine has
  // cores; workers, the mover, those of commits and their copies, and one of a library.
  const int threads = compute_threads + std::max(cores, compute_threads) +
                      UpdateWorkersFor(UsableCores(), compute_threads) + 4;
  const uint64_t stacks = static_cast<uint64_t>(threads) * StackBytes();
  absl::Status addresses = CheckAddresses(
      kComputeBytes + stacks + budget_bytes,
      absl::StrCat("computing (", threads, " threads with stacks of ", FormatBytes(StackBytes()),
                   budget_bytes > 0 ? absl::StrCat(", budgets of ", FormatBytes(budget_bytes)) : "",
                   ")"));
  if (!addresses.ok()) return addresses;
  const Started started = StartAtOnce(threads);
  if (started.error == 0) return absl::OkStatus();
  rlimit limit = {};
  const bool limited = ::getrlimit(RLIMIT_NPROC, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  return absl::FailedPreconditionError(absl::StrCat(
      "the system starts ", started.threads, " of the ", threads, " threads that computing needs (",
      std::strerror(started.error), "): raise `ulimit -u`",
      limited ? absl::StrCat(" (", limit.rlim_cur, " now, of all of this user's processes)") : "",
      " or the container's limit of processes (pids.max), or take fewer --threads"));
}

}  // namespace spillway
