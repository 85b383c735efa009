#include "engine/estimate/estimate.h"

#include "absl/strings/str_split.h"
#include "engine/estimate/estimate_output.h"
#include "engine/families/read_model_shape.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "io/base/format_bytes.h"

namespace spillway {
namespace {

using testing::HasSubstr;
using testing::Not;

EstimateInput Input() {
  const auto document = ParseStrictJson(
      R"({"model_type": "llama", "vocab_size": 4096, "hidden_size": 256, "num_hidden_layers": 4,
          "num_attention_heads": 8, "intermediate_size": 1024})",
      "config.json");
  EstimateInput input;
  input.shape = *ReadModelShape(*document);
  input.model = input.shape.model;
  input.options.device_memory_bytes = 64 * kMiB;
  input.options.host_memory_bytes = 64 * kMiB;
  input.options.swap_paths = {"/swap"};
  input.step = {2, 1, 32};
  input.memory = {ComputeMemory{30 * kMiB}, ComputeMemory{16 * kMiB}, ComputeMemory{16 * kMiB}};
  input.drive_bytes_per_day = 3.84e12;
  return input;
}

const DTypeEstimate& Row(const Estimate& estimate, DType dtype) {
  for (const DTypeEstimate& row : estimate.dtypes) {
    if (row.dtype == dtype) return row;
  }
  ADD_FAILURE();
  return estimate.dtypes.front();
}

TEST(Estimate, BytesAParameterByDtypeAndOptimizer) {
  EstimateInput input = Input();
  const uint64_t n = input.shape.model.parameter_count();
  const auto adamw = MakeEstimate(input);
  ASSERT_TRUE(adamw.ok()) << adamw.status();
  const auto expect = [&](const DTypeEstimate& row, uint64_t weights, uint64_t gradients,
                          uint64_t optimizer) {
    EXPECT_EQ(row.weights_bytes, weights * n);
    EXPECT_EQ(row.gradients_bytes, gradients * n);
    EXPECT_EQ(row.optimizer_bytes, optimizer * n);
  };
  expect(Row(*adamw, DType::kFloat32), 4, 4, 8);
  expect(Row(*adamw, DType::kBFloat16), 2, 2, 10);
  expect(Row(*adamw, DType::kFloat16), 2, 2, 12);
  EXPECT_EQ(Row(*adamw, DType::kBFloat16).activations_bytes, 21 * kMiB);
  // The embedding is the largest unit.
  EXPECT_EQ(Row(*adamw, DType::kFloat16).largest_layer_bytes,
            2u * (4 * 256 * 256 + 3 * 256 * 1024 + 512));

  input.options.optimizer.kind = OptimizerSpec::Kind::kSgd;
  expect(Row(*MakeEstimate(input), DType::kFloat32), 4, 4, 0);
  input.options.optimizer.momentum = 0.9;
  expect(Row(*MakeEstimate(input), DType::kFloat32), 4, 4, 4);
}

TEST(Estimate, TiersAreThePlansAndFitTheBudgets) {
  for (Offload offload : {Offload::kAuto, Offload::kCpu, Offload::kNvme}) {
    EstimateInput input = Input();
    input.options.offload_param = input.options.offload_optimizer = offload;
    input.options.host_memory_bytes = 400 * kMiB;
    const auto e = MakeEstimate(input);
    ASSERT_TRUE(e.ok() && e->fits);
    const TierBytes& device = e->tiers[static_cast<int>(Tier::kDevice)];
    const TierBytes& host = e->tiers[static_cast<int>(Tier::kHost)];
    EXPECT_LE(device.weights + device.optimizer + device.gradients + device.activations,
              input.options.device_memory_bytes);
    // But for pages that are not full.
    EXPECT_NEAR(static_cast<double>(host.weights + host.optimizer + host.gradients + host.staging),
                static_cast<double>(e->plan.swaps->host_arena_bytes + e->plan.book_bytes), 1e5);
    EXPECT_EQ(e->tiers[static_cast<int>(Tier::kNvme)].optimizer > 0, offload == Offload::kNvme);
  }
}

