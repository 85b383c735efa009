#include "engine/torch/device_memory.h"

#include <c10/core/CPUAllocator.h>
#include <malloc.h>
#include <sys/mman.h>
#include <torch/types.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <unordered_map>

#include "io/base/cache.h"
#include "io/base/check.h"
#include "io/base/format_bytes.h"
#include "io/base/mutex.h"

namespace spillway {
namespace {

constexpr size_t kAlignment = 64;
// Blocks of this size are mapped, and cached for reuse.
constexpr size_t kLargeBytes = 256 * 1024;
constexpr size_t kLargeGranule = 64 * 1024;

size_t RoundUp(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }

class BudgetedAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    void* data = bytes == 0 ? nullptr : Take(bytes);
    return {data, data, &Delete, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &Delete; }
  void copy_data(void* to, const void* from, size_t count) const override {
    default_copy_data(to, from, count);
  }

  void SetBudget(MemoryBudget* budget) {
    MutexLock lock(mutex_);
    TrimLocked();
    // Live bytes move to the new budget.
    if (budget_ != nullptr) budget_->Subtract(live_);
    budget_ = budget;
    if (budget_ != nullptr) SPILLWAY_CHECK(budget_->TryAdd(live_));
  }

  void Trim() {
    MutexLock lock(mutex_);
    TrimLocked();
  }
  bool TryCount(uint64_t bytes) {
    MutexLock lock(mutex_);
    return TryCountLocked(bytes);
  }
  void Uncount(uint64_t bytes) {
    MutexLock lock(mutex_);
    if (budget_ != nullptr) budget_->Subtract(bytes);
  }
  void Evict() {
    MutexLock lock(mutex_);
    for (const auto& [data, size] : sizes_) EvictFromCaches(data, size);
  }
  uint64_t live() {
    MutexLock lock(mutex_);
    return live_;
  }
  uint64_t held() {
    MutexLock lock(mutex_);
    return live_ + kept_bytes_;
  }
  uint64_t peak() {
    MutexLock lock(mutex_);
    return peak_;
  }
  void ResetPeak() {
    MutexLock lock(mutex_);
    peak_ = live_;
  }

 private:
  static void Delete(void* data);

  void* Take(size_t bytes) {
    MutexLock lock(mutex_);
    size_t size = RoundUp(bytes, kAlignment);
    const bool large = size >= kLargeBytes;
    if (large) size = RoundUp(size, kLargeGranule);
    void* data = nullptr;
    if (large) {
      // The smallest cached block that wastes little.
      const auto it = kept_.lower_bound(size);
      if (it != kept_.end() && it->first <= size + size / 8) {
        size = it->first;
        data = it->second;
        kept_bytes_ -= size;
        kept_.erase(it);
      }
    }
    if (data == nullptr) data = Allocate(size, large);
    sizes_[data] = size;
    live_ += size;
    peak_ = std::max(peak_, live_);
    return data;
  }

  void* Allocate(size_t size, bool large) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    TORCH_CHECK_WITH(OutOfMemoryError, TryCountLocked(size), "device memory: ", FormatBytes(size),
                     " more are needed, ", FormatBytes(budget_->used_bytes()), " of ",
                     FormatBytes(budget_->limit_bytes()), " are in use; raise --device-memory");
    void* data = nullptr;
    if (large) {
      data = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (data == MAP_FAILED) data = nullptr;
      if (data != nullptr && size >= (size_t{2} << 20)) madvise(data, size, MADV_HUGEPAGE);
    } else if (posix_memalign(&data, kAlignment, size) != 0) {
      data = nullptr;
    }
    if (data == nullptr) {
      if (budget_ != nullptr) budget_->Subtract(size);
      TORCH_CHECK_WITH(OutOfMemoryError, false, "the system has no ", FormatBytes(size), " left");
    }
    return data;
  }

  void Give(void* data) {
    MutexLock lock(mutex_);
    const auto it = sizes_.find(data);
    SPILLWAY_CHECK(it != sizes_.end());
    const size_t size = it->second;
    sizes_.erase(it);
    live_ -= size;
    if (size >= kLargeBytes) {
      kept_.emplace(size, data);
      kept_bytes_ += size;
    } else {
      std::free(data);
      if (budget_ != nullptr) budget_->Subtract(size);
    }
  }

  // False if the budget has no room, after all cached blocks are freed.
  bool TryCountLocked(size_t size) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    while (budget_ != nullptr && !budget_->TryAdd(size)) {
      if (!DropOne(size)) return false;
    }
    return true;
  }

  // Frees the smallest cached block that makes room for `size` bytes, or the largest one. False if
  // there is none.
  bool DropOne(size_t size) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (kept_.empty()) return false;
    const uint64_t used = budget_->used_bytes(), limit = budget_->limit_bytes();
    const uint64_t missing = used + size > limit ? used + size - limit : 0;
    auto it = kept_.lower_bound(missing);
    if (it == kept_.end()) --it;
    munmap(it->second, it->first);
    budget_->Subtract(it->first);
    kept_bytes_ -= it->first;
    kept_.erase(it);
    return true;
  }

  void TrimLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    for (const auto& [size, data] : kept_) {
      munmap(data, size);
      if (budget_ != nullptr) budget_->Subtract(size);
    }
    kept_.clear();
    kept_bytes_ = 0;
  }

  Mutex mutex_;
  MemoryBudget* budget_ ABSL_GUARDED_BY(mutex_) = nullptr;
  std::unordered_map<void*, size_t> sizes_ ABSL_GUARDED_BY(mutex_);
  std::multimap<size_t, void*> kept_ ABSL_GUARDED_BY(mutex_);
  uint64_t kept_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t live_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t peak_ ABSL_GUARDED_BY(mutex_) = 0;
};

// Never destroyed: tensors with static lifetime may outlive main.
BudgetedAllocator& TheAllocator() {
  static auto* allocator = new BudgetedAllocator;
  return *allocator;
}

void BudgetedAllocator::Delete(void* data) {
  if (data != nullptr) TheAllocator().Give(data);
}

}  // namespace

void DeviceMemory::Install(MemoryBudget* budget) {
  static const bool installed = [] {
    // Memory that libraries free is returned to the system.
    mallopt(M_MMAP_THRESHOLD, 512 * 1024);
    mallopt(M_TRIM_THRESHOLD, 1024 * 1024);
    c10::SetCPUAllocator(&TheAllocator(), /*priority=*/100);
    return true;
  }();
  (void)installed;
  TheAllocator().SetBudget(budget);
}

bool DeviceMemory::TryCount(uint64_t bytes) { return TheAllocator().TryCount(bytes); }
void DeviceMemory::Uncount(uint64_t bytes) { TheAllocator().Uncount(bytes); }
uint64_t DeviceMemory::live_bytes() { return TheAllocator().live(); }
uint64_t DeviceMemory::peak_live_bytes() { return TheAllocator().peak(); }
void DeviceMemory::ResetPeak() { TheAllocator().ResetPeak(); }
void DeviceMemory::Evict() { TheAllocator().Evict(); }
uint64_t DeviceMemory::held_bytes() { return TheAllocator().held(); }
void DeviceMemory::Trim() { TheAllocator().Trim(); }

}  // namespace spillway
