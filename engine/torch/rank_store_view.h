// Adapts a RankStore to the store interface of LibTorch's NCCL: throws if the RankStore fails, and
// polls for keys.
#pragma once

#include <string>
#include <vector>

#include "engine/ranks/rank_store.h"
#include "torch/csrc/distributed/c10d/Store.hpp"

namespace spillway {

class RankStoreView : public c10d::Store {
 public:
  // `store` outlives the object.
  RankStoreView(RankStore* store, std::chrono::milliseconds timeout)
      : c10d::Store(timeout), store_(*store) {}

  c10::intrusive_ptr<c10d::Store> clone() override;
  void set(const std::string& key, const std::vector<uint8_t>& value) override;
  std::vector<uint8_t> get(const std::string& key) override;
  int64_t add(const std::string& key, int64_t value) override;
  bool deleteKey(const std::string& key) override;
  bool check(const std::vector<std::string>& keys) override;
  int64_t getNumKeys() override;
  void wait(const std::vector<std::string>& keys) override;
  void wait(const std::vector<std::string>& keys,
            const std::chrono::milliseconds& timeout) override;

 private:
  RankStore& store_;
};

}  // namespace spillway
