#include "engine/estimate/plan_text.h"

#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "io/base/format_bytes.h"
#include "io/base/terminal.h"
#include "swap/plan/planner.h"
#include "tests/swap/plan/gpt_like.h"

namespace spillway {
namespace {

using testing::HasSubstr;
using testing::Not;

SwapPlan Planned(TierChoice tier) {
  const auto plan = PlanSwaps(GptLikeRequest(UpdateMode::kDeferred, tier, 12, 700000, true));
  EXPECT_TRUE(plan.ok()) << plan.status();
  return *plan;
}

PlanFacts Facts() {
  PlanFacts facts;
  facts.parameters = facts.trained_parameters = 85'314'048;
  facts.units = 14;
  facts.device_limit_bytes = facts.host_limit_bytes = 512 * kMiB;
  facts.computing_bytes = 160 * kMiB;
  facts.forecast = StepForecast();
  facts.forecast->predicted_seconds = 1.2;
  facts.forecast->bound_seconds = 0.954;
  facts.forecast->binding = Resource::kDisk;
  facts.steps = 110;
  return facts;
}

void ExpectFits(const std::string& text) {
  for (const auto& line : absl::StrSplit(text, '\n')) EXPECT_LE(ColumnsOf(line), 80) << line;
}

TEST(PlanText, HasFourLinesBelowItsTitle) {
  const SwapPlan plan = Planned(TierChoice::kNvme);
  const std::string text = PlanText(plan, Facts());
  const std::vector<std::string> lines = absl::StrSplit(text, '\n');
  ASSERT_EQ(lines.size(), 5u) << text;
  EXPECT_EQ(lines[0], "plan: 85.3M parameters in 14 units");
  EXPECT_THAT(lines[1], testing::MatchesRegex("  state      .* bytes a parameter: .* on NVMe; "
                                              "activations in memory"));
  EXPECT_EQ(lines[2], "  traffic    " + FormatBytes(plan.traffic.read_bytes) +
                          " read from NVMe and " + FormatBytes(plan.traffic.written_bytes) +
                          " written to it each step");
  EXPECT_EQ(lines[3], "  budgets    512 MiB device memory (RAM on a CPU), 512 MiB host memory");
  EXPECT_EQ(lines[4], "  forecast   1.2 s a step, bound by the disk; 2m12s for 110 steps");
  ExpectFits(text);
}

TEST(PlanText, SaysWhenTheRunCommitsWhereItIsTold) {
  PlanFacts facts = Facts();
  facts.commits = "about every 15 min, and at the end";
  EXPECT_THAT(PlanText(Planned(TierChoice::kNvme), facts),
              HasSubstr("110 steps\n  commits    about every 15 min, and at the end"));
}

TEST(PlanText, SaysWhatStaysInMemoryAndWhatIsNotTrained) {
  PlanFacts facts = Facts();
  facts.trained_parameters = 1234;
  facts.forecast.reset();
  const std::string text = PlanText(Planned(TierChoice::kHost), facts);
  EXPECT_THAT(text, HasSubstr("plan: 85.3M parameters in 14 units, 1.23k of them trained\n"));
  EXPECT_THAT(text, HasSubstr(" in host memory; activations in memory\n"));
  EXPECT_THAT(text, HasSubstr("\n  traffic    none: all of the state stays in memory\n"));
  EXPECT_THAT(text, Not(HasSubstr("forecast")));
  EXPECT_THAT(text, Not(HasSubstr("bytes a parameter")));
}

TEST(PlanText, WhatIsReadInTheModelsFilesIsNotOnNvme) {
  const SwapPlan plan = Planned(TierChoice::kNvme);
  PlanFacts facts = Facts();
  facts.trained_parameters = 1000;
  const PlanResidency kept = plan.Residency();
  const int nvme = static_cast<int>(Tier::kNvme);
  facts.in_place_bytes = kept.weights[nvme] + kept.optimizer[nvme];
  std::string text = PlanText(plan, facts);
  EXPECT_THAT(text, HasSubstr("\n  state      108.21 MiB in the model's files; activations"));
  facts.in_place_bytes -= kMiB;
  text = PlanText(plan, facts);
  EXPECT_THAT(text, HasSubstr("\n  state      1 MiB on NVMe, 107.21 MiB in the model's files;"));
  ExpectFits(text);
}

TEST(PlanText, OfTheWholePlanEveryLineIsExplained) {
  const SwapPlan plan = Planned(TierChoice::kNvme);
  GraphPlan graphs;
  graphs.keeps.assign(14, false);
  PlanFacts facts = Facts();
  facts.products = "fp32: this processor has no bf16 instructions";
  facts.in_place_bytes = kMiB;
  const std::string text = ExplainedPlan(plan, graphs, facts);
  ExpectFits(text);
  // All that Summary says is there, and behind each label's lines what it means.
  for (const auto& line : absl::StrSplit(plan.Summary() + graphs.Summary(), '\n')) {
    EXPECT_THAT(text, HasSubstr(FoldText(line, 80)));
    const size_t label = LabelWidth(line);
    if (label == 0) continue;
    const std::string name(absl::StripAsciiWhitespace(line.substr(0, label)));
    EXPECT_NE(PlanLineMeaning(name), "") << line;
  }
  for (const char* line : {"\n  computing  160 MiB of device memory at most\n",
                           "\n  products   in fp32: this processor has no bf16 instructions\n",
                           "\n  in place   1 MiB in the model's files\n",
                           "\n  forecast   1.2 s a step, at least 0.954 s, bound by the disk\n",
                           "\n  optimizer  ", "moments"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
  for (const char* label : {"spilled", "gradients", "commits"})
    EXPECT_NE(PlanLineMeaning(label), "");
  EXPECT_EQ(PlanLineMeaning("else"), "");
}

TEST(PlanText, CountsHaveThreeDigits) {
  const std::pair<uint64_t, const char*> counts[] = {
      {980, "980"},          {1234, "1.23k"},       {999'960, "1.00M"},
      {85'314'048, "85.3M"}, {124'439'808, "124M"}, {8'030'261'248, "8.03B"}};
  for (const auto& [count, text] : counts) EXPECT_EQ(CountText(count), text);
}

}  // namespace
}  // namespace spillway
