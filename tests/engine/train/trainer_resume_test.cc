// A run that is to go on with another model than its commit has.
#include <algorithm>
#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/train/trainer_testing.h"

namespace spillway {
namespace {

using testing::HasSubstr;

class TrainerResumeTest : public TrainerTest {
 protected:
  void ExpectRefusal(const std::string& part, bool moved) {
    ASSERT_EQ(LayOutParameters(model_), absl::OkStatus());
    TrainOptions options = Options("run");
    options.resume = true;
    if (moved) options.swap_paths = {folder_ + "/b"};
    TrainResult result;
    const absl::Status status = Train(options, &result).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(part));
  }
};

TEST_F(TrainerResumeTest, AnotherModelIsRefusedBeforeTheStoreIsOpened) {
  TrainResult result;
  ASSERT_TRUE(Train(Options("run"), &result, /*stop_after=*/5).ok());
  const ModelDescription committed = model_;
  for (const bool moved : {false, true}) {
    model_ = committed;  // as large as it was
    std::swap(model_.units[1].parameters[0].shape[0], model_.units[1].parameters[0].shape[1]);
    ExpectRefusal("\"u1.weight\" [91, 61] and is now \"u1.weight\" [61, 91]", moved);
    model_ = committed;
    model_.units[1].parameters[0].name = "other";
    ExpectRefusal("\"u1.weight\" [91, 61] and is now \"other\" [91, 61]", moved);
    model_ = committed;
    model_.units.push_back({.name = "u4", .parameters = {{"u4.bias", {9000}}}});
    ExpectRefusal("unit 4 was not there and is now \"u4\"", moved);
    model_.units.resize(3);
    ExpectRefusal("unit 3 was \"u3\" and is now not there", moved);
  }
  model_ = committed;
  TrainOptions options = Options("run");
  options.resume = true;
  EXPECT_TRUE(Train(options, &result).ok());
}

}  // namespace
}  // namespace spillway
