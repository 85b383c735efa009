#include "engine/weights/packed_cache.h"

#include "io/base/status.h"

namespace spillway {

absl::StatusOr<std::shared_ptr<const PackedCache::Bytes>> PackedCache::Get(
    const std::string& name, const std::function<absl::Status(Bytes* bytes)>& make) {
  const std::shared_ptr<Entry> entry = Find(name);
  MutexLock lock(entry->mutex);
  if (!entry->made) {
    entry->status = make(&entry->bytes);
    entry->made = true;
  }
  RETURN_IF_ERROR(entry->status);
  return std::shared_ptr<const Bytes>(entry, &entry->bytes);
}

std::shared_ptr<PackedCache::Entry> PackedCache::Find(const std::string& name) {
  constexpr size_t kMostKept = 2;
  MutexLock lock(mutex_);
  for (const auto& [kept, entry] : kept_) {
    if (kept == name) return entry;
  }
  if (kept_.size() == kMostKept) kept_.pop_front();
  kept_.emplace_back(name, std::make_shared<Entry>());
  return kept_.back().second;
}

}  // namespace spillway
