#include "engine/options/train_options.h"

#include <cmath>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace spillway {
namespace {

using testing::HasSubstr;

TEST(TrainOptions, NumbersNoRunCanDoWithAreRefusedByName) {
  EXPECT_EQ(ValidateTrainOptions({}), absl::OkStatus());
  const auto refused = [](const std::string& name, auto change) {
    TrainOptions options;
    change(options);
    const absl::Status status = ValidateTrainOptions(options);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << name;
    EXPECT_THAT(std::string(status.message()), HasSubstr("TrainOptions::" + name + " is "));
  };
  refused("micro_batch", [](TrainOptions& o) { o.micro_batch = 0; });
  refused("accumulate", [](TrainOptions& o) { o.accumulate = 0; });
  refused("steps", [](TrainOptions& o) { o.steps = -1; });
  refused("epochs", [](TrainOptions& o) { o.epochs = std::nan(""); });
  refused("threads", [](TrainOptions& o) { o.threads = -1; });
  refused("update_threads", [](TrainOptions& o) { o.update_threads = -1; });
  refused("clip", [](TrainOptions& o) { o.clip = -1; });
  refused("eval_every", [](TrainOptions& o) { o.eval_every = -1; });
  refused("commit_every", [](TrainOptions& o) { o.commit_every = -1; });
  refused("keep", [](TrainOptions& o) { o.persist = "copies", o.keep = 0; });
  refused("ranks", [](TrainOptions& o) { o.ranks = 0; });
  refused("rank", [](TrainOptions& o) { o.rank = 1; });
  refused("tile_parameters", [](TrainOptions& o) { o.tile_parameters = 1000; });
}

}  // namespace
}  // namespace spillway
