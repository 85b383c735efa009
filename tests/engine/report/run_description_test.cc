#include "engine/report/run_description.h"

#include <filesystem>
#include <fstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace spillway {
namespace {

using testing::HasSubstr;

RunDescription Described() {
  RunDescription run;
  run.parameters = 77;
  run.steps = 9;
  run.ranks = 4;
  run.dtype = "fp16";
  run.deferred = true;
  run.computing_bytes = 12345;
  run.predicted_at_observed_rates_seconds = 1.25;
  run.planes = {{"weight", 2}};
  run.units = {{"h.0", 77, {154, "nvme"}, {0, "host"}, {154, "device"}}};
  run.parts = {{1.5, 2.5, 1, 4, "stopped", "SIGTERM", "node7"}};
  run.parts[0].origin = {"0.1.0", "f629393f5039", "Release", {"spillway", "train"}};
  run.parts[0].machine = {"Xeon", 8, 1ull << 35};
  run.clip = 0.5;
  run.data = {"texts", 12, 345, 6};
  AddCommit(run, {4, 2.25});
  return run;
}

TEST(RunDescription, JsonHoldsAllOfIt) {
  const nlohmann::json json = ToJson(Described());
  const auto back = RunDescriptionFromJson(json);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(ToJson(*back), json);
  EXPECT_EQ(back->parts[0].message, "SIGTERM");
  EXPECT_EQ(back->units[0].gradients.tier, "device");
  EXPECT_EQ(back->commits[0].time, 2.25);
  EXPECT_EQ(back->ranks, 4);
  EXPECT_EQ(back->parts[0].origin.arguments.size(), 2u);
  EXPECT_EQ(back->parts[0].machine.cpu, "Xeon");
  EXPECT_EQ(back->clip, 0.5);
  EXPECT_EQ(back->data.tokens, 345);
  EXPECT_EQ(back->predicted_at_observed_rates_seconds, 1.25);
  RunDescription running = Described();
  running.predicted_at_observed_rates_seconds.reset();
  EXPECT_FALSE(RunDescriptionFromJson(ToJson(running))->predicted_at_observed_rates_seconds);
}

TEST(RunDescription, EveryMemberIsNeededAndOfItsKind) {
  const nlohmann::json good = ToJson(Described());
  for (const auto& [name, value] : good.items()) {
    SCOPED_TRACE(name);
    nlohmann::json bad = good;
    bad.erase(name);
    // Earlier versions of the program did not write these.
    const bool newer = name == "compute" || name == "trainable_parameters" || name == "rank" ||
                       name == "ranks" || name == "drive_bytes_per_day" ||
                       name == "written_bytes" || name == "predicted_at_observed_rates_seconds" ||
                       name == "clip" || name == "changes" || name == "data" ||
                       name == "evaluation_data";
    EXPECT_EQ(RunDescriptionFromJson(bad).ok(), newer);
    bad[name] = {{"what", "is this"}};
    EXPECT_FALSE(RunDescriptionFromJson(bad).ok());
  }
  EXPECT_FALSE(RunDescriptionFromJson(nullptr).ok());
}

TEST(RunDescription, PartsOfEarlierVersionsAreRead) {
  nlohmann::json old = ToJson(Described());
  for (const char* name :
       {"version", "commit", "build", "command", "cpu", "cores", "memory_bytes"}) {
    old["parts"][0].erase(name);
  }
  const auto run = RunDescriptionFromJson(old);
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->parts[0].host, "node7");
  EXPECT_EQ(VersionOf(run->parts[0]), "");
  EXPECT_TRUE(run->parts[0].origin.arguments.empty());
  old["parts"][0]["command"] = "spillway";
  EXPECT_FALSE(RunDescriptionFromJson(old).ok());
}

TEST(RunDescription, AVersionHasItsCommit) {
  RunPart part;
  part.origin.version = "0.1.0";
  EXPECT_EQ(VersionOf(part), "0.1.0");
  part.origin.commit = "abc+";
  EXPECT_EQ(VersionOf(part), "0.1.0 (abc+)");
}

TEST(RunDescription, EpochsAreOfAllRanksSamples) {
  RunDescription run;
  run.micro_batch = 2;
  run.accumulate = 3;
  run.ranks = 4;
  EXPECT_EQ(Epochs(run, 10), 0);
  run.data.samples = 480;
  EXPECT_EQ(Epochs(run, 10), 0.5);
}

TEST(RunDescription, UnitsCountParametersNotWords) {
  ModelDescription model;
  ParameterDescription matrix{"up", {20, 8}};
  matrix.packing = {PackedFormat::kInt8, 2};
  model.units = {{"h.0", {{"norm", {8}}, matrix}}};
  ASSERT_EQ(LayOutParameters(model), absl::OkStatus());
  ASSERT_NE(model.units[0].flat_parameters, 168);
  SwapPlan plan;
  plan.layout = DescribeState(model, {}, DType::kBFloat16, 0);
  plan.placements.resize(1);
  plan.deferred.resize(1);
  plan.activations.resize(1);
  plan.activation_bytes.resize(1);
  plan.rounded_sums.resize(1);
  EXPECT_EQ(DescribeRun({}, model, plan).units[0].parameters, 168u);
}

TEST(RunDescription, NumbersThatNoRunHasAreRefused) {
  const nlohmann::json good = ToJson(Described());
  for (const char* patch :
       {R"({"steps": 1e300})", R"({"steps": 1.5})", R"({"threads": 4294967297})",
        R"({"parameters": -1})", R"({"planes": [["weight", 1e300]]})",
        R"({"micro_batch": 9223372036854775807, "accumulate": 2})", R"({"accumulate": -1})",
        R"({"ranks": 0})", R"({"rank": 4})", R"({"rank": -1})",
        R"({"micro_batch": 2305843009213693952, "accumulate": 1, "ranks": 4})"}) {
    nlohmann::json bad = good;
    bad.merge_patch(nlohmann::json::parse(patch));
    EXPECT_EQ(RunDescriptionFromJson(bad).status().code(), absl::StatusCode::kInvalidArgument)
        << patch;
  }
}

TEST(RunDescription, ADamagedFileIsNamed) {
  const std::string output = testing::TempDir();
  EXPECT_EQ(ReadRunDescription(output).status().code(), absl::StatusCode::kNotFound);
  std::ofstream(RunDescriptionPath(output)) << "{\"version\": 2}";
  const absl::Status status = ReadRunDescription(output).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("run.json"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("version 2"));
  std::filesystem::remove(RunDescriptionPath(output));
}

TEST(RunDescription, ManyCommitsAreThinnedOutAndCounted) {
  RunDescription run;
  for (int64_t step = 1; step <= 5000; ++step) {
    AddCommit(run, {step, 0.5 * step});
    ASSERT_LE(run.commits.size(), kMostCommits);
  }
  EXPECT_EQ(run.commit_count, 5000);
  EXPECT_EQ(run.commits.front().step, 1);
  for (int64_t i = 1; i <= 400; ++i) {
    EXPECT_EQ(run.commits[run.commits.size() - i].step, 5001 - i);
  }
  for (size_t i = 1; i < run.commits.size(); ++i) {
    EXPECT_LT(run.commits[i - 1].step, run.commits[i].step);
  }
}

}  // namespace
}  // namespace spillway
