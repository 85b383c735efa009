// The whole engine but LibTorch: real plan, store, I/O, optimizer, commits; a stub computes.
#include "engine/train/trainer.h"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/machine/memory_limits.h"
#include "engine/report/run_description.h"
#include "engine/report/step_timeline.h"
#include "engine/run/written_bytes.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "io/base/mutex.h"
#include "tests/engine/train/trainer_testing.h"
#include "tests/io/forwarding_file_system.h"

namespace spillway {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::Contains;
using testing::Not;

TEST_F(TrainerTest, WhatForwardsChangeIsCommitted) {
  // Any bits come back.
  buffers_ = {{"seen", {3}, {0, 0, 0}}, {"scalar", {}, {0}}};
  TrainResult result;
  const auto whole = Train(Options("whole"), &result);
  ASSERT_TRUE(whole.ok()) << whole.status();
  ASSERT_TRUE((*whole)["seen"].contains("buffer")) << *whole;
  TrainOptions options = Options("parts");
  ASSERT_TRUE(Train(options, &result, /*stop_after=*/5).ok());
  EXPECT_EQ(result.end, TrainResult::End::kStopped);
  options.resume = true;
  const auto parts = Train(options, &result);
  ASSERT_TRUE(parts.ok()) << parts.status();
  EXPECT_EQ(*parts, *whole);
}

// The copies of commits are made when they are let.
class HeldCopies : public ForwardingFileSystem {
 public:
  absl::StatusOr<std::unique_ptr<File>> Open(absl::string_view path,
                                             const FileOptions& options) override {
    constexpr absl::string_view kCopies = "/persist/step-0000000000";
    const size_t at = path.find(kCopies);
    if (at != absl::string_view::npos && options.create) {
      MutexLock lock(mutex_);
      steps_.push_back(std::string(path.substr(at + kCopies.size(), 2)));
      while (held_) changed_.Wait(mutex_);
    }
    return ForwardingFileSystem::Open(path, options);
  }
  void LetGo() {
    MutexLock lock(mutex_);
    held_ = false;
    changed_.NotifyAll();
  }
  std::vector<std::string> steps() {
    MutexLock lock(mutex_);
    return steps_;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  bool held_ ABSL_GUARDED_BY(mutex_) = true;
  std::vector<std::string> steps_ ABSL_GUARDED_BY(mutex_);
};

TEST_F(TrainerTest, ACopyThatTakesLongPutsCommitsOffAndNoStep) {
  HeldCopies files;
  files_ = &files;
  copy_patience_seconds_ = 0;
  // Were a step to wait for the copy, this one would never come.
  at_step_ = [&](int64_t step) {
    if (step == 9) files.LetGo();
  };
  TrainOptions options = Options("held");
  options.swap_paths = {folder_ + "/a"};
  options.persist = folder_ + "/persist";
  options.keep = 9;
  options.commit_every = 2;
  TrainResult result;
  const auto digests = Train(options, &result);
  ASSERT_TRUE(digests.ok()) << digests.status();
  EXPECT_EQ(result.step, 12);
  // That of step 2 was under way until step 9 began; the last one waits.
  const std::vector<std::string> steps = files.steps();
  EXPECT_THAT(steps, AllOf(Contains("02"), Contains("12")));
  EXPECT_THAT(steps, Not(AnyOf(Contains("04"), Contains("06"), Contains("08"))));
  const auto copy = InspectRun(folder_ + "/persist/step-000000000012");
  ASSERT_TRUE(copy.ok()) << copy.status();
  EXPECT_EQ((*copy)["digests"], *digests);
}

// A commit's manifest gets its name a while after the step that follows has begun.
class SlowManifest : public ForwardingFileSystem {
 public:
  absl::Status Rename(absl::string_view from, absl::string_view to) override {
    if (absl::StrContains(to, "manifest")) {
      MutexLock lock(mutex_);
      waits_ = true;
      changed_.NotifyAll();
      while (!next_step_) changed_.Wait(mutex_);
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
    }
    return ForwardingFileSystem::Rename(from, to);
  }
  // Returns when the manifest waits.
  void BeginNextStep() {
    MutexLock lock(mutex_);
    while (!waits_) changed_.Wait(mutex_);
    next_step_ = true;
    changed_.NotifyAll();
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  bool waits_ ABSL_GUARDED_BY(mutex_) = false;
  bool next_step_ ABSL_GUARDED_BY(mutex_) = false;
};

// That the commit is durable is told while the trainer is being destroyed (AddressSanitizer sees
// who hears it).
TEST_F(TrainerTest, ARunThatFailsDuringACommitEndsAfterIt) {
  SlowManifest files;
  files_ = &files;
  at_step_ = [&](int64_t step) {
    if (step == 3) files.BeginNextStep();
  };
  TrainOptions options = Options("fails");
  options.clip = 0;  // updates of step 2 need no step 3
  options.swap_paths = {folder_ + "/a"};
  options.commit_every = 2;
  options.trace.path = folder_ + "/trace.json";
  TrainResult result;
  const absl::Status failed = Train(options, &result, /*stop_after=*/0, /*fail_at=*/3).status();
  EXPECT_TRUE(absl::IsOutOfRange(failed)) << failed;
  const auto run = InspectRun(options.output);
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ((*run)["step"], 2);
}

TEST_F(TrainerTest, PlacementEngineUpdateAndResumeNeverChangeTheBits) {
  for (DType dtype : {DType::kBFloat16, DType::kFloat32}) {
    for (double clip : {0.0, 1.0}) {
      SCOPED_TRACE(testing::Message() << std::string(DTypeName(dtype)) << " clip " << clip);
      std::vector<std::pair<std::string, std::function<void(TrainOptions&)>>> variants = {
          {"memory", [](TrainOptions&) {}},
          {"nvme",
           [&](TrainOptions& o) {
             o.swap_paths = {folder_ + "/a"};
             o.offload_param = o.offload_optimizer = Offload::kNvme;
           }},
          {"three",
           [&](TrainOptions& o) {
             o.swap_paths = {folder_ + "/a", folder_ + "/b", folder_ + "/c"};
             o.offload_optimizer = Offload::kNvme;
             o.io.kind = IoEngineOptions::Kind::kThreads;
             o.update_threads = 3;
           }},
          {"deferred", [](TrainOptions& o) { o.update = UpdateChoice::kDeferred; }},
          {"commits",
           [&](TrainOptions& o) {
             o.swap_paths = {folder_ + "/b"};
             o.commit_every = 5;
           }},
      };
      nlohmann::json expected;
      for (auto& [name, change] : variants) {
        TrainOptions options =
            Options(absl::StrCat(name, static_cast<int>(dtype), static_cast<int>(clip)));
        options.dtype = dtype;
        options.clip = clip;
        change(options);
        TrainResult result;
        auto digests = Train(options, &result);
        ASSERT_TRUE(digests.ok()) << name << ": " << digests.status();
        EXPECT_EQ(result.end, TrainResult::End::kFinished);
        EXPECT_LT(*result.last_loss, *result.first_loss);
        if (expected.is_null()) expected = *digests;
        EXPECT_EQ(*digests, expected) << name;
        if (name == "memory") {
          EXPECT_EQ(result.nvme_read_bytes, 0u);
        } else if (name == "nvme") {
          EXPECT_GT(result.nvme_read_bytes, 0u);
        } else if (name == "three") {
          EXPECT_EQ(result.io_engine, "threads");
        }
      }
      // Stopped half-way by a signal, then resumed elsewhere.
      TrainOptions options =
          Options(absl::StrCat("stopped", static_cast<int>(dtype), static_cast<int>(clip)));
      options.dtype = dtype;
      options.clip = clip;
      options.swap_paths = {folder_ + "/c"};
      TrainResult result;
      ASSERT_TRUE(Train(options, &result, /*stop_after=*/4).ok());
      EXPECT_EQ(result.end, TrainResult::End::kStopped);
      EXPECT_EQ(result.step, 4);
      options.resume = true;
      options.swap_paths = {folder_ + "/a", folder_ + "/b"};
      auto digests = Train(options, &result);
      ASSERT_TRUE(digests.ok()) << digests.status();
      EXPECT_EQ(*digests, expected);
    }
  }
}

TEST_F(TrainerTest, AnotherLearningRateGivesOtherDigests) {
  TrainOptions options = Options("one");
  TrainResult result;
  const auto one = Train(options, &result);
  options = Options("two");
  options.optimizer.learning_rate = 0.0100001;
  const auto two = Train(options, &result);
  ASSERT_TRUE(one.ok() && two.ok());
  EXPECT_NE(*one, *two);
}

TEST_F(TrainerTest, ResumeWithAnotherLearningRateNamesIt) {
  TrainOptions options = Options("run");
  options.steps = 3;
  TrainResult result;
  ASSERT_TRUE(Train(options, &result).ok());
  options.steps = 5;
  EXPECT_EQ(Train(options, &result).status().code(), absl::StatusCode::kAlreadyExists);
  options.resume = true;
  options.optimizer.learning_rate = 0.5;
  const auto status = Train(options, &result).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("lr was"));
}

TEST_F(TrainerTest, ABudgetTooSmallIsRefusedWithTheSmallestThatWorks) {
  TrainOptions options = Options("small");
  options.swap_paths = {folder_ + "/a"};
  options.host_memory_bytes = 1 << 20;
  TrainResult result;
  const auto status = Train(options, &result).status();
  EXPECT_EQ(ExitCodeOf(status), 3) << status;
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("--host-memory"));
}

TEST_F(TrainerTest, WhatIsFarFromFittingIsRefusedByTheGuess) {
  const TrainOptions options = Options("far");
  TrainResult result;
  // Not measured, where that would take long; or measured in vain.
  for (const auto& [seconds, refused] : {std::pair{60.0, 0}, std::pair{0.1, 1}}) {
    guess_ = {{uint64_t{4} << 30}, seconds};
    refuse_dry_run_ = refused;
    const auto status = Train(options, &result).status();
    EXPECT_EQ(ExitCodeOf(status), 3) << status;
    EXPECT_THAT(std::string(status.message()),
                testing::HasSubstr("needs about --device-memory 435"));
    EXPECT_THAT(std::string(status.message()), testing::HasSubstr("guessed"));
  }
  // What would fit by the guess did not; and without one nothing is known.
  for (const auto& guess : {std::optional<ComputeGuess>({{1 << 20}, 60.0}), {}}) {
    guess_ = guess;
    refuse_dry_run_ = 1;
    const auto status = Train(options, &result).status();
    EXPECT_EQ(ExitCodeOf(status), 3) << status;
    EXPECT_THAT(std::string(status.message()), testing::HasSubstr("--device-memory 64 MiB"));
    EXPECT_THAT(std::string(status.message()), testing::HasSubstr("--micro-batch"));
  }
}

// Whatever computing takes, the host has no room: nothing is measured.
TEST_F(TrainerTest, WhatNoGuessFitsOnTheHostIsRefusedUnmeasured) {
  TrainOptions options = Options("narrow");
  options.swap_paths = {folder_ + "/a"};
  options.host_memory_bytes = 1 << 20;
  guess_ = {{1 << 20}, 60.0};
  TrainResult result;
  const auto status = Train(options, &result).status();
  EXPECT_EQ(ExitCodeOf(status), 3) << status;
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("and --host-memory 1 MiB"));
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("guessed"));
}

