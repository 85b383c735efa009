#include "engine/base/nearest.h"

#include "gtest/gtest.h"

namespace spillway {
namespace {

const std::vector<std::string> kKnown = {
    "train_batch_size", "optimizer", "gradient_clipping", "bf16", "aio", "--micro-batch", "lr"};

TEST(NearestName, FindsSlipsOfTheKeyboard) {
  EXPECT_EQ(NearestName("optimzer", kKnown), "optimizer");
  EXPECT_EQ(NearestName("opitmizer", kKnown), "optimizer");
  EXPECT_EQ(NearestName("gradient_cliping", kKnown), "gradient_clipping");
  EXPECT_EQ(NearestName("--micro_batch", kKnown), "--micro-batch");
  EXPECT_EQ(NearestName("BF16", kKnown), "bf16");
  EXPECT_EQ(NearestName("rl", kKnown), "lr");
}

TEST(NearestName, FindsTheNameWithMoreWords) {
  EXPECT_EQ(NearestName("batch_size", kKnown), "train_batch_size");
  EXPECT_EQ(NearestName("--batch", {"--trace", "--micro-batch"}), "--micro-batch");
  EXPECT_EQ(NearestName("--batch", {"--my-micro-batch", "--micro-batch"}), "--micro-batch");
  EXPECT_EQ(NearestName("--length", {"--max-length", "--min-length"}), "") << "either";
  EXPECT_EQ(NearestName("--pack", {"--packing-strategy"}), "") << "a part of a word";
}

TEST(NearestName, FindsTheNameWithFewerWords) {
  const std::vector<std::string> flags = {"--trace", "--l",      "--lr",
                                          "--steps", "--epochs", "--data"};
  EXPECT_EQ(NearestName("--number_of_epochs", flags), "--epochs");
  EXPECT_EQ(NearestName("--data_path", flags), "--data");
  EXPECT_EQ(NearestName("--dataset_text_field", flags), "");
  EXPECT_EQ(NearestName("--steps-per-window", flags), "");
  EXPECT_EQ(NearestName("--allreduce", flags), "");
  EXPECT_EQ(NearestName("--initial_lr", flags), "") << "too short to mean it";
  EXPECT_EQ(NearestName("--", flags), "");
}

TEST(NearestName, TwoLettersMayDifferAndAThirdOfThem) {
  EXPECT_EQ(NearestName("gradeint_clpping", kKnown), "gradient_clipping");
  EXPECT_EQ(NearestName("gradeint_clppin", kKnown), "") << "three";
  EXPECT_EQ(NearestName("oio", kKnown), "aio");
  EXPECT_EQ(NearestName("oia", kKnown), "") << "two of three";
}

TEST(NearestName, ASlipIsNearerThanANameThatIsMerelyLikeIt) {
  EXPECT_TRUE(IsSlipOf("optimzer", "optimizer"));
  EXPECT_TRUE(IsSlipOf("Zero-Optimisation", "zero_optimization"));
  EXPECT_TRUE(IsSlipOf("train_micro_batch_size", "train_micro_batch_size_per_gpu"));
  EXPECT_FALSE(IsSlipOf("gradient_checkpointing", "gradient_clipping"));
  EXPECT_FALSE(IsSlipOf("tensor", "tensor_parallel_size"));
  EXPECT_FALSE(IsSlipOf(std::string(100000, 'x'), "x"));
}

TEST(NearestName, IsEmptyWhenNothingIsNear) {
  EXPECT_EQ(NearestName("curriculum", kKnown), "");
  EXPECT_EQ(NearestName("", kKnown), "");
  EXPECT_EQ(NearestName(std::string(100000, 'x'), kKnown), "");
  EXPECT_EQ(DidYouMean("zzz", kKnown), "");
  EXPECT_EQ(DidYouMean("optimzer", kKnown), "; did you mean 'optimizer'?");
}

}  // namespace
}  // namespace spillway