// Micro-batch and accumulation are each rank's, and so is all that is counted but tokens.
TEST(Estimate, OneRankOfSeveralHasItsShare) {
  EstimateInput input = Input();
  input.options.host_memory_bytes = 400 * kMiB;
  const auto alone = MakeEstimate(input);
  input.options.device_memory_bytes = 128 * kMiB;
  input.options.ranks = input.options.shard_group_size = 4;
  const auto e = MakeEstimate(input);
  ASSERT_TRUE(alone.ok() && e.ok()) << e.status();
  const uint64_t n = input.shape.model.parameter_count();
  const DTypeEstimate& row = Row(*e, DType::kBFloat16);
  EXPECT_EQ(row.weights_bytes, 2 * ((n + 3) / 4));
  EXPECT_EQ(row.optimizer_bytes, 10 * ((n + 3) / 4));
  EXPECT_EQ(row.activations_bytes, Row(*alone, DType::kBFloat16).activations_bytes);
  EXPECT_EQ(row.whole_bytes, e->plan.whole_bytes);
  EXPECT_GT(row.whole_bytes, 0u);
  EXPECT_EQ(Row(*alone, DType::kBFloat16).whole_bytes, 0u);
  EXPECT_LT(e->store_bytes, alone->store_bytes / 3);
  const nlohmann::json json = EstimateJson(*e);
  EXPECT_EQ(json["ranks"], 4);
  EXPECT_EQ(json["shard"], "full");
  EXPECT_EQ(json["tokens_per_step"], 4 * EstimateJson(*alone)["tokens_per_step"].get<int64_t>());
  EXPECT_EQ(json["tiers"]["device"]["whole_units"], row.whole_bytes);
  EXPECT_EQ(json["bytes_collective_per_step"].get<uint64_t>(), e->collective.total_bytes());
  EXPECT_GT(json["bytes_gathered_per_step"], 0);
  EXPECT_GT(json["bytes_summed_per_step"], 0);
  EXPECT_EQ(EstimateJson(*alone)["bytes_collective_per_step"], 0);
  const std::string text = EstimateText(*e);
  EXPECT_THAT(text, HasSubstr("on each of 4 ranks"));
  EXPECT_THAT(text, HasSubstr("What one rank has, --shard full, by dtype"));
  EXPECT_THAT(text, HasSubstr("whole units"));
  EXPECT_THAT(text, HasSubstr(" a step to other ranks: weights "));
  for (absl::string_view line : absl::StrSplit(text, '\n')) EXPECT_LE(line.size(), 80u) << line;
  EXPECT_THAT(EstimateText(*alone), Not(HasSubstr("rank")));
}

TEST(Estimate, WhatExchangesWereTimedWithIsSaid) {
  EstimateInput input = Input();
  input.options.ranks = input.options.shard_group_size = 4;
  auto e = MakeEstimate(input);
  ASSERT_TRUE(e.ok()) << e.status();
  EXPECT_TRUE(EstimateJson(*e)["collective_rates"].is_null());
  EXPECT_THAT(EstimateText(*e), Not(HasSubstr("exchanges")));
  e->forecast.emplace();
  e->forecast->phases[0].collective_seconds = 2.5;
  e->input.collective = kAssumedRates;
  e->input.collective_assumed = true;
  nlohmann::json json = EstimateJson(*e);
  EXPECT_EQ(json["phases"]["forward"]["collective"], 2.5);
  EXPECT_EQ(json["collective_rates"]["from"], "assumption");
  EXPECT_EQ(json["collective_rates"]["sum_bytes_per_second"], 1.25e9);
  EXPECT_THAT(EstimateText(*e), HasSubstr("exchanges at 1.25 GB/s gathered, 1.25 GB/s summed, 0.1 "
                                          "ms each, an"));
  EXPECT_THAT(EstimateText(*e), HasSubstr("assumption"));
  e->input.collective_assumed = false;
  EXPECT_EQ(EstimateJson(*e)["collective_rates"]["from"], "profile");
  EXPECT_THAT(EstimateText(*e), Not(HasSubstr("assumption")));
}