// A guess is off by some: near the budget what counts is measured.
TEST_F(TrainerTest, AGuessDoesNotRefuseWhatMayFit) {
  guess_ = {{uint64_t{100} << 20}, 60.0};
  TrainResult result;
  const auto digests = Train(Options("near"), &result);
  EXPECT_TRUE(digests.ok()) << digests.status();
}

TEST_F(TrainerTest, MetricsHoldEachStepOnce) {
  TrainOptions options = Options("run");
  options.swap_paths = {folder_ + "/a"};
  options.commit_every = 2;
  TrainResult result;
  ASSERT_TRUE(Train(options, &result, /*stop_after=*/5).ok());
  options.resume = true;
  ASSERT_TRUE(Train(options, &result).ok());
  std::ifstream rows(options.output + "/metrics.jsonl");
  std::string line;
  int64_t step = 0;
  while (std::getline(rows, line)) EXPECT_EQ(nlohmann::json::parse(line)["step"], ++step);
  EXPECT_EQ(step, options.steps);
}

// The rows of a .jsonl file.
std::vector<nlohmann::json> Rows(const std::string& path) {
  std::vector<nlohmann::json> rows;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) rows.push_back(nlohmann::json::parse(line));
  return rows;
}

TEST_F(TrainerTest, EvaluationsComeOnceAStepAndKnowTheBestAlsoAfterAResume) {
  TrainOptions options = Options("run");
  options.eval_every = 3;
  options.steps = 11;
  TrainResult whole;
  ASSERT_TRUE(Train(options, &whole).ok());
  const auto expected = Rows(options.output + "/eval.jsonl");
  std::vector<int64_t> steps;
  nlohmann::json best;
  for (const nlohmann::json& row : expected) {
    steps.push_back(row["step"].get<int64_t>());
    EXPECT_EQ(row["best"], best.is_null() || row["loss"] < best["loss"]);
    if (row["best"] == true) best = row;
    EXPECT_EQ(row["best_step"], best["step"]);
  }
  // Every third, and the last one.
  EXPECT_THAT(steps, testing::ElementsAre(0, 3, 6, 9, 11));
  EXPECT_EQ(whole.evaluation_loss, expected.back()["loss"].get<double>());
  EXPECT_EQ(whole.best_evaluation, best["loss"].get<double>());
  EXPECT_EQ(whole.best_evaluation_step, best["step"].get<int64_t>());

  // Stopped at a step with an evaluation, and at one without.
  for (const int64_t stop : {6, 7}) {
    options.output = absl::StrCat(folder_, "/stopped", stop);
    options.resume = false;
    TrainResult result;
    ASSERT_TRUE(Train(options, &result, stop).ok());
    ASSERT_EQ(result.step, stop);
    options.resume = true;
    ASSERT_TRUE(Train(options, &result).ok());
    auto rows = Rows(options.output + "/eval.jsonl");
    ASSERT_EQ(rows.size(), expected.size());
    for (size_t i = 0; i < rows.size(); ++i) {
      rows[i]["seconds"] = expected[i]["seconds"];
      EXPECT_EQ(rows[i], expected[i]);
    }
    EXPECT_EQ(result.best_evaluation_step, whole.best_evaluation_step);
  }
}

