// Trainers of several ranks, which are threads here: what their rows tell of the others.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <set>

#include "engine/estimate/run_plan.h"
#include "engine/machine/memory_limits.h"
#include "engine/ranks/collective_traffic.h"
#include "engine/report/run_description.h"
#include "engine/run/metrics_log.h"
#include "engine/run/written_bytes.h"
#include "gmock/gmock.h"
#include "tests/device/test_device.h"
#include "tests/engine/ranks/thread_ranks.h"
#include "tests/engine/train/trainer_testing.h"

namespace spillway {
namespace {

class TrainerRanks : public TrainerTest {
 protected:
  TrainOptions Sharded(int ranks, double clip) const {
    TrainOptions options = Options(absl::StrCat("ranks", ranks, "-", clip));
    options.ranks = options.shard_group_size = ranks;
    options.clip = clip;
    options.steps = 6;
    options.no_commit = true;
    // Rings of several ranks in one process are races to ThreadSanitizer (sharded_step_test.cc).
    options.io.kind = IoEngineOptions::Kind::kThreads;
    return options;
  }

  // The rows and the last lines of rank 0.
  std::vector<nlohmann::json> RunAll(const TrainOptions& options, std::chrono::microseconds delay,
                                     std::string* speed = nullptr) {
    ThreadRanks world(options.ranks), group(options.ranks), commits(options.ranks);
    world.SetDelay(delay);
    group.SetDelay(delay);
    StopSignal signals;
    std::vector<std::thread> threads;
    for (int rank = 0; rank < options.ranks; ++rank) {
      threads.emplace_back([&, rank] {
        const RankGroups groups = {
            .world = world.rank(rank), .group = group.rank(rank), .commits = commits.rank(rank)};
        const absl::Status status = RunRank(options, rank, groups, rank == 0 ? speed : nullptr);
        EXPECT_EQ(status, absl::OkStatus());
        // Who has come to the end may be ahead of those that still hear the last they were told.
        if (!status.ok()) world.rank(rank)->Abort();
      });
    }
    for (std::thread& thread : threads) thread.join();
    std::vector<nlohmann::json> rows;
    EXPECT_TRUE(
        ReadRows(options.output + "/metrics.jsonl", [&](const nlohmann::json& row, int64_t) {
          rows.push_back(row);
        }).ok());
    return rows;
  }

  // Bytes that a rank sends for weights and gradients in a step.
  uint64_t SentInAStep(const TrainOptions& options) const {
    const auto plan = PlanRun(model_, options, {.memory = {1 << 20}});
    EXPECT_TRUE(plan.ok()) << plan.status();
    return CollectiveBytes(plan->shards->schedule, plan->shards->sums).total_bytes();
  }

  // What rank 0's trace has of exchanges, and of waits for them.
  void ExpectTrace(const TrainOptions& options) const {
    const nlohmann::json trace = nlohmann::json::parse(std::ifstream(options.trace.path));
    std::map<std::string, int> named;
    std::set<int> tracks;
    uint64_t bytes = 0;
    int64_t last_end = 0, waits = 0;
    for (const nlohmann::json& event : trace["traceEvents"]) {
      if (event["ph"] != "X") continue;
      const int64_t begin = event["ts"].get<double>() * 1e3;
      if (event["name"] == "wait for other ranks") {
        waits += event["args"].contains("before");
        EXPECT_EQ(event["cat"], "wait");
      }
      if (event["cat"] != "collective") continue;
      ++named[event["name"]];
      tracks.insert(event["tid"].get<int>());
      bytes += event["args"]["bytes"].get<uint64_t>();
      EXPECT_GE(begin, last_end - 1);  // one after the other
      last_end = begin + static_cast<int64_t>(event["dur"].get<double>() * 1e3);
    }
    EXPECT_EQ(tracks.size(), 1u);
    EXPECT_GT(waits, 0);
    for (const char* name : {"gather u0", "gather u1", "sum u0", "sum u3"}) {
      EXPECT_GE(named[name], 2) << name;
    }
    // Immediate updates: the last sums of a step may be part of the next one.
    EXPECT_GT(bytes, 2 * SentInAStep(options));
    EXPECT_LE(bytes, 4 * SentInAStep(options));
  }

