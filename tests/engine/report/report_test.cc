#include "engine/report/report.h"

#include <cmath>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "engine/report/machine_sections.h"
#include "engine/report/overview_sections.h"
#include "engine/report/run_sections.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace spillway {
namespace {

// Not HasSubstr: a failure would print the whole page.
bool Has(const std::string& page, const std::string& text) {
  return page.find(text) != std::string::npos;
}

// A cell of a column with this heading.
std::string Number(const char* heading, const char* text) {
  return absl::StrCat("<td class=\"number\" data-label=\"", heading, "\">", text, "</td>");
}

nlohmann::json StepRow(int64_t step) {
  return {{"step", step},
          {"loss", 5.0 / step},
          {"grad_norm", 1.5},
          {"lr", 0.001},
          {"tokens", 1000},
          {"seconds", 2},
          {"tokens_per_second", 500},
          {"commit_seconds", 0.5},
          {"bytes", {{"nvme_read", 1 << 20}, {"nvme_written", 1 << 19}}},
          {"stall_seconds", {{"disk", 0.5}, {"update", 0.25}}},
          {"busy_seconds", {{"disk", 1.5}, {"update", 3}, {"compute", 1}}},
          {"peak_bytes", {{"device", 3 << 20}, {"host", 5 << 20}, {"rss", 90 << 20}}}};
}

class ReportTest : public testing::Test {
 protected:
  void SetUp() override {
    RunDescription& run = input_.run;
    run.parameters = 124439808;
    run.steps = 4;
    run.micro_batch = 2;
    run.accumulate = 3;
    run.threads = 2;
    run.dtype = "bf16";
    run.optimizer = "adamw";
    run.device = "cpu";
    run.io_engine = "io_uring";
    run.deferred = true;
    run.device_budget_bytes = 8 << 20;
    run.host_budget_bytes = 16 << 20;
    run.plan_summary = "  weights   4 MiB nvme\n";
    run.planes = {{"weight", 2}, {"exp_avg", 4}};
    for (const char* name : {"wte", "h.0", "h.1", "h.2"}) {
      PlannedUnit unit;
      unit.name = name;
      unit.parameters = run.units.empty() ? 999 : 4096;
      unit.weights = {8192, run.units.size() == 3 ? "host" : "nvme"};
      unit.optimizer = {16384, "nvme"};
      unit.gradients = {8192, "host"};
      run.units.push_back(unit);
    }
    RunPart part;
    part.started = 1700000000;
    part.ended = 1700000100;
    part.last_step = 4;
    part.state = "finished";
    part.host = "node7";
    run.parts.push_back(part);
    AddCommit(run, {4, 1700000050});
    for (int64_t step = 1; step <= 4; ++step) rows_.AddStep(StepRow(step));
    input_.output = "/runs/first";
    input_.config = {{"model", {{"value", "/models/gpt2/"}, {"source", "--model"}}},
                     {"lr", {{"value", 0.001}, {"source", "ds.json:12"}}},
                     {"host-memory", {{"value", 16u << 20}, {"source", "--host-memory"}}},
                     {"clip", {{"value", 1.0}, {"source", "default"}}}};
    input_.rows = &rows_;
    input_.now = 1700000101;
  }