bool IsFinished(const std::string& output) {
  const auto run = InspectRun(output);
  EXPECT_TRUE(run.ok()) << run.status();
  return run.ok() && (*run)["finished"].get<bool>();
}

// It comes in the last step, then in the evaluation that a resumed run begins with.
TEST_F(TrainerTest, ARunWhoseLastEvaluationASignalTookIsFinishedByAResume) {
  TrainResult result;
  TrainOptions options = Options("whole");
  options.steps = 6;
  const auto expected = Train(options, &result);
  options.output = folder_ + "/stopped";
  options.persist = folder_ + "/persist";
  ASSERT_TRUE(Train(options, &result, /*stop_after=*/6).ok());
  options.resume = true;
  for (int pass : {1, 0}) {
    EXPECT_EQ(result.end, TrainResult::End::kStopped);
    EXPECT_EQ(result.stop_signal, SIGTERM);
    EXPECT_EQ(result.step, 6);
    EXPECT_FALSE(IsFinished(options.output));
    EXPECT_EQ(ReadRunDescription(options.output)->parts.back().state, "stopped");
    EXPECT_THAT(StepsOf(options, "/eval.jsonl"), testing::ElementsAre(0));
    stop_evaluation_ = pass;
    const auto digests = Train(options, &result);
    ASSERT_TRUE(digests.ok()) << digests.status();
    EXPECT_EQ(*digests, *expected);
  }
  EXPECT_EQ(result.end, TrainResult::End::kFinished);
  EXPECT_TRUE(result.evaluation_loss);
  EXPECT_TRUE(IsFinished(options.output));
  EXPECT_TRUE(IsFinished(options.persist + "/step-000000000006"));
  EXPECT_EQ(ReadRunDescription(options.output)->parts.back().state, "finished");
  EXPECT_THAT(StepsOf(options, "/eval.jsonl"), testing::ElementsAre(0, 6));
  EXPECT_THAT(StepsOf(options, "/metrics.jsonl"), testing::ElementsAre(1, 2, 3, 4, 5, 6));
}