  bool on_devices_ = false;  // a separate one for each rank
  int64_t empty_step_ = 0;
  int64_t stop_after_ = 0;
  std::optional<double> commit_seconds_of_others_;    // but the first rank's
  TrainResult result_;                                // the first rank's
  std::vector<std::vector<float>> buffers_of_ranks_;  // at the end, where there are buffers_

 private:
  absl::Status RunRank(TrainOptions options, int rank, const RankGroups& groups,
                       std::string* speed) {
    options.rank = rank;
    if (rank > 0) options.trace.path.clear();
    if (rank > 0 && commit_seconds_of_others_) options.commit_seconds = *commit_seconds_of_others_;
    const auto storage = RunStorage::OpenTogether(options, groups.world);
    if (!storage.ok()) return storage.status();
    options.output = RankOutput(options.output, rank);
    StubCompute compute(model_, options.dtype);
    compute.op_milliseconds = op_milliseconds_;
    compute.buffers = buffers_;
    compute.empty_step = empty_step_;
    compute.stop_after = rank == 0 ? stop_after_ : 0;
    compute.adds_to_buffers = static_cast<float>(1 + rank);
    MemoryBudget device("device", options.device_memory_bytes);
    std::optional<TestDevice> separate;
    if (on_devices_) separate.emplace(TestDeviceOptions{.seed = static_cast<uint64_t>(rank)});
    auto trainer = Trainer::Create({options, model_, storage->get(), &compute, &device,
                                    separate ? &*separate : nullptr, groups});
    if (!trainer.ok()) return trainer.status();
    CountingWeights weights;
    if (auto status = (*trainer)->Start(&weights); !status.ok()) return status;
    const auto result = (*trainer)->Run();
    if (result.ok() && speed != nullptr) *speed = result->speed;
    if (result.ok() && rank == 0) result_ = *result;
    if (!buffers_.empty()) {
      // One rank after another.
      for (int turn = 0; turn < options.ranks; ++turn) {
        if (turn == rank) buffers_of_ranks_.push_back(compute.buffers[0].values);
        if (auto turned = AllGatherCount(*groups.world, 0); !turned.ok()) return turned.status();
      }
    }
    return result.status();
  }
};

constexpr std::chrono::microseconds kNoDelay{0};

TEST_F(TrainerRanks, WhatForwardsChangeIsTheFirstRanksEverywhere) {
  buffers_ = {{"seen", {2}, {0, 0}}};
  CountingWeights weights;
  std::vector<float> expected(2);
  ASSERT_TRUE(weights.Read("seen", 0, 2, expected.data()).ok());
  for (float& value : expected) {
    for (int step = 0; step < 6; ++step) value += 1;  // the first rank's, in every step
  }
  RunAll(Sharded(3, 1.0), kNoDelay);
  EXPECT_EQ(buffers_of_ranks_, std::vector<std::vector<float>>(3, expected));
}

// Whose updates are under way, or enqueued ahead, when the step comes.
TEST_F(TrainerRanks, PassOverAStepWithoutLabelsTogether) {
  for (double clip : {1.0, 0.0}) {
    for (int64_t eval_every : {3, 0}) {
      SCOPED_TRACE(absl::StrCat(clip, " ", eval_every));
      TrainOptions options = Sharded(3, clip);
      options.overwrite = true;
      options.eval_every = eval_every;
      empty_step_ = 0;
      const std::vector<nlohmann::json> plain = RunAll(options, kNoDelay);
      empty_step_ = 3;
      const std::vector<nlohmann::json> rows = RunAll(options, kNoDelay);
      ASSERT_EQ(rows.size(), 6u);
      ASSERT_EQ(plain.size(), 6u);
      EXPECT_EQ(rows[1]["loss"], plain[1]["loss"]);
      EXPECT_TRUE(rows[2]["skipped"]);
      EXPECT_TRUE(rows[2]["loss"].is_null());
      // The weights are those before the step.
      EXPECT_FALSE(rows[3]["skipped"]);
      EXPECT_EQ(rows[3]["loss"], plain[2]["loss"]);
    }
  }
}

// Labels and tokens, losses and stops in every step, and a deferred update's norm, finite or not.
TEST_F(TrainerRanks, RowsTellWhatWasSent) {
  for (int ranks : {2, 3}) {
    for (double clip : {1.0, 0.0}) {
      SCOPED_TRACE(absl::StrCat(ranks, " ", clip));
      TrainOptions options = Sharded(ranks, clip);
      options.eval_every = 2;  // what evaluations send is in no row
      const std::vector<nlohmann::json> rows = RunAll(options, kNoDelay);
      ASSERT_EQ(rows.size(), 6u);
      const uint64_t agreed = (clip > 0 ? 6 : 4) * sizeof(int64_t) * (ranks - 1);
      const uint64_t expected = SentInAStep(options) + agreed;
      uint64_t sum = 0;
      for (const nlohmann::json& row : rows) {
        const uint64_t sent = row["bytes"]["collective"].get<uint64_t>();
        // Immediate updates: a step's last sums may be on their way when its row ends.
        if (clip > 0 && row["step"] > 1) {
          EXPECT_EQ(sent, expected) << row["step"];
        }
        sum += sent;
      }
      // The first looks for a signal twice.
      EXPECT_EQ(sum, 6 * expected + sizeof(int64_t) * (ranks - 1));
    }
  }
}

// Wherever the state lives and whoever updates it.
TEST_F(TrainerRanks, OnDevicesOfTheirOwnTheSameLossesAndNorms) {
  std::filesystem::create_directories(folder_ + "/swap");
  for (int ranks : {2, 3}) {
    for (double clip : {1.0, 0.0}) {
      TrainOptions options = Sharded(ranks, clip);
      options.communication_format =
          ranks == 2 ? ExchangeFormat::kFloat32 : ExchangeFormat::kFloat8;
      options.eval_every = 2;
      on_devices_ = false;
      const std::vector<nlohmann::json> expected = RunAll(options, kNoDelay);
      ASSERT_EQ(expected.size(), 6u);
      on_devices_ = true;
      for (Offload offload : {Offload::kNone, Offload::kCpu, Offload::kNvme}) {
        for (UpdateDevice update : {UpdateDevice::kCpu, UpdateDevice::kGpu}) {
          SCOPED_TRACE(absl::StrCat(ranks, " ", clip, " ", int(offload), " ", int(update)));
          options.overwrite = true;
          options.offload_param = options.offload_optimizer = offload;
          options.update_device = update;
          if (offload == Offload::kNvme) options.swap_paths = {folder_ + "/swap"};
          const std::vector<nlohmann::json> rows = RunAll(options, kNoDelay);
          ASSERT_EQ(rows.size(), 6u);
          for (size_t i = 0; i < rows.size(); ++i) {
            EXPECT_EQ(rows[i]["loss"], expected[i]["loss"]) << i;
            EXPECT_EQ(rows[i]["grad_norm"], expected[i]["grad_norm"]) << i;
            EXPECT_GT(rows[i]["busy_seconds"]["compute"].get<double>(), 0);
            EXPECT_EQ(rows[i]["bytes"]["to_device"].get<uint64_t>() > 0, offload != Offload::kNone);
          }
        }
      }
    }
  }
}

TEST_F(TrainerRanks, OnDevicesWhatIsMeasuredFirstHasTheSameLossesAndNorms) {
  for (OptimizerSpec::Kind kind : {OptimizerSpec::Kind::kLamb, OptimizerSpec::Kind::kAdafactor}) {
    TrainOptions options = Sharded(2, 1.0);
    options.optimizer.kind = kind;
    options.optimizer.scale_parameter = kind == OptimizerSpec::Kind::kAdafactor;
    on_devices_ = false;
    const std::vector<nlohmann::json> expected = RunAll(options, kNoDelay);
    ASSERT_EQ(expected.size(), 6u);
    on_devices_ = true;
    for (Offload weights : {Offload::kNone, Offload::kCpu}) {
      SCOPED_TRACE(absl::StrCat(OptimizerName(kind), " ", int(weights)));
      options.overwrite = true;
      options.offload_param = weights;
      options.offload_optimizer = Offload::kCpu;
      const std::vector<nlohmann::json> rows = RunAll(options, kNoDelay);
      ASSERT_EQ(rows.size(), 6u);
      for (size_t i = 0; i < rows.size(); ++i) {
        EXPECT_EQ(rows[i]["loss"], expected[i]["loss"]) << i;
        EXPECT_EQ(rows[i]["grad_norm"], expected[i]["grad_norm"]) << i;
        EXPECT_GT(rows[i]["bytes"]["to_host"].get<uint64_t>(), 0u);
      }
    }
  }
}

TEST_F(TrainerRanks, SlowExchangesAreWhatAStepWaitsForAndIsBusyWith) {
  for (double clip : {1.0, 0.0}) {
    SCOPED_TRACE(clip);
    std::string speed;
    double busy = 0, waited = 0;
    for (const nlohmann::json& row :
         RunAll(Sharded(2, clip), std::chrono::milliseconds(5), &speed)) {
      busy += row["busy_seconds"]["collective"].get<double>();
      waited += row["stall_seconds"]["collective"].get<double>();
      EXPECT_EQ(row["stall_seconds"]["copy"], 0.0);
    }
    // Seven gathers and four sums a step; the last sums may be in no row.
    EXPECT_GE(busy, (6 * 11 - 4) * 0.005);
    EXPECT_GT(waited, 0);
    EXPECT_THAT(speed, testing::HasSubstr("exchanges "));
    EXPECT_THAT(speed, testing::HasSubstr("a step to other ranks"));
  }
}

class CommittingRanks : public TrainerRanks {
 protected:
  TrainOptions Committing() const {
    TrainOptions options = Sharded(2, 1.0);
    options.no_commit = false;
    options.eval_every = 2;
    options.swap_paths = {folder_ + "/a"};
    return options;
  }
  static TrainOptions OfRank(TrainOptions options, int rank) {
    options.output = RankOutput(options.output, rank);
    return options;
  }
};

TEST_F(CommittingRanks, MakeUpTogetherForALastEvaluationThatASignalTook) {
  TrainOptions options = Committing();
#ifndef __SANITIZE_THREAD__  // not told that liburing unmaps a ring, where another thread's then
                             // lies
  options.persist = folder_ + "/persist";
#endif
  stop_after_ = 6;
  RunAll(options, kNoDelay);
  EXPECT_EQ(result_.end, TrainResult::End::kStopped);
  EXPECT_EQ((*InspectRun(options.output))["finished"], false);
  options.resume = true;
  stop_after_ = 0;
  RunAll(options, kNoDelay);
  EXPECT_EQ(result_.end, TrainResult::End::kFinished);
  std::vector<std::string> places = {options.output};
  if (!options.persist.empty()) places.push_back(options.persist + "/step-000000000006");
  for (const std::string& place : places) {
    const auto run = InspectRun(place);
    ASSERT_TRUE(run.ok()) << run.status();
    EXPECT_EQ((*run)["finished"], true) << place;
  }
  for (int rank : {0, 1}) {
    EXPECT_THAT(StepsOf(OfRank(options, rank), "/eval.jsonl"), testing::ElementsAre(0, 2, 4, 6));
  }
}

// A kill between two ranks' rows.
TEST_F(CommittingRanks, AnEvaluationThatTheFirstRankHasNotLoggedIsMade) {
  TrainOptions options = Committing();
  options.steps = 4;
  RunAll(options, kNoDelay);
  options.resume = true;
  options.steps = 6;
  const std::string rows = options.output + "/eval.jsonl";
  std::vector<std::string> lines;
  std::ifstream file(rows);
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  std::ofstream(rows) << lines[0] << "\n" << lines[1] << "\n";
  RunAll(options, kNoDelay);
  for (int rank : {0, 1}) {
    EXPECT_THAT(StepsOf(OfRank(options, rank), "/eval.jsonl"), testing::ElementsAre(0, 2, 4, 6));
  }
}

TEST_F(CommittingRanks, TheLimitOfBytesWrittenIsThatOfAllRanks) {
  TrainOptions options = Committing();
  options.offload_param = options.offload_optimizer = Offload::kNvme;
  options.steps = 12;
  const auto written = [&] {
    return *WrittenBytes::Read(options.output) + *WrittenBytes::Read(OfRank(options, 1).output);
  };
  RunAll(options, kNoDelay);
  const uint64_t whole_bytes = written();
  EXPECT_EQ(result_.run_written_bytes, whole_bytes);

  options.output += "-limited";
  options.max_bytes_written = whole_bytes / 2;
  RunAll(options, kNoDelay);
  EXPECT_EQ(result_.end, TrainResult::End::kStopped);
  EXPECT_GT(result_.step, 1);
  EXPECT_EQ(result_.run_written_bytes, written());
  EXPECT_LE(written(), options.max_bytes_written);
  // No earlier than it has to.
  EXPECT_GT(written() + 3 * whole_bytes / options.steps, options.max_bytes_written);

  // What a rank has written that the run has no more still counts.
  const uint64_t before_bytes = written();
  options.resume = true;
  options.ranks = options.shard_group_size = 1;
  options.accumulate = 2;
  TrainResult alone;
  const absl::Status refused = Train(options, &alone).status();
  EXPECT_EQ(ExitCodeOf(refused), 3) << refused;
  options.max_bytes_written = 0;
  options.steps = result_.step + 1;
  ASSERT_TRUE(Train(options, &alone).ok());
  EXPECT_GT(alone.run_written_bytes, before_bytes);
  EXPECT_EQ(alone.run_written_bytes, *WrittenBytes::Read(options.output));
}

// A profile of its own, so that there is a forecast.
class ForecastRanks : public TrainerRanks {
 protected:
  void SetUp() override {
    TrainerRanks::SetUp();
    setenv("SPILLWAY_PROFILE", (folder_ + "/profile.json").c_str(), 1);
  }
  void TearDown() override {
    setenv("SPILLWAY_PROFILE", "off", 1);
    TrainerRanks::TearDown();
  }