TEST(Estimate, WhatARankNeedsAtLeastIsExact) {
  for (Shard mode : {Shard::kNone, Shard::kGradients, Shard::kFull}) {
    EstimateInput input = Input();
    input.options.ranks = 3;
    input.options.shard = mode;
    input.options.shard_group_size = mode == Shard::kNone ? 1 : 3;
    input.options.host_memory_bytes = 0;
    const BudgetPair least = MakeEstimate(input)->minimums.pair;
    for (uint64_t device_less : {0, 1}) {
      for (uint64_t host_less : {0, 1}) {
        input.options.device_memory_bytes = least.device_bytes - device_less;
        input.options.host_memory_bytes = least.host_bytes - host_less;
        EXPECT_EQ(MakeEstimate(input)->fits, device_less + host_less == 0);
      }
    }
  }
}

TEST(Estimate, FilesHoldTheStateTwiceWithCommits) {
  EstimateInput input = Input();
  input.options.offload_param = input.options.offload_optimizer = Offload::kNvme;
  input.options.clip = 0;
  const uint64_t twice = MakeEstimate(input)->store_bytes;
  input.options.no_commit = true;
  const auto once = MakeEstimate(input);
  EXPECT_EQ(twice, 2 * once->store_bytes);
  EXPECT_EQ(once->store_bytes, once->plan.swaps->layout.TotalPaddedParameters() * 12);
  input.options.offload_param = input.options.offload_optimizer = Offload::kCpu;
  EXPECT_EQ(MakeEstimate(input)->store_bytes, 0u);
}

TEST(Estimate, WhatDoesNotFitIsPlannedWithTheLeast) {
  EstimateInput input = Input();
  input.options.host_memory_bytes = kMiB;
  const auto e = MakeEstimate(input);
  ASSERT_TRUE(e.ok()) << e.status();
  EXPECT_FALSE(e->fits);
  EXPECT_EQ(e->plan.host_limit_bytes, e->minimums.pair.host_bytes);
  EXPECT_EQ(e->plan.device_limit_bytes, e->minimums.pair.device_bytes);
  EXPECT_GT(e->plan.swaps->traffic.written_bytes, 0u);
  EXPECT_THAT(EstimateText(*e), HasSubstr("It does not fit"));
  EXPECT_EQ(EstimateJson(*e)["fits"], false);
}

TEST(Estimate, ImmediateUpdatesAreNotAskedOfOtherDtypes) {
  EstimateInput input = Input();
  input.options.update = UpdateChoice::kImmediate;
  input.options.clip = 0;
  const auto e = MakeEstimate(input);
  ASSERT_TRUE(e.ok()) << e.status();
  EXPECT_EQ(EstimateJson(*e)["update"], "immediate");
  input.options.clip = 1;
  EXPECT_EQ(MakeEstimate(input).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(Estimate, DriveDaysAreBytesWrittenOverARatedDay) {
  EstimateInput input = Input();
  input.options.offload_param = input.options.offload_optimizer = Offload::kNvme;
  input.drive_bytes_per_day = 1e9;
  auto json = EstimateJson(*MakeEstimate(input));
  const double written = json["bytes_written_per_step"];
  EXPECT_DOUBLE_EQ(json["drive_days_per_step"], written / 1e9);
  EXPECT_TRUE(json["drive_days"].is_null());
  input.options.steps = 50;
  json = EstimateJson(*MakeEstimate(input));
  EXPECT_DOUBLE_EQ(json["drive_days"], 50 * written / 1e9);
}

TEST(Estimate, TextStaysWithin80Columns) {
  EstimateInput input = Input();
  input.shape.notes = {std::string(30, 'x') + " words that go on and on and on, " +
                       std::string(30, 'y') + " and on"};
  auto e = MakeEstimate(input);
  ASSERT_TRUE(e.ok());
  ForecastInput forecast;
  forecast.forward_seconds = 1;
  forecast.backward_seconds = 3;
  e->forecast = Forecast(forecast);
  const std::string text = EstimateText(*e);
  for (absl::string_view line : absl::StrSplit(text, '\n')) EXPECT_LE(line.size(), 80u) << line;
  EXPECT_THAT(text, HasSubstr("4 s a step, at least 4 s, bound by computing"));
  EXPECT_THAT(text, HasSubstr("16 tokens/s"));
  EXPECT_EQ(EstimateJson(*e)["binding"]["backward"], "compute");
}

}  // namespace
}  // namespace spillway