// There is no later process to make up for it.
TEST_F(TrainerTest, WithoutCommitsARunIsFinishedWithoutItsLastEvaluation) {
  TrainOptions options = Options("run");
  options.steps = 2;
  options.no_commit = true;
  TrainResult result;
  Train(options, &result, /*stop_after=*/2).IgnoreError();  // nothing is there to inspect
  EXPECT_EQ(result.end, TrainResult::End::kFinished);
  EXPECT_EQ(result.step, 2);
}

TEST_F(TrainerTest, ACommitIsThatOfAFinishedRunOnceStepsEndThere) {
  TrainOptions options = Options("run");
  options.swap_paths = {folder_ + "/a"};
  options.offload_param = options.offload_optimizer = Offload::kNvme;
  TrainResult result;
  ASSERT_TRUE(Train(options, &result, /*stop_after=*/5).ok());
  options.resume = true;
  options.steps = 5;
  // A limit that allows no further step.
  const nlohmann::json row = Rows(options.output + "/metrics.jsonl").back();
  options.max_bytes_written =
      result.run_written_bytes + row["bytes"]["nvme_written"].get<uint64_t>() * 3 / 2;
  const absl::Status finished = Train(options, &result).status();
  ASSERT_TRUE(finished.ok()) << finished;
  EXPECT_EQ(result.end, TrainResult::End::kFinished);
  EXPECT_TRUE(IsFinished(options.output));
  EXPECT_THAT(StepsOf(options, "/eval.jsonl"), testing::ElementsAre(0, 5));
}

