#include "engine/report/run_journal.h"

#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace spillway {
namespace {

using testing::HasSubstr;
using testing::Not;

class RunJournalTest : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(output_); }
  void TearDown() override { std::filesystem::remove_all(output_); }

  std::unique_ptr<RunJournal> Open(int64_t last_step) {
    RunDescription run;
    run.steps = 100;
    auto journal = RunJournal::Open(output_, "", last_step, run, [this] { return now_; });
    EXPECT_TRUE(journal.ok()) << journal.status();
    return *std::move(journal);
  }
  void Step(RunJournal& journal, int64_t step) {
    StepMetrics metrics;
    metrics.step = step;
    metrics.loss = 3;
    metrics.seconds = 1;
    ASSERT_EQ(journal.Step(metrics), absl::OkStatus());
  }
  nlohmann::json Evaluate(RunJournal& journal, int64_t step, double loss) {
    EvaluationMetrics metrics;
    metrics.step = step;
    metrics.loss = loss;
    EXPECT_EQ(journal.Evaluation(metrics), absl::OkStatus());
    return ToJson(metrics);
  }
  std::string Page() const {
    std::ifstream file(output_ + "/report.html");
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }
  // The last step that the page knows of.
  int64_t Shown() const {
    const std::string page = Page();
    const size_t begin = page.find("\"step\":[");
    const size_t end = page.find(']', begin);
    return std::stoll(page.substr(page.find_last_of(",[", end) + 1));
  }

  const std::string output_ = testing::TempDir() + "/journal";
  double now_ = 1700000000;
};

TEST_F(RunJournalTest, OneThatDoesNotOpenSaysSoAndHasNoEnd) {
  std::filesystem::create_directory(output_ + "/metrics.jsonl");
  EXPECT_FALSE(RunJournal::Open(output_, "", -1, {}, [this] { return now_; }).ok());
  EXPECT_FALSE(std::filesystem::exists(output_ + "/run.json"));
}

TEST_F(RunJournalTest, AnEvaluationIsComparedWithAllBeforeIt) {
  auto journal = Open(-1);
  EXPECT_EQ(Evaluate(*journal, 0, 5)["best"], true);
  EXPECT_EQ(Evaluate(*journal, 10, 4)["best"], true);
  auto row = Evaluate(*journal, 20, 4.5);
  EXPECT_EQ(row["best"], false);
  EXPECT_EQ(row["best_step"], 10);
  journal->End("stopped", "SIGTERM");
  // A process that goes on after step 9 has forgotten step 10 and its evaluation.
  journal = Open(9);
  row = Evaluate(*journal, 10, 4.8);
  EXPECT_EQ(row["best"], true);
  journal.reset();
  journal = Open(12);
  row = Evaluate(*journal, 20, 4.8);
  EXPECT_EQ(row["best"], false);
  EXPECT_EQ(row["best_step"], 10);
  EXPECT_EQ(Evaluate(*journal, 30, std::numeric_limits<double>::quiet_NaN())["best"], false);
}

TEST_F(RunJournalTest, TheMetricDecidesWhichEvaluationIsTheBest) {
  const auto evaluate = [&](RunJournal& journal, int64_t step, const char* metric, double value) {
    EvaluationMetrics metrics;
    metrics.step = step;
    metrics.loss = 10.0 - static_cast<double>(step) / 10;  // ever better
    metrics.metric = metric;
    metrics.quality = {{"bleu", value}, {"wer", value}};
    EXPECT_EQ(journal.Evaluation(metrics), absl::OkStatus());
    return metrics.best;
  };
  auto journal = Open(-1);
  EXPECT_TRUE(evaluate(*journal, 0, "bleu", 20));
  EXPECT_TRUE(evaluate(*journal, 10, "bleu", 30));
  EXPECT_FALSE(evaluate(*journal, 20, "bleu", 25));
  EXPECT_EQ(journal->best()->step, 10);
  EXPECT_EQ(journal->best()->value, 30);
  EXPECT_EQ(journal->best()->loss, 9);
  journal->End("stopped", "SIGTERM");
  journal = Open(20);
  EXPECT_FALSE(evaluate(*journal, 30, "bleu", 29));
  journal->End("stopped", "SIGTERM");
  EXPECT_NE(Page().find("Best held-out bleu"), std::string::npos);
  EXPECT_NE(Page().find(">wer</th>"), std::string::npos);
  // Another metric begins anew, and of error rates the lower is the better.
  journal = Open(30);
  EXPECT_TRUE(evaluate(*journal, 40, "wer", 0.5));
  EXPECT_FALSE(evaluate(*journal, 50, "wer", 0.6));
  EXPECT_TRUE(evaluate(*journal, 60, "wer", 0.4));
  EXPECT_FALSE(evaluate(*journal, 70, "wer", std::nan("")));
  EXPECT_EQ(journal->best()->step, 60);
}

