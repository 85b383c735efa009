#include "engine/torch/compute_place.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/torch/host_device.h"

namespace spillway {
namespace {

TEST(ComputePlace, WhatIsThereStaysAndTheRestIsBrought) {
  const torch::Tensor x = torch::ones({3});
  EXPECT_TRUE(BringTo(ComputePlace(), x).is_same(x));
  EXPECT_FALSE(BringTo(ComputePlace(), torch::Tensor()).defined());
  ComputePlace meta;
  meta.where = torch::kMeta;
  EXPECT_FALSE(meta.computes_at_once());
  EXPECT_TRUE(BringTo(meta, x).is_meta());
}

TEST(ComputePlace, ItsMemoryIsTheDevicesAndGoesBack) {
  HostDevice device;
  ComputePlace place;
  place.device = &device;
  {
    auto memory = PlaceMemory::CreateZeroed(place, 1000);
    ASSERT_TRUE(memory.ok()) << memory.status();
    EXPECT_EQ(device.allocated.size(), 1u);
    EXPECT_TRUE(device.allocated.count(memory->data()));
    for (int i = 0; i < 1000; ++i) ASSERT_EQ(memory->data()[i], 0) << i;
    PlaceMemory other = *std::move(memory);
    other = *PlaceMemory::Create(place, 10);
    EXPECT_EQ(device.allocated.size(), 1u);
  }
  EXPECT_TRUE(device.allocated.empty());
  device.most_bytes = 100;
  EXPECT_EQ(PlaceMemory::Create(place, 101).status().code(), absl::StatusCode::kResourceExhausted);
}

TEST(ComputePlace, SettlingIsTheDevicesAffair) {
  EXPECT_TRUE(Settle(ComputePlace()).ok());
  HostDevice device;
  ComputePlace place;
  place.device = &device;
  EXPECT_TRUE(Settle(place).ok());
  EXPECT_EQ(device.synchronizations, 1);
  device.error = absl::InternalError("broken");
  EXPECT_FALSE(Settle(place).ok());
}

}  // namespace
}  // namespace spillway
