#include "swap/device/arena.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "io/base/format_bytes.h"
#include "io/base/status.h"
#include "swap/device/memory_nodes.h"

namespace spillway {
namespace {

constexpr uint64_t kPageBytes = 4096;
constexpr uint64_t kHugePageBytes = 2 << 20;

absl::Status MappingRefused(int error, uint64_t size_bytes, const MemoryBudget* budget) {
  const std::string flag = budget != nullptr ? budget->flag() : "--host-memory";
  return absl::ResourceExhaustedError(absl::StrCat(
      "the system gave no mapping of ", FormatBytes(size_bytes), " for the ",
      budget != nullptr ? budget->name() : "host", " arena (mmap: ", std::strerror(error), "); ",
      flag.empty() ? "" : absl::StrCat("lower ", flag, ", or "),
      "raise the limit on address space (ulimit -v, vm.overcommit_memory)"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Arena>> Arena::CreateOn(Device* device, uint64_t size_bytes,
                                                       MemoryBudget* budget) {
  auto reservation = budget->Reserve(size_bytes, "the arena");
  if (!reservation.ok()) return reservation.status();
  char* data = nullptr;
  if (size_bytes > 0) {
    auto allocated = device->Allocate(size_bytes);
    if (!allocated.ok()) return allocated.status();
    data = *allocated;
  }
  auto arena = std::unique_ptr<Arena>(new Arena(data, size_bytes, *std::move(reservation)));
  arena->device_ = device;
  return arena;
}

absl::StatusOr<std::unique_ptr<Arena>> Arena::Create(uint64_t size_bytes, MemoryBudget* budget,
                                                     Device* pinned_for) {
  if (size_bytes > UINT64_MAX / 2) return MappingRefused(ENOMEM, size_bytes, budget);
  size_bytes = (size_bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
  MemoryReservation reservation;
  if (budget != nullptr) {
    ASSIGN_OR_RETURN(reservation, budget->Reserve(size_bytes, "the arena"));
  }
  if (size_bytes == 0) {
    return std::unique_ptr<Arena>(new Arena(nullptr, 0, std::move(reservation)));
  }

  // Huge pages start at a multiple of their own size, and older kernels place a
  // mapping at any page: map a little more address space and give the rest back.
  const uint64_t slack = size_bytes >= kHugePageBytes ? kHugePageBytes : 0;
  void* mapping =
      mmap(nullptr, size_bytes + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) return MappingRefused(errno, size_bytes, budget);
  char* data = static_cast<char*>(mapping);
  if (slack > 0) {
    const uint64_t before = -reinterpret_cast<uintptr_t>(data) % kHugePageBytes;
    if (before > 0) munmap(data, before);
    data += before;
    if (slack > before) munmap(data + size_bytes, slack - before);
  }
  // A wish: without huge pages the arena is only slower.
  madvise(data, size_bytes, MADV_HUGEPAGE);
  // Wishes, too. A core dump with it would fill a disk, and a child has no use for it: a fork
  // would copy its page tables, and from then on each page that storage or a GPU writes to could
  // be the child's.
  madvise(data, size_bytes, MADV_DONTDUMP);
  madvise(data, size_bytes, MADV_DONTFORK);
  PlaceNearProcessors(data, size_bytes);
  auto arena = std::unique_ptr<Arena>(new Arena(data, size_bytes, std::move(reservation)));
  if (pinned_for != nullptr) {
    const absl::Status pinned = pinned_for->RegisterHost(data, size_bytes);
    if (!pinned.ok()) return pinned;
    arena->pinned_for_ = pinned_for;
  }
  return arena;
}

Arena::~Arena() {
  if (data_ == nullptr) return;
  if (device_ != nullptr) {
    device_->Free(data_);
    return;
  }
  if (pinned_for_ != nullptr) pinned_for_->UnregisterHost(data_);
  munmap(data_, size_bytes_);
}

}  // namespace spillway
