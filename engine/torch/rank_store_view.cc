#include "engine/torch/rank_store_view.h"

#include <chrono>
#include <optional>
#include <thread>

#include "absl/strings/str_cat.h"
#include "c10/util/Exception.h"

namespace spillway {
namespace {

template <typename T>
T ValueOrThrow(absl::StatusOr<T> value) {
  if (!value.ok()) C10_THROW_ERROR(DistStoreError, std::string(value.status().message()));
  return *std::move(value);
}

}  // namespace

c10::intrusive_ptr<c10d::Store> RankStoreView::clone() {
  return c10::make_intrusive<RankStoreView>(&store_, timeout_);
}

void RankStoreView::set(const std::string& key, const std::vector<uint8_t>& value) {
  const absl::Status status =
      store_.Set(key, {reinterpret_cast<const char*>(value.data()), value.size()});
  if (!status.ok()) C10_THROW_ERROR(DistStoreError, std::string(status.message()));
}

std::vector<uint8_t> RankStoreView::get(const std::string& key) {
  wait({key}, timeout_);
  const std::string value = ValueOrThrow(store_.Get(key)).value_or("");
  return {value.begin(), value.end()};
}

int64_t RankStoreView::add(const std::string& key, int64_t value) {
  return ValueOrThrow(store_.Add(key, value));
}

bool RankStoreView::deleteKey(const std::string& key) { return ValueOrThrow(store_.Erase(key)); }

bool RankStoreView::check(const std::vector<std::string>& keys) {
  for (const std::string& key : keys) {
    if (!ValueOrThrow(store_.Get(key)).has_value()) return false;
  }
  return true;
}

int64_t RankStoreView::getNumKeys() {
  C10_THROW_ERROR(NotImplementedError, "the ranks' table does not tell its size");
}

void RankStoreView::wait(const std::vector<std::string>& keys) { wait(keys, timeout_); }

void RankStoreView::wait(const std::vector<std::string>& keys,
                         const std::chrono::milliseconds& timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (!check(keys)) {
    if (std::chrono::steady_clock::now() >= deadline) {
      C10_THROW_ERROR(DistStoreError, absl::StrCat("timed out waiting for ", keys.front()));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

}  // namespace spillway
