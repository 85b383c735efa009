#include "engine/report/compare_report.h"

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace spillway {
namespace {

// Not HasSubstr: a failure would print the whole page.
bool Shows(const std::string& page, const std::string& text) {
  return page.find(text) != std::string::npos;
}

class CompareReportTest : public testing::Test {
 protected:
  // A run of three steps, of `path`.
  ReportInput Run(const std::string& path, double lr, RunRows& rows) {
    for (int64_t step = 1; step <= 3; ++step) {
      rows.AddStep({{"step", step},
                    {"loss", lr * static_cast<double>(step)},
                    {"lr", lr},
                    {"tokens", 100},
                    {"seconds", 2},
                    {"tokens_per_second", 50}});
    }
    ReportInput input;
    input.output = path;
    input.run.steps = 3;
    input.run.parts.emplace_back().state = "finished";
    input.run.parts.back().origin.version = "0.1.0";
    input.config = {{"lr", {{"value", lr}, {"source", "--lr"}}},
                    {"clip", {{"value", 1.0}, {"source", "default"}}},
                    {"output", {{"value", path}, {"source", "--output"}}}};
    input.rows = &rows;
    return input;
  }

  RunRows first_rows_, second_rows_;
};

TEST_F(CompareReportTest, CurvesLieOverOneAnotherAndOnlyDifferencesAreListed) {
  const ReportInput first = Run("/runs/a", 0.5, first_rows_);
  const ReportInput second = Run("/runs/b", 0.25, second_rows_);
  const std::string page = RenderComparison({first, second}, 1700000000);
  for (const char* words :
       {"<title>a, b · Spillway</title>", "data-chart=\"loss\"", "data-chart=\"lr\"",
        "data-chart=\"tokens_per_second\"", "{\"name\":\"a\",\"steps\":{", "{\"name\":\"b\"",
        "1.5000", "0.7500", "<code>lr</code>", "<code>0.25</code>", "50 tokens/s", "0.1.0"}) {
    EXPECT_TRUE(Shows(page, words)) << words;
  }
  EXPECT_TRUE(Shows(page, "<td data-label=\"b\"><code>0.25</code></td>"));
  EXPECT_FALSE(Shows(page, "<code>clip</code>"));
  EXPECT_FALSE(Shows(page, "<code>output</code>"));
  EXPECT_FALSE(Shows(page, "data-chart=\"held-out\""));
  EXPECT_FALSE(Shows(page, "{{"));
}

TEST_F(CompareReportTest, AMeasureOfOneRunHasAChart) {
  const ReportInput first = Run("/runs/a", 0.5, first_rows_);
  second_rows_.AddEvaluation(
      {{"step", 2}, {"loss", 2.5}, {"accuracy", 0.5}, {"metric", "accuracy"}});
  const ReportInput second = Run("/runs/b", 0.25, second_rows_);
  const std::string page = RenderComparison({first, second}, 1700000000);
  EXPECT_TRUE(Shows(page, "data-chart=\"held-out\""));
  EXPECT_TRUE(Shows(page, "data-chart=\"measure-accuracy\""));
  EXPECT_TRUE(Shows(page, "accuracy 0.5000, step 2"));
}

TEST_F(CompareReportTest, RunsOfOneNameAreToldApartByTheirFolders) {
  const ReportInput first = Run("/runs/monday/gpt", 0.5, first_rows_);
  const ReportInput second = Run("/runs/<b>/gpt", 0.5, second_rows_);
  const std::string page = RenderComparison({first, second}, 1700000000);
  EXPECT_TRUE(Shows(page, "<title>monday/gpt, &lt;b&gt;/gpt · Spillway</title>"));
  EXPECT_TRUE(Shows(page, "No setting does."));
  EXPECT_FALSE(Shows(page, "<b>"));
}

}  // namespace
}  // namespace spillway
