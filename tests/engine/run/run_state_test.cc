#include "engine/run/run_state.h"

#include "engine/run/committed_run.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/engine/format_testing.h"

namespace spillway {
namespace {

using ::testing::HasSubstr;

RunState State() {
  RunState state;
  state.step = 3;
  state.applied_steps = 2;
  state.threads = 2;
  state.identity = {{"seed", "42"}};
  state.parents = {"/nvme"};
  state.model.units = {{.name = "a", .parameters = {{.name = "w", .shape = {4, 8}}}},
                       {.name = "b", .parameters = {{.name = "v", .shape = {3}}}, .borrows = {0}}};
  EXPECT_TRUE(LayOutParameters(state.model).ok());
  return state;
}

// What DecodeRunState makes of the state with one member changed, by its JSON pointer.
absl::Status DecodeWith(const char* pointer, const nlohmann::json& value) {
  nlohmann::json json = nlohmann::json::parse(EncodeRunState(State()));
  json[nlohmann::json::json_pointer(pointer)] = value;
  return DecodeRunState(json.dump()).status();
}

TEST(RunState, ComesBackAsItWas) {
  const std::string text = EncodeRunState(State());
  const auto again = DecodeRunState(text);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(EncodeRunState(*again), text);
  EXPECT_EQ(again->model.units[1].borrows, std::vector<int>{0});
}

// A run that overflows in every step ends though it is resumed again and again. A commit without
// the number is as commits have always been.
TEST(RunState, OverflowsInARowAreCountedOnAfterAResume) {
  EXPECT_EQ(EncodeRunState(State()).find("overflows_in_a_row"), std::string::npos);
  RunState state = State();
  state.loss_scale.overflows_in_a_row = 99;
  const auto again = DecodeRunState(EncodeRunState(state));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->loss_scale, state.loss_scale);
  EXPECT_EQ(DecodeWith("/loss_scale/overflows_in_a_row", -1).code(), absl::StatusCode::kDataLoss);
}

TEST(RunState, FactoredMomentsComeBackToTheBit) {
  RunState state = State();
  state.factored_moments = {1e-30f, 0.1f, -0.0f, 3e38f};
  const auto again = DecodeRunState(EncodeRunState(state));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->factored_moments, state.factored_moments);
  for (const nlohmann::json& value : std::vector<nlohmann::json>{"AAAA", "!", 3}) {
    EXPECT_EQ(DecodeWith("/factored_moments", value).code(), absl::StatusCode::kDataLoss) << value;
  }
}

TEST(RunState, WhatIsNoUtf8IsNamedAndNotEncoded) {
  RunState state = State();
  EXPECT_EQ(CheckEncodable(state), absl::OkStatus());
  state.parents.push_back("/nvme/b\xFF");
  absl::Status status = CheckEncodable(state);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("the path /nvme/b\xFF is no UTF-8"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("--swap"));
  state = State();
  state.identity.emplace_back("freeze", "h.0|\xFF");
  status = CheckEncodable(state);
  EXPECT_THAT(std::string(status.message()), HasSubstr("freeze h.0|\xFF is no UTF-8"));
}

TEST(RunState, SettingsThatWereChangedAndSamplesThatWereTakenComeBack) {
  RunState state = State();
  state.samples = 17;
  state.changes = {{2, "lr", "5e-05", "0.0001"}};
  auto again = DecodeRunState(EncodeRunState(state));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->samples, 17);
  EXPECT_EQ(again->changes, state.changes);
  EXPECT_EQ(DecodeWith("/changes", {{{"step", -1}}}).code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(DecodeWith("/changes", "x").code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(DecodeWith("/samples", -1).code(), absl::StatusCode::kDataLoss);
  // A commit of an earlier version: three steps of two micro-batches of four.
  state.identity = {{"micro-batch", "4"}, {"accumulate", "2"}};
  nlohmann::json json = nlohmann::json::parse(EncodeRunState(state));
  json.erase("samples");
  again = DecodeRunState(json.dump());
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->samples, 24);
}

