#include "engine/torch/loss_total.h"

#include <gtest/gtest.h>

namespace spillway {
namespace {

TEST(LossTotal, OnTheCpuItIsASumOfDoubles) {
  LossTotal total{ComputePlace()};
  double expected = 0;
  for (int i = 1; i <= 100; ++i) {
    const torch::Tensor loss = torch::full({}, 1.0f / static_cast<float>(i));
    expected += static_cast<double>(1.0f / static_cast<float>(i));
    total.Add(loss.requires_grad_());
  }
  EXPECT_EQ(total.value(), expected);
  EXPECT_EQ(total.Read(), expected);
  total.Clear();
  EXPECT_EQ(total.value(), 0);
}

TEST(LossTotal, ElsewhereNothingIsReadBeforeItIsAskedFor) {
  ComputePlace place;
  place.where = torch::kMeta;
  LossTotal total(place);
  EXPECT_EQ(total.Read(), 0);
  total.Add(torch::empty({}, torch::kMeta));
  total.Add(torch::empty({}, torch::kMeta));
  total.Send();
  EXPECT_EQ(total.value(), 0);
  EXPECT_ANY_THROW(total.Read());
  total.Clear();
}

}  // namespace
}  // namespace spillway