  // With a delay of 10 ms.
  static void ExpectBoundByExchanges(const std::vector<nlohmann::json>& rows, double clip) {
    for (const nlohmann::json& row : rows) {
      for (const char* phase : {"forward", "backward", "flush"}) {
        EXPECT_EQ(row["binding"][phase], "collective") << phase;
      }
      EXPECT_GE(row["predicted_seconds"].get<double>(), row["bound_seconds"].get<double>());
      // Seven gathers, of which u0's are three, and four sums; with clipping four agreements.
      EXPECT_GE(row["bound_seconds"].get<double>(), clip > 0 ? 0.15 : 0.11);
      EXPECT_GT(row["binding_seconds"].get<double>(), 0);
    }
  }
};

// Computing takes nothing to speak of, so whatever else runs here exchanges bind.
TEST_F(ForecastRanks, SlowExchangesAreForecastNamedAndInTheTrace) {
  for (double clip : {1.0, 0.0}) {
    SCOPED_TRACE(clip);
    TrainOptions options = Sharded(2, clip);
    options.trace.path = folder_ + "/trace.json";
    options.trace.first_step = 2;
    options.trace.steps = 3;
    std::string speed;
    const std::vector<nlohmann::json> rows = RunAll(options, std::chrono::milliseconds(10), &speed);
    ASSERT_EQ(rows.size(), 6u);
    ExpectBoundByExchanges(rows, clip);
    EXPECT_THAT(speed, testing::HasSubstr("\n  limits     exchanges; busy "));
    // All ranks have planned alike.
    std::vector<nlohmann::json> others;
    EXPECT_TRUE(
        ReadRows(RankOutput(options.output, 1) + "/metrics.jsonl", [&](const nlohmann::json& row,
                                                                       int64_t) {
          others.push_back(row);
        }).ok());
    ASSERT_EQ(others.size(), 6u);
    for (const char* field : {"predicted_seconds", "bound_seconds"}) {
      EXPECT_EQ(others[0][field], rows[0][field]);
    }
    ExpectTrace(options);
  }
}

// Copies to the devices, exchanges and compute in one forecast.
TEST_F(ForecastRanks, OnDevicesThereIsAForecast) {
  on_devices_ = true;
  for (double clip : {1.0, 0.0}) {
    SCOPED_TRACE(clip);
    TrainOptions options = Sharded(2, clip);
    options.offload_param = options.offload_optimizer = Offload::kCpu;
    options.trace.path = folder_ + "/trace.json";
    options.trace.first_step = 2;
    options.trace.steps = 3;
    const std::vector<nlohmann::json> rows = RunAll(options, std::chrono::milliseconds(10));
    ASSERT_EQ(rows.size(), 6u);
    ExpectBoundByExchanges(rows, clip);
    const nlohmann::json trace = nlohmann::json::parse(std::ifstream(options.trace.path));
    std::set<std::string> categories;
    int forwards = 0;
    for (const nlohmann::json& event : trace["traceEvents"]) {
      if (event["ph"] != "X") continue;
      categories.insert(event["cat"]);
      forwards += event["name"] == "forward u1";
    }
    EXPECT_EQ(forwards, 3);
    for (const char* category : {"collective", "work", "copy", "wait"}) {
      EXPECT_TRUE(categories.contains(category)) << category;
    }
  }
}

TEST_F(TrainerRanks, OneRankSendsNothing) {
  TrainOptions options = Options("alone");
  TrainResult result;
  ASSERT_TRUE(Train(options, &result).ok());
  EXPECT_TRUE(ReadRows(options.output + "/metrics.jsonl", [&](const nlohmann::json& row, int64_t) {
                EXPECT_EQ(row["bytes"]["collective"], 0);
                EXPECT_EQ(row["stall_seconds"]["collective"], 0.0);
                EXPECT_EQ(row["busy_seconds"]["collective"], 0.0);
              }).ok());
  EXPECT_THAT(result.speed, testing::Not(testing::HasSubstr("ranks")));
}

TEST_F(TrainerRanks, ByTheFirstRanksClockAllCommit) {
  TrainOptions options = Sharded(3, 1.0);
  options.no_commit = false;
  for (const bool due : {true, false}) {
    options.output = absl::StrCat(folder_, "/clock", due);
    options.commit_seconds = due ? 1e-9 : 1e9;
    commit_seconds_of_others_ = due ? 1e9 : 1e-9;
    RunAll(options, std::chrono::microseconds(0));
    for (int rank = 0; rank < options.ranks; ++rank) {
      const auto run = ReadRunDescription(RankOutput(options.output, rank));
      ASSERT_TRUE(run.ok()) << run.status();
      EXPECT_EQ(run->commit_count, due ? options.steps : 1) << rank;
    }
  }
}

}  // namespace
}  // namespace spillway