// Seven operations of 30 ms a step: what else the machine does makes them longer, never shorter.
TEST_F(TrainerTest, SlowComputeIsNoStallAndNamedInTheTimeLine) {
  op_milliseconds_ = 30;
  for (const double clip : {0.0, 1.0}) {
    TrainOptions options = Options(absl::StrCat("clip", clip));
    options.swap_paths = {folder_ + "/a"};
    options.offload_param = options.offload_optimizer = Offload::kNvme;
    options.clip = clip;
    options.steps = 4;
    TrainResult result;
    ASSERT_TRUE(Train(options, &result).ok());
    const auto rows = Rows(options.output + "/metrics.jsonl");
    for (const nlohmann::json& row : rows) {
      EXPECT_GE(row["busy_seconds"]["compute"].get<double>(), 7 * 0.03) << row;
      EXPECT_LE(
          row["stall_seconds"]["disk"].get<double>() + row["stall_seconds"]["update"].get<double>(),
          row["seconds"].get<double>() - 7 * 0.03)
          << row;
    }
    const auto timeline = ReadTimeline(options.output);
    ASSERT_TRUE(timeline.ok()) << timeline.status();
    EXPECT_TRUE(timeline->steady);
    EXPECT_EQ(timeline->step, 3);
    double computed = 0;
    for (const TimelineOp& op : timeline->ops) computed += op.span.end - op.span.begin;
    EXPECT_GE(computed, 7 * 0.03);
    EXPECT_GE(timeline->seconds, computed);
    ASSERT_EQ(timeline->ops.size(), 2 * model_.units.size() - 1);
    EXPECT_EQ(timeline->ops.front().name, "forward u0");
    EXPECT_EQ(timeline->ops.back().name, "backward u0");
    EXPECT_THAT(result.speed, testing::HasSubstr("\n  step  "));
  }
}

