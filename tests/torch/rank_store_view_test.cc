#include "engine/torch/rank_store_view.h"

#include <chrono>
#include <thread>

#include "gtest/gtest.h"
#include "torch/csrc/distributed/c10d/PrefixStore.hpp"

namespace spillway {
namespace {

using Bytes = std::vector<uint8_t>;

// As NCCL's process group uses its store: through a prefix, the id from one rank to the others.
TEST(RankStoreView, IsTheTableToLibTorch) {
  RankTable table;
  const auto view = c10::make_intrusive<RankStoreView>(&table, std::chrono::milliseconds(30'000));
  const auto store = c10::make_intrusive<c10d::PrefixStore>("nccl/world", view);
  const Bytes id = {1, 0, 255, 10};
  std::thread first([&] { store->set("0", id); });
  EXPECT_EQ(store->get("0"), id);
  first.join();
  EXPECT_TRUE(store->check({"0"}));
  EXPECT_FALSE(store->check({"0", "1"}));
  EXPECT_EQ(store->add("n", 2), 2);
  EXPECT_EQ(store->clone()->add("n", 3), 5);
  EXPECT_EQ(**table.Get("nccl/world/n"), "5");
  EXPECT_TRUE(store->deleteKey("0"));
  EXPECT_FALSE(store->deleteKey("0"));
  EXPECT_THROW(store->wait({"0"}, std::chrono::milliseconds(20)), std::exception);
  EXPECT_THROW(store->set("big", Bytes(kMostStoreValueBytes + 1)), std::exception);
}

}  // namespace
}  // namespace spillway