TEST(RunState, NumbersThatAreNoCountsAreWrongBytes) {
  for (const char* member : {"/step", "/applied_steps", "/threads", "/store_number",
                             "/loss_scale/iteration", "/loss_scale/hysteresis_left"}) {
    for (const nlohmann::json& value :
         std::vector<nlohmann::json>{1e300, 1.5, -2, 18446744073709551615u, "1", nullptr, true}) {
      const absl::Status status = DecodeWith(member, value);
      EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << member << " " << value << status;
    }
  }
  EXPECT_EQ(DecodeWith("/threads", int64_t{1} << 40).code(), absl::StatusCode::kDataLoss);
  EXPECT_TRUE(DecodeWith("/loss_scale/last_overflow_iteration", -1).ok());
}

TEST(RunState, ShapesAndBorrowsThatCannotBeAreWrongBytes) {
  ExpectError(DecodeWith("/model/0/parameters/0/shape", {1e30}), absl::StatusCode::kDataLoss,
              {"impossible shape"});
  ExpectError(DecodeWith("/model/0/parameters/0/shape", {int64_t{1} << 39, 4}),
              absl::StatusCode::kDataLoss, {"impossible shape"});
  ExpectError(DecodeWith("/model/1/borrows", {2}), absl::StatusCode::kDataLoss, {"borrow"});
  ExpectError(DecodeWith("/model/1/borrows", {-1}), absl::StatusCode::kDataLoss, {"borrow"});
  ExpectError(DecodeWith("/model", "x"), absl::StatusCode::kDataLoss, {"no list"});
}

TEST(RunState, DepthIsBounded) {
  EXPECT_EQ(DecodeRunState("{\"version\":" + std::string(1000000, '[')).status().code(),
            absl::StatusCode::kDataLoss);
  const std::string deep = std::string(5000, '[') + std::string(5000, ']');
  EXPECT_FALSE(DecodeRunState("{\"version\":" + deep + "}").ok());
}

TEST(RunState, AnotherVersionIsNamed) {
  ExpectError(DecodeWith("/version", 7), absl::StatusCode::kInvalidArgument, {"version 7"});
}

// Digests and exports walk the model's parameters and the layout's tiles side by side.
TEST(RunState, AModelOfOtherUnitsThanTheTilesIsWrongBytes) {
  const ModelDescription model = State().model;
  const StateLayout layout = DescribeState(model, {}, DType::kBFloat16, 0);
  EXPECT_TRUE(CheckModelFitsLayout(model, layout).ok());
  ModelDescription longer = model;
  longer.units.push_back({.name = "c"});
  EXPECT_EQ(CheckModelFitsLayout(longer, layout).code(), absl::StatusCode::kDataLoss);
  ModelDescription larger = model;
  larger.units[1].parameters[0].shape = {4};
  ASSERT_TRUE(LayOutParameters(larger).ok());
  EXPECT_EQ(CheckModelFitsLayout(larger, layout).code(), absl::StatusCode::kDataLoss);
}

using Identity = std::vector<std::pair<std::string, std::string>>;

RunState Committed(Identity identity) {
  RunState state;
  state.identity = std::move(identity);
  return state;
}

TrainOptions Sharded(int ranks) {
  TrainOptions options;
  options.steps = 10;
  options.ranks = options.shard_group_size = ranks;
  return options;
}