// The count goes on over processes, and stops the run before it passes the limit.
TEST_F(TrainerTest, ALimitOfBytesWrittenStopsBeforeItIsPassed) {
  for (const double clip : {0.0, 1.0}) {
    TrainOptions options = Options(absl::StrCat("clip", clip));
    options.swap_paths = {folder_ + "/a"};
    options.offload_param = options.offload_optimizer = Offload::kNvme;
    options.clip = clip;
    TrainResult whole;
    const auto expected = Train(options, &whole);
    ASSERT_TRUE(expected.ok()) << expected.status();
    EXPECT_EQ(whole.run_written_bytes, *WrittenBytes::Read(options.output));
    EXPECT_GT(whole.run_written_bytes, whole.nvme_written_bytes);  // the first state

    options.output += "-limited";
    options.max_bytes_written = whole.run_written_bytes / 2;
    TrainResult result;
    ASSERT_TRUE(Train(options, &result).ok());
    EXPECT_EQ(result.end, TrainResult::End::kStopped);
    EXPECT_EQ(result.stop_signal, 0);
    EXPECT_GT(result.step, 1);
    EXPECT_LT(result.step, options.steps);
    EXPECT_LE(result.run_written_bytes, options.max_bytes_written);
    // No earlier than it has to.
    EXPECT_GT(result.run_written_bytes + 3 * whole.run_written_bytes / options.steps,
              options.max_bytes_written);
    const auto run = ReadRunDescription(options.output);
    EXPECT_EQ(run->parts.back().message, "--max-bytes-written");
    EXPECT_EQ(run->written_bytes, result.run_written_bytes);

    options.resume = true;
    const auto refused = Train(options, &result).status();
    EXPECT_EQ(ExitCodeOf(refused), 3) << refused;
    EXPECT_THAT(std::string(refused.message()), testing::HasSubstr("written by this run so far"));
    options.max_bytes_written = whole.run_written_bytes * 2;
    const auto resumed = Train(options, &result);
    ASSERT_TRUE(resumed.ok()) << resumed.status();
    EXPECT_EQ(*resumed, *expected);
    EXPECT_EQ(result.run_written_bytes, *WrittenBytes::Read(options.output));
  }
}

TEST_F(TrainerTest, AReportSaysHowTheRunEnded) {
  TrainOptions options = Options("run");
  options.tensorboard = folder_ + "/events";
  TrainResult result;
  ASSERT_TRUE(Train(options, &result, /*stop_after=*/5).ok());
  auto run = ReadRunDescription(options.output);
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->parts.back().state, "stopped");
  EXPECT_EQ(run->parts.back().message, "SIGTERM");
  EXPECT_EQ(run->parts.back().last_step, 5);
  EXPECT_EQ(run->units.size(), model_.units.size());
  EXPECT_EQ(run->commits.back().step, 5);
  options.resume = true;
  ASSERT_TRUE(Train(options, &result).ok());
  run = ReadRunDescription(options.output);
  EXPECT_EQ(run->parts.size(), 2u);
  EXPECT_EQ(run->parts.back().first_step, 6);
  EXPECT_EQ(run->parts.back().state, "finished");
  EXPECT_TRUE(std::filesystem::exists(options.output + "/report.html"));
  options = Options("failed");
  EXPECT_FALSE(Train(options, &result, 0, /*fail_at=*/3).ok());
  run = ReadRunDescription(options.output);
  EXPECT_EQ(run->parts.back().state, "failed");
  EXPECT_EQ(run->parts.back().message, "made to fail");
  EXPECT_EQ(run->parts.back().last_step, 2);
  options = Options("run");
  options.tensorboard = folder_ + "/events";
  size_t files = 0;
  for (const auto& file : std::filesystem::directory_iterator(options.tensorboard)) {
    files += file.is_regular_file();
  }
  EXPECT_EQ(files, 2u);
}

}  // namespace
}  // namespace spillway