TEST_F(RunJournalTest, AReportIsMadeAboutOnceAMinute) {
  auto journal = Open(-1);
  Step(*journal, 1);
  EXPECT_EQ(Shown(), 1);
  EXPECT_THAT(Page(), HasSubstr(">running<"));
  // More often at first: each fifth of the time so far.
  now_ += 1;
  Step(*journal, 2);
  EXPECT_EQ(Shown(), 1);
  now_ += 1;
  Step(*journal, 2);
  EXPECT_EQ(Shown(), 2);
  now_ += 298;
  Step(*journal, 2);
  now_ += 59;
  Step(*journal, 3);
  EXPECT_EQ(Shown(), 2);
  now_ += 1;
  Step(*journal, 3);
  EXPECT_EQ(Shown(), 3);
  now_ += 10;
  Step(*journal, 4);
  EXPECT_EQ(Shown(), 3);
  journal->Commit(4);
  EXPECT_EQ(Shown(), 4);
  now_ += 1;
  Step(*journal, 5);
  journal->Commit(5);
  EXPECT_EQ(Shown(), 4);
  journal->End("finished");
  EXPECT_EQ(Shown(), 5);
  EXPECT_THAT(Page(), HasSubstr(">finished<"));
}

TEST_F(RunJournalTest, MakingReportsTakesAHundredthOfTheTime) {
  // Every look at the clock is 2 s later, so a report seems to take 2 s.
  RunDescription run;
  auto journal = RunJournal::Open(output_, "", -1, run, [this] { return now_ += 2; });
  ASSERT_TRUE(journal.ok());
  Step(**journal, 1);
  now_ += 150;
  Step(**journal, 2);
  EXPECT_EQ(Shown(), 1);
  now_ += 50;
  Step(**journal, 3);
  EXPECT_EQ(Shown(), 3);
}

TEST_F(RunJournalTest, TheHistoryGoesOnWithTheRun) {
  auto journal = Open(-1);
  for (int64_t step = 1; step <= 6; ++step) {
    Step(*journal, step);
    if (step % 2 == 0) {
      now_ += 10;
      journal->Commit(step);
    }
  }
  journal->End("stopped", "SIGTERM");
  journal = Open(4);
  Step(*journal, 5);
  journal->End("failed", "out of <luck>");
  const auto run = ReadRunDescription(output_);
  ASSERT_TRUE(run.ok()) << run.status();
  ASSERT_EQ(run->parts.size(), 2u);
  EXPECT_EQ(run->parts[0].state, "stopped");
  EXPECT_EQ(run->parts[0].last_step, 6);
  EXPECT_EQ(run->parts[1].first_step, 5);
  EXPECT_EQ(run->parts[1].last_step, 5);
  EXPECT_EQ(run->commits.size(), 2u);  // that of step 6 counts no more
  EXPECT_THAT(Page(), HasSubstr("out of &lt;luck&gt;"));
  EXPECT_EQ(Shown(), 5);
  // A run that begins anew has no history.
  journal = Open(-1);
  Step(*journal, 1);
  EXPECT_EQ(ReadRunDescription(output_)->parts.size(), 1u);
}

TEST_F(RunJournalTest, AProcessThatWasKilledIsCalledThat) {
  auto journal = Open(-1);
  Step(*journal, 1);
  // What a kill leaves: the files as they are.
  std::filesystem::copy(output_, output_ + "-killed");
  journal.reset();
  std::filesystem::remove_all(output_);
  std::filesystem::rename(output_ + "-killed", output_);
  journal = Open(1);
  journal->End("finished");
  EXPECT_EQ(ReadRunDescription(output_)->parts[0].state, "killed");
  EXPECT_THAT(Page(), HasSubstr("ended unexpectedly"));
}

// run.json is written about once a minute; rows and commits are there at once.
TEST_F(RunJournalTest, WhatAKilledProcessDidLastIsInTheHistory) {
  auto journal = Open(-1);
  Step(*journal, 1);
  Step(*journal, 2);
  journal->Commit(2);
  EXPECT_EQ(ReadRunDescription(output_)->commits.size(), 1u);
  for (int64_t step = 3; step <= 7; ++step) Step(*journal, step);
  // Of the commit after step 4 it has not come to say anything.
  std::filesystem::copy(output_, output_ + "-killed");
  journal.reset();
  std::filesystem::remove_all(output_);
  std::filesystem::rename(output_ + "-killed", output_);
  journal = Open(4);
  journal->End("finished");
  const auto run = ReadRunDescription(output_);
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->parts[0].last_step, 7);
  EXPECT_EQ(run->parts[1].first_step, 5);
  ASSERT_EQ(run->commits.size(), 2u);
  EXPECT_EQ(run->commits[0].step, 2);
  EXPECT_EQ(run->commits[1].step, 4);
  EXPECT_EQ(run->commit_count, 2);
  EXPECT_THAT(
      Page(),
      HasSubstr("<td class=\"number\" data-label=\"Step\">4</td><td data-label=\"Begun\">—</td>"));
}

