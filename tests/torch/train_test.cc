// What Train refuses, and what the caller's own code throws out of it.
#include "engine/torch/train.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <string>

#include "engine/machine/memory_limits.h"
#include "engine/torch/device_memory.h"
#include "engine/weights/state_source.h"
#include "io/base/format_bytes.h"
#include "tests/scratch_directory.h"
#include "tests/torch/small_model.h"

namespace spillway {
namespace {

using testing::HasSubstr;

// Its quality can't be said.
class ThrowingLoss : public SmallLoss {
 public:
  std::vector<QualityMeasure> Quality(absl::Span<const Judgement>, double) const override {
    throw std::runtime_error("no quality");
  }
};

class TrainTest : public testing::Test {
 protected:
  TrainTest() {
    options_.output = dir_ / "out";
    options_.steps = 2;
    options_.threads = 1;
    options_.dtype = DType::kFloat32;
    options_.device_memory_bytes = options_.host_memory_bytes = 16 * kMiB;
    options_.no_commit = true;
  }

  absl::Status Run(const TrainHooks& hooks = {}, Dataset* evaluation = nullptr) {
    return Train(model_, data_, evaluation, nullptr, options_, hooks).status();
  }

  ScratchDirectory dir_;
  TrainOptions options_;
  Model model_{{std::make_shared<SmallUnit>()}, std::make_shared<SmallLoss>()};
  SmallData data_;
};

TEST_F(TrainTest, OptionsOfNoRunAreRefused) {
  options_.micro_batch = 0;
  EXPECT_THAT(std::string(Run().message()), HasSubstr("TrainOptions::micro_batch is 0"));
}

TEST_F(TrainTest, TensorsThatTheCallerHoldsMayNotFit) {
  DeviceMemory::Install(nullptr);
  const torch::Tensor own = torch::zeros({24 * int64_t{kMiB}}, torch::kUInt8);
  const absl::Status status = Run();
  EXPECT_EQ(ExitCodeOf(status), 3) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("--device-memory"));
}

TEST_F(TrainTest, WhatTheCallersCodeThrowsBecomesAStatus) {
  const auto thrown = [&](const TrainHooks& hooks, Dataset* evaluation = nullptr) {
    options_.overwrite = true;
    const absl::Status status = Run(hooks, evaluation);
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << status;
    return std::string(status.message());
  };
  TrainHooks start, end;
  start.at_start = [](const TrainOptions&) -> absl::Status {
    throw std::runtime_error("no start");
  };
  EXPECT_EQ(thrown(start), "TrainHooks::at_start: no start");
  end.at_end = [](const StateSource&) -> absl::Status { throw 3; };
  EXPECT_THAT(thrown(end), HasSubstr("TrainHooks::at_end: "));
  model_.loss = std::make_shared<ThrowingLoss>();
  EXPECT_THAT(thrown({}, &data_), HasSubstr("no quality"));
}

}  // namespace
}  // namespace spillway