  RunRows rows_;
  ReportInput input_;
};

TEST_F(ReportTest, HasEverySectionAndNoPlaceholder) {
  const std::string page = RenderReport(input_);
  for (const char* words :
       {"<title>first · Spillway</title>", ">finished<", "<h2>Learning", "<h2>Speed",
        "<h2>Memory and storage", "<h2>Plan", "<h2>History", "<h2>Configuration",
        "124,439,808 (124M)", "6 samples a step (3 micro-batches of 2)", "node7", "ds.json:12",
        "16 MiB", "2023-11-14 22:13:20 UTC", "class Chart"}) {
    EXPECT_TRUE(Has(page, words));
  }
  EXPECT_FALSE(Has(page, "{{"));
  for (const char* chart : {"loss", "lr", "grad_norm", "time", "busy", "memory", "nvme"}) {
    EXPECT_TRUE(Has(page, absl::StrCat("data-chart=\"", chart, "\"")));
  }
}

TEST_F(ReportTest, WhatTheRunDoesNotHaveIsLeftOut) {
  std::string page = RenderReport(input_);
  for (const char* chart : {"perplexity", "loss_scale", "predicted"}) {
    EXPECT_FALSE(Has(page, absl::StrCat("data-chart=\"", chart, "\""))) << chart;
  }
  EXPECT_FALSE(Has(page, "Predicted against measured"));
  rows_.AddEvaluation({{"step", 4}, {"loss", 2.5}, {"perplexity", std::exp(2.5)}, {"seconds", 1}});
  nlohmann::json row = StepRow(5);
  row["loss_scale"] = 65536;
  row["predicted_seconds"] = 1.6;
  row["bound_seconds"] = 1.25;
  row["binding"] = {{"forward", "disk"}, {"backward", "compute"}, {"flush", 7}};
  rows_.AddStep(row);
  page = RenderReport(input_);
  for (const char* chart : {"perplexity", "loss_scale", "predicted"}) {
    EXPECT_TRUE(Has(page, absl::StrCat("data-chart=\"", chart, "\""))) << chart;
  }
  EXPECT_TRUE(Has(page, "forward: disk; backward: compute."));
  EXPECT_TRUE(Has(page, "1.25 ×"));  // 2 s over the predicted 1.6
  EXPECT_FALSE(Has(page, "with measured rates"));
  input_.run.predicted_at_observed_rates_seconds = 2.5;
  page = RenderReport(input_);
  EXPECT_TRUE(Has(page, "predicted with measured rates"));
  EXPECT_TRUE(Has(page, "0.80 ×"));
  EXPECT_TRUE(Has(page, "2.5000"));
}

TEST_F(ReportTest, TheSharesOfTheTimeAddUp) {
  const std::string speed = SpeedSection(input_);
  // A step: 1 s of computing, 0.75 of waiting, and a quarter that nothing counted; 0.5 of commits.
  for (const auto& [time, share] :
       {std::pair{"4 s", "40.0 %"}, {"2 s", "20.0 %"}, {"1 s", "10.0 %"}, {"10 s", "100 %"}}) {
    EXPECT_TRUE(Has(speed, Number("Time", time) + Number("Share", share))) << time;
  }
  EXPECT_FALSE(Has(speed, "waiting for copies"));
}

TEST_F(ReportTest, OfSeveralRanksItSaysWhoseFiguresTheseAre) {
  input_.run.written_bytes = 1 << 20;
  std::string page = RenderReport(input_);
  EXPECT_FALSE(Has(page, " of rank "));
  EXPECT_TRUE(Has(page, "Per parameter"));
  EXPECT_TRUE(Has(page, "written by this run"));
  input_.run.ranks = 2;
  page = RenderReport(input_);
  for (const char* words :
       {"12 samples a step (3 micro-batches of 2 on each of 2 ranks)", "2 threads a rank",
        "1 MiB each step of rank 0", "host 5 MiB of 16 MiB; of rank 0",
        "Where the time of rank 0 went", "Where the time of a step of rank 0 went",
        "Traffic and wear of rank 0", "Plan of rank 0", "Memory and storage of rank 0"}) {
    EXPECT_TRUE(Has(page, words)) << words;
  }
  // Bytes of one rank are of its share of the parameters.
  EXPECT_FALSE(Has(page, "Per parameter"));
  EXPECT_FALSE(Has(page, "written by this run"));
  input_.run.accumulate = 1;
  EXPECT_TRUE(Has(HeaderSection(input_), "4 samples a step (2 on each of 2 ranks)"));
}

TEST_F(ReportTest, PerplexityIsShownWhereItWasMeasured) {
  rows_.AddEvaluation({{"step", 2}, {"loss", 0.5}, {"accuracy", 0.75}, {"metric", "accuracy"}});
  std::string page = LearningSection(input_);
  EXPECT_TRUE(Has(page, ">accuracy</th>"));
  EXPECT_FALSE(Has(page, "Perplexity"));
  rows_.AddEvaluation({{"step", 4}, {"loss", 0.25}, {"perplexity", 1.284}});
  page = LearningSection(input_);
  EXPECT_TRUE(Has(page, "Perplexity</th>"));
  EXPECT_TRUE(Has(page, Number("Loss", "0.2500") + Number("Perplexity", "1.284")));
}

TEST_F(ReportTest, OfManyEvaluationsTheFirstTheBestAndTheLastAreThemselves) {
  constexpr int64_t kEvaluations = 4002;
  for (int64_t i = 0; i < kEvaluations; ++i) {
    const double loss = i == 0 ? 9 : i == 1234 ? 1 : i + 1 == kEvaluations ? 7 : 3 + i % 2;
    rows_.AddEvaluation({{"step", 10 * i}, {"loss", loss}, {"accuracy", loss / 10}});
  }
  const std::string page = LearningSection(input_);
  EXPECT_TRUE(Has(page, "means over the 4 evaluations up to the step named"));
  const auto cells = [](const char* step, const char* loss) {
    return Number("Step", step) + Number("Loss", loss);
  };
  EXPECT_TRUE(
      Has(page, cells("0", "9.0000") + Number("accuracy", "0.9000") + "<td>before training"));
  EXPECT_TRUE(Has(page, cells("12,340", "1.0000") + Number("accuracy", "") + "<td>best"));
  EXPECT_TRUE(Has(page, cells("40,010", "7.0000") + Number("accuracy", "0.7000")));
  EXPECT_TRUE(Has(page, Number("Loss", "3.5000") + Number("accuracy", "0.3500")));
}

TEST_F(ReportTest, SettingsThatAreNoneAreLeftOut) {
  input_.config["half"] = {{"source", "--half"}};
  input_.config["half-memory"] = {{"source", "--half-memory"}};
  input_.config["number"] = 5;
  const std::string page = ConfigurationSection(input_);
  EXPECT_TRUE(Has(page, "ds.json:12"));
  EXPECT_FALSE(Has(page, "half"));
  EXPECT_FALSE(Has(page, "number"));
}

TEST_F(ReportTest, WhatNobodyHasSetIsFolded) {
  const std::string page = ConfigurationSection(input_);
  const size_t fold = page.find("<details>");
  ASSERT_NE(fold, std::string::npos);
  EXPECT_LT(page.find("<code>lr</code>"), fold);
  EXPECT_GT(page.find("<code>clip</code>"), fold);
}

TEST_F(ReportTest, ItSaysWhichProgramAndMachineItWasAndHowMuchDataThereIs) {
  RunPart& part = input_.run.parts.back();
  part.origin = {"0.1.0", "f629393f5039", "Release", {"spillway", "train", "--data", "my file"}};
  part.machine = {"Xeon", 8, 31ull << 30};
  input_.run.data = {"texts", 48, 4800, 48};
  input_.config["data"] = {{"value", {"a.csv"}}, {"source", "--data"}};
  const std::string page = RenderReport(input_);
  for (const char* words : {"0.1.0 (f629393f5039)", "spillway train --data &#39;my file&#39;",
                            "node7, 8 cores of Xeon, 31 GiB", "a.csv: 48 texts, 4.8k tokens",
                            "<dt>Epochs</dt><dd>0.5</dd>", "<p class=\"path\">/runs/first</p>"}) {
    EXPECT_TRUE(Has(page, words)) << words;
  }
  // A run of an earlier version.
  part.origin = {};
  part.machine = {};
  input_.run.data = {};
  for (const char* words : {"<dt>Command", "<dt>Spillway", "<dt>Epochs"}) {
    EXPECT_FALSE(Has(RenderReport(input_), words)) << words;
  }
}

TEST_F(ReportTest, OneThatRunsReloadsAndSaysHowLongIsLeft) {
  EXPECT_FALSE(Has(RenderReport(input_), "\"reload_seconds\":"));
  RunPart& part = input_.run.parts.back();
  part.state = "running";
  part.ended = 0;
  input_.run.steps = 10;
  // Four steps of 2 s, with half a second of commits each: six more take 15 s.
  std::string page = RenderReport(input_);
  EXPECT_TRUE(Has(page, "About 15s left: done around 2023-11-14 22:15:16 UTC"));
  EXPECT_TRUE(Has(page, "\"reload_seconds\":10.1"));
  EXPECT_TRUE(Has(page, "of 10"));
  part.state = "finished";
  EXPECT_FALSE(Has(RenderReport(input_), "15s left"));
}

TEST_F(ReportTest, MeasuresHaveChartsAndTheFirstOneACard) {
  rows_.AddEvaluation({{"step", 2}, {"loss", 0.5}, {"accuracy", 0.75}, {"f1", 0.5}});
  std::string page = RenderReport(input_);
  EXPECT_TRUE(Has(page, "data-chart=\"measure-accuracy\""));
  EXPECT_TRUE(Has(page, "data-chart=\"measure-f1\""));
  EXPECT_TRUE(Has(page, ">Accuracy</div><div class=\"value\">0.7500</div>"));
  // The one that decides which is the best stands first, and has the card of the best.
  rows_.AddEvaluation(
      {{"step", 4}, {"loss", 0.4}, {"accuracy", 0.7}, {"f1", 0.6}, {"metric", "f1"}});
  page = RenderReport(input_);
  EXPECT_LT(page.find("measure-f1"), page.find("measure-accuracy"));
  EXPECT_TRUE(Has(page, ">Best held-out f1</div><div class=\"value\">0.6000</div>"));
}

TEST_F(ReportTest, SpeedIsInWhatTheModelReads) {
  EXPECT_TRUE(Has(CardsSection(input_), ">Tokens/s</div><div class=\"value\">500</div>"));
  RunRows pictures;
  nlohmann::json row = StepRow(1);
  row.merge_patch(
      {{"tokens", 0}, {"tokens_per_second", 0}, {"samples", 6}, {"samples_per_second", 3}});
  pictures.AddStep(row);
  input_.rows = &pictures;
  input_.run.data.unit = "pictures";
  EXPECT_TRUE(Has(CardsSection(input_), ">Pictures/s</div><div class=\"value\">3</div>"));
  EXPECT_TRUE(Has(SpeedSection(input_), "data-chart=\"samples_per_second\""));
}

TEST_F(ReportTest, SampleTextsAreShownNewestFirst) {
  EXPECT_EQ(SamplesSection(input_), "");
  for (const int64_t step : {0, 2, 4}) {
    rows_.samples.Add({{"step", step},
                       {"prompt", "Say <b>"},
                       {"text", absl::StrCat("text of ", step)},
                       {"ended", step == 4}});
  }
  const std::string page = SamplesSection(input_);
  EXPECT_TRUE(Has(page, "Say &lt;b&gt;"));
  EXPECT_LT(page.find("text of 4"), page.find("text of 0"));
  EXPECT_LT(page.find("text of 0"), page.find("<details>"));
  EXPECT_GT(page.find("text of 2"), page.find("<details>"));
}

TEST_F(ReportTest, ThePlanJoinsUnitsThatAreAlike) {
  const std::string plan = PlanSection(input_);
  EXPECT_TRUE(Has(plan, "h.0 to h.1 (2)"));
  EXPECT_TRUE(Has(plan, "<td>h.2</td>"));
  EXPECT_TRUE(Has(plan, "24 KiB"));  // three units' weights on NVMe
  EXPECT_TRUE(Has(plan, "exp_avg"));
}

TEST_F(ReportTest, TheHeaderSaysHowItEnded) {
  RunPart& part = input_.run.parts.back();
  const auto header = [&](const char* state, const char* message) {
    part.state = state;
    part.message = message;
    return HeaderSection(input_);
  };
  EXPECT_TRUE(Has(header("running", ""), ">running<"));
  EXPECT_TRUE(Has(header("stopped", "SIGTERM"), "stopped by SIGTERM"));
  EXPECT_TRUE(Has(header("failed", "disk <full>"), "disk &lt;full&gt;"));
  EXPECT_TRUE(Has(header("killed", ""), "ended unexpectedly"));
}

TEST_F(ReportTest, TheHeaderSpeaksOfNoCommitThatIsNotThere) {
  const auto header = [&](const char* state, bool has_commit) {
    input_.run.parts.back().state = state;
    input_.has_commit = has_commit;
    return HeaderSection(input_);
  };
  constexpr char kNone[] = "No commit was made; --resume starts at step 1.";
  for (const char* state : {"killed", "failed", "stopped"}) {
    EXPECT_TRUE(Has(header(state, false), kNone)) << state;
    EXPECT_FALSE(Has(header(state, true), kNone)) << state;
  }
  EXPECT_TRUE(Has(header("killed", true), "--resume continues from the last commit"));
  EXPECT_FALSE(Has(header("finished", false), "--resume"));
}

TEST_F(ReportTest, TheHeaderSaysFromWhereOnTheRunIsAnother) {
  EXPECT_FALSE(Has(HeaderSection(input_), "--allow-change"));
  input_.run.changes = {{1200, "lr", "5e-05", "<0.0001>"}};
  EXPECT_TRUE(Has(HeaderSection(input_),
                  "From step 1,200 on: lr &lt;0.0001&gt; instead of 5e-05 (--allow-change)"));
}

TEST_F(ReportTest, NothingThatComesFromOutsideIsMarkup) {
  const std::string hostile = "</script><script>alert(1)</script>\"'&<b>";
  RunDescription& run = input_.run;
  run.plan_summary = run.dtype = run.optimizer = run.device = run.io_engine = hostile;
  for (PlannedUnit& unit : run.units) unit.name = unit.weights.tier = hostile;
  run.planes[1].first = hostile;
  run.parts[0].message = run.parts[0].host = hostile;
  input_.output = hostile;
  for (const char* state : {"failed", "stopped", hostile.c_str()}) {
    run.parts[0].state = state;
    nlohmann::json row = StepRow(rows_.steps.rows() + 1);
    row["binding"] = {{"forward", hostile}};
    row["predicted_seconds"] = 1;
    rows_.AddStep(row);
    for (const bool configured : {true, false}) {
      input_.config = nullptr;
      if (configured) {
        for (const char* name : {"model", "data", "</table>", "eval-data"}) {
          input_.config[name] = {{"value", {hostile, hostile}}, {"source", hostile}};
        }
        input_.config["model"]["value"] = hostile;
      }
      const std::string page = RenderReport(input_);
      EXPECT_TRUE(Has(page, "alert(1)"));
      EXPECT_FALSE(Has(page, "<script>alert"));
      EXPECT_FALSE(Has(page, "<b>"));
      size_t scripts = 0;
      for (size_t at = 0; (at = page.find("</script", at)) != std::string::npos; ++at) ++scripts;
      EXPECT_EQ(scripts, 3u);
    }
  }
}

TEST_F(ReportTest, ARunWithoutAnythingIsAPageToo) {
  RunRows none;
  ReportInput empty;
  empty.rows = &none;
  const std::string page = RenderReport(empty);
  EXPECT_TRUE(Has(page, "Training run"));
  EXPECT_TRUE(Has(page, "\"step\":[]"));
}

TEST_F(ReportTest, IsMadeAgainFromTheFilesOfARun) {
  const std::string output = testing::TempDir() + "/run";
  std::filesystem::create_directories(output);
  RunRows rows;
  EXPECT_EQ(ReadReportInput(output, &rows).status().code(), absl::StatusCode::kNotFound);
  std::ofstream(output + "/run.json") << ToJson(input_.run).dump();
  std::ofstream metrics(output + "/metrics.jsonl");
  for (int64_t step = 1; step <= 4; ++step) metrics << StepRow(step).dump() << "\n";
  metrics.close();
  std::ofstream(output + "/config.resolved.json") << input_.config.dump();
  auto read = ReadReportInput(output, &rows);
  ASSERT_TRUE(read.ok()) << read.status();
  read->output = input_.output;
  read->now = input_.now;
  EXPECT_TRUE(RenderReport(*read) == RenderReport(input_));
  ASSERT_EQ(WriteReport(*read, output + "/report.html"), absl::OkStatus());
  EXPECT_EQ(std::filesystem::file_size(output + "/report.html"), RenderReport(input_).size());
  EXPECT_FALSE(WriteReport(*read, output + "/nowhere/report.html").ok());
}

}  // namespace
}  // namespace spillway
