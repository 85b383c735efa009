// Hard limits on memory, and who holds how much of it.
#pragma once

#include <cstdint>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "io/base/mutex.h"

namespace spillway {

class MemoryBudget;

// Bytes of a budget, held. Move-only; gives itself back. The budget must
// outlive it.
class MemoryReservation {
 public:
  MemoryReservation() = default;
  ~MemoryReservation() { Release(); }
  MemoryReservation(MemoryReservation&& other) noexcept { *this = std::move(other); }
  MemoryReservation& operator=(MemoryReservation&& other) noexcept;

  uint64_t size_bytes() const { return size_bytes_; }
  void Release();

 private:
  friend class MemoryBudget;
  MemoryBudget* budget_ = nullptr;
  uint64_t size_bytes_ = 0;
};

// Any thread.
class MemoryBudget {
 public:
  // `name` is what messages call it: "host", "device".
  MemoryBudget(absl::string_view name, uint64_t limit_bytes);

  // kResourceExhausted names the budget, its flag where it has one, the limit, what is in use and
  // what `purpose` needs. A refused reservation changes nothing.
  absl::StatusOr<MemoryReservation> Reserve(uint64_t size_bytes, absl::string_view purpose);

  // Reserve for allocators, which keep no lease: counts the bytes and returns true, or false where
  // they do not fit. Subtract gives them back.
  bool TryAdd(uint64_t size_bytes);
  void Subtract(uint64_t size_bytes);

  const std::string& name() const { return name_; }
  // "--host-memory"; "" of a budget that no user gives.
  std::string flag() const;
  uint64_t limit_bytes() const { return limit_bytes_; }
  uint64_t used_bytes() const;
  uint64_t peak_bytes() const;
  void ResetPeak();

 private:
  const std::string name_;
  const uint64_t limit_bytes_;
  mutable Mutex mutex_;
  uint64_t used_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t peak_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace spillway