TEST_F(RunJournalTest, EveryProcessHasItsProgramAndMachine) {
  const auto open = [&](int64_t last_step, const char* version) {
    RunDescription run;
    RunPart& part = run.parts.emplace_back();
    part.origin = {version, "abc", "Release", {"spillway", "train"}};
    part.machine.cores = 4;
    return *RunJournal::Open(output_, "", last_step, run, [this] { return now_; });
  };
  auto journal = open(-1, "0.1.0");
  Step(*journal, 1);
  journal->End("stopped", "SIGTERM");
  journal = open(1, "0.2.0");
  journal->End("finished");
  const auto run = ReadRunDescription(output_);
  ASSERT_EQ(run->parts.size(), 2u);
  EXPECT_EQ(run->parts[0].origin.version, "0.1.0");
  EXPECT_EQ(run->parts[1].origin.version, "0.2.0");
  EXPECT_EQ(run->parts[1].machine.cores, 4);
  EXPECT_EQ(run->parts[1].first_step, 2);
}

TEST_F(RunJournalTest, SampleTextsAreKeptAsEvaluationsAre) {
  auto journal = Open(-1);
  ASSERT_EQ(journal->Samples(0, {}), absl::OkStatus());
  EXPECT_FALSE(std::filesystem::exists(output_ + "/samples.jsonl"));
  for (const int64_t step : {0, 10, 20}) {
    ASSERT_EQ(journal->Samples(step, {{"a", absl::StrCat("b", step), true}, {"c", "d", false}}),
              absl::OkStatus());
  }
  journal->End("stopped", "SIGTERM");
  EXPECT_THAT(Page(), HasSubstr(">b20<"));
  // Step 20 is taken again.
  journal = Open(15);
  journal->End("stopped", "SIGTERM");
  EXPECT_THAT(Page(), HasSubstr(">b10<"));
  EXPECT_THAT(Page(), Not(HasSubstr(">b20<")));
  std::ifstream file(output_ + "/samples.jsonl");
  std::string line;
  std::getline(file, line);
  EXPECT_EQ(line, R"({"ended":true,"prompt":"a","step":0,"text":"b0"})");
}

TEST_F(RunJournalTest, WithoutAnEndTheRunFailed) {
  Step(*Open(-1), 1);
  EXPECT_EQ(ReadRunDescription(output_)->parts[0].state, "failed");
}

TEST_F(RunJournalTest, AReportThatCannotBeWrittenIsAWarning) {
  auto journal = Open(-1);
  std::filesystem::create_directories(output_ + "/report.html/in-the-way");
  testing::internal::CaptureStderr();
  Step(*journal, 1);
  now_ += 100;
  Step(*journal, 2);
  journal->End("finished");
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr("training goes on"));
  EXPECT_EQ(said.find("training goes on"), said.rfind("training goes on")) << said;
  EXPECT_TRUE(ReadRunDescription(output_).ok());
}

TEST_F(RunJournalTest, EventsOfWhatACommitCoversAreWrittenBeforeIt) {
  const std::string events = output_ + "/events";
  auto journal = RunJournal::Open(output_, events, -1, RunDescription(), [this] { return now_; });
  ASSERT_TRUE(journal.ok()) << journal.status();
  Step(**journal, 1);  // the first one is written at once
  const std::filesystem::path file = std::filesystem::directory_iterator(events)->path();
  const auto size = std::filesystem::file_size(file);
  Step(**journal, 2);
  EXPECT_EQ(std::filesystem::file_size(file), size);
  ASSERT_EQ((*journal)->Sync(), absl::OkStatus());
  EXPECT_GT(std::filesystem::file_size(file), size);
}

TEST_F(RunJournalTest, ADamagedHistoryBeginsAnew) {
  std::ofstream(RunDescriptionPath(output_)) << "{";
  testing::internal::CaptureStderr();
  auto journal = Open(3);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("run.json"));
  journal->End("finished");
  EXPECT_EQ(ReadRunDescription(output_)->parts.size(), 1u);
}

}  // namespace
}  // namespace spillway