TEST(RunIdentity, WhatDecidesTheNumbersOfRanksAndSchedulesIsCompared) {
  const auto compare = [](const TrainOptions& then, const TrainOptions& now) {
    return std::string(
        CompareIdentity(Committed(RunIdentity(then)), RunIdentity(now)).status().message());
  };
  const TrainOptions two = Sharded(2);
  TrainOptions now = two;
  EXPECT_EQ(compare(two, now), "");
  now.communication_format = ExchangeFormat::kBFloat16;
  EXPECT_THAT(compare(two, now), HasSubstr("communication-dtype was fp32 and is now bf16"));
  now = two;
  now.optimizer.bias_correction = false;
  EXPECT_THAT(compare(two, now), HasSubstr("bias-correction was not given and is now none"));
  now = Sharded(4);
  now.shard = Shard::kHybrid;
  now.shard_group_size = 2;
  TrainOptions four = Sharded(4);
  // The mode and the steps may be changed on resume: that is said, and no error.
  const auto said = [&](const TrainOptions& then, const TrainOptions& options) {
    testing::internal::CaptureStderr();
    EXPECT_EQ(compare(then, options), "");
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_THAT(said(four, now), HasSubstr("shard was one sum and is now hybrid of groups of 2"));
  now = four;
  now.compute = DType::kFloat32;
  EXPECT_THAT(said(four, now), HasSubstr("compute was bf16 and is now fp32"));
  four.shard = Shard::kOptimizer;  // the same sums
  EXPECT_EQ(compare(four, Sharded(4)), "");
  // A constant rate does not depend on how long the run is.
  now = two;
  now.steps = 20;
  EXPECT_EQ(compare(two, now), "");
  TrainOptions cosine = two;
  cosine.schedule.kind = now.schedule.kind = ScheduleSpec::Kind::kCosine;
  EXPECT_THAT(said(cosine, now), HasSubstr("steps was 10 and is now 20"));
  for (TrainOptions* options : {&cosine, &now}) {
    options->schedule.kind = ScheduleSpec::Kind::kWarmupDecayLr;
    options->schedule.total_num_steps = 10;
  }
  EXPECT_EQ(compare(cosine, now), "");
}

TEST(RunIdentity, OtherRanksThatMakeAnotherBatchAreNamedAsWhatTheyAre) {
  TrainOptions then = Sharded(2);
  then.accumulate = 4;
  TrainOptions now = Sharded(4);
  now.accumulate = 4;
  const absl::Status status =
      CompareIdentity(Committed(RunIdentity(then)), RunIdentity(now)).status();
  EXPECT_THAT(
      std::string(status.message()),
      HasSubstr("micro-batches a step (--accumulate x ranks) were 8 and are now 16 (to keep "
                "them, --accumulate is 8 over the number of ranks)"));
  now.accumulate = 2;
  EXPECT_EQ(CompareIdentity(Committed(RunIdentity(then)), RunIdentity(now)).status(),
            absl::OkStatus());
}

TEST(RunIdentity, OtherDataAreNamedByTheirFiles) {
  TrainOptions then = Sharded(1), now = then;
  then.identity = {{"data", "tokens-100-00ff/64"}};
  const auto said = [&](const std::string& data, const std::string& names) {
    now.identity = {{"data", data}};
    return std::string(CompareIdentity(Committed(RunIdentity(then)), RunIdentity(now), {}, names)
                           .status()
                           .message());
  };
  EXPECT_THAT(said("tokens-100-01ff/64", "a.txt,b.txt"),
              HasSubstr("what --data a.txt,b.txt holds is not what the run was begun with"));
  EXPECT_THAT(said("tokens-100-01ff/64", "a.txt,b.txt"), testing::Not(HasSubstr("01ff")));
  // Laid in another way, and of a program that has not said where they are.
  EXPECT_THAT(said("tokens-100-00ff/32", "a.txt"), HasSubstr("data was tokens-100-00ff/64"));
  EXPECT_THAT(said("tokens-101-00ff/64", ""), HasSubstr("data was tokens-100-00ff/64"));
  EXPECT_EQ(said("tokens-100-00ff/64", "c.txt"), "");
}

TEST(RunIdentity, WhatIsAllowedToChangeIsNoted) {
  const TrainOptions then = Sharded(1);
  TrainOptions now = then;
  now.optimizer.learning_rate = 1e-4;
  now.clip = 0.5;
  now.accumulate = 2;
  RunState committed = Committed(RunIdentity(then));
  committed.step = 7;
  const auto compare = [&](const std::vector<std::string>& allowed) {
    return CompareIdentity(committed, RunIdentity(now), allowed);
  };
  // What would allow it is said, where that is all that it takes.
  EXPECT_THAT(std::string(compare({"lr"}).status().message()),
              HasSubstr("clip was 1 and is now 0.5; give the old values, --allow-change "
                        "micro-batch,clip to go on with the new ones from step 8 on, or another "
                        "--output"));
  const auto changes = compare({"lr", "clip", "micro-batch", "threads"});
  ASSERT_TRUE(changes.ok()) << changes.status();
  EXPECT_THAT(*changes, testing::UnorderedElementsAre(
                            RunChange{8, "lr", "5e-05", "1e-04"}, RunChange{8, "clip", "1", "0.5"},
                            RunChange{8, "micro-batches a step", "1", "2"}));
  now.seed = 43;
  const std::string fixed(compare({"clip", "micro-batch"}).status().message());
  EXPECT_THAT(fixed, HasSubstr("seed was 42 and is now 43"));
  EXPECT_THAT(fixed, HasSubstr("(--allow-change can only change lr)"));
  now = then;
  now.schedule.kind = ScheduleSpec::Kind::kOneCycle;
  const auto schedule = compare({"schedule"});
  ASSERT_TRUE(schedule.ok()) << schedule.status();
  EXPECT_EQ(schedule->size(), 2u);  // and what it consists of
}

// A run of two ranks may go on with one, which exchanges nothing.
TEST(RunIdentity, OneRankHasNoExchangesToCompare) {
  TrainOptions one = Sharded(1), two = Sharded(2);
  one.accumulate = 2;
  EXPECT_EQ(CompareIdentity(Committed(RunIdentity(two)), RunIdentity(one)).status(),
            absl::OkStatus());
  EXPECT_EQ(CompareIdentity(Committed(RunIdentity(one)), RunIdentity(two)).status(),
            absl::OkStatus());
}

TEST(RunIdentity, AnotherMachineIsNamedAndAnEarlierVersionTakenAsItIs) {
  TrainOptions options = Sharded(1);
  options.identity = {
      {"data", "d"}, {"device", "cpu"}, {"LibTorch", "2.11.0"}, {"tokenizer", "new words"}};
  const Identity now = RunIdentity(options);
  testing::internal::CaptureStderr();
  EXPECT_EQ(CompareIdentity(Committed(now), now).status(), absl::OkStatus());
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  options.identity = {
      {"data", "d"}, {"device", "cuda"}, {"LibTorch", "2.10.0"}, {"tokenizer", "new words"}};
  testing::internal::CaptureStderr();
  EXPECT_EQ(CompareIdentity(Committed(RunIdentity(options)), now).status(), absl::OkStatus());
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr("LibTorch was 2.10.0 and is now 2.11.0; device was cuda"));

  Identity old;
  for (const auto& [name, value] : now) {
    const bool later = name == "compute" || name == "device" || name == "LibTorch";
    if (later || name == "identity version") continue;
    old.emplace_back(name, name == "tokenizer" ? "old words" : value);
  }
  testing::internal::CaptureStderr();
  EXPECT_EQ(CompareIdentity(Committed(old), now).status(), absl::OkStatus());
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("its LibTorch; compute; device; tokenizer"));
  // As version 2 was.
  old.emplace_back("identity version", "2");
  testing::internal::CaptureStderr();
  EXPECT_EQ(CompareIdentity(Committed(old), now).status(), absl::OkStatus());
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("its LibTorch; compute; device"));
  // A commit of this version says all that it has.
  old.back().second = "3";
  EXPECT_THAT(std::string(CompareIdentity(Committed(old), now).status().message()),
              HasSubstr("device was not given and is now cpu"));
}

}  // namespace
}  // namespace spillway
