#include "swap/device/memory_budget.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "io/base/check.h"
#include "io/base/format_bytes.h"

namespace spillway {

MemoryReservation& MemoryReservation::operator=(MemoryReservation&& other) noexcept {
  if (this != &other) {
    Release();
    budget_ = std::exchange(other.budget_, nullptr);
    size_bytes_ = std::exchange(other.size_bytes_, 0);
  }
  return *this;
}

void MemoryReservation::Release() {
  if (budget_ != nullptr) budget_->Subtract(size_bytes_);
  budget_ = nullptr;
  size_bytes_ = 0;
}

MemoryBudget::MemoryBudget(absl::string_view name, uint64_t limit_bytes)
    : name_(name), limit_bytes_(limit_bytes) {}

absl::StatusOr<MemoryReservation> MemoryBudget::Reserve(uint64_t size_bytes,
                                                        absl::string_view purpose) {
  if (!TryAdd(size_bytes)) {
    const uint64_t used = used_bytes();
    const uint64_t wanted = size_bytes > UINT64_MAX - used ? UINT64_MAX : used + size_bytes;
    return absl::ResourceExhaustedError(absl::StrCat(
        name_, " memory: ", FormatBytes(size_bytes), " needed for ", purpose, ", ",
        FormatBytes(used), " of ", FormatBytes(limit_bytes_), " in use",
        flag().empty()
            ? ""
            : absl::StrCat("; raise ", flag(), " to at least ", FormatBytesForFlag(wanted))));
  }
  MemoryReservation reservation;
  reservation.budget_ = this;
  reservation.size_bytes_ = size_bytes;
  return reservation;
}

std::string MemoryBudget::flag() const {
  return name_ == "host" || name_ == "device" ? absl::StrCat("--", name_, "-memory") : "";
}

bool MemoryBudget::TryAdd(uint64_t size_bytes) {
  MutexLock lock(mutex_);
  if (size_bytes > limit_bytes_ - used_bytes_) return false;
  used_bytes_ += size_bytes;
  peak_bytes_ = std::max(peak_bytes_, used_bytes_);
  return true;
}

void MemoryBudget::Subtract(uint64_t size_bytes) {
  MutexLock lock(mutex_);
  SPILLWAY_CHECK(size_bytes <= used_bytes_);
  used_bytes_ -= size_bytes;
}

uint64_t MemoryBudget::used_bytes() const {
  MutexLock lock(mutex_);
  return used_bytes_;
}

uint64_t MemoryBudget::peak_bytes() const {
  MutexLock lock(mutex_);
  return peak_bytes_;
}

void MemoryBudget::ResetPeak() {
  MutexLock lock(mutex_);
  peak_bytes_ = used_bytes_;
}

}  // namespace spillway
