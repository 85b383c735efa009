// Curves of a run in bounded memory: rows are collected in buckets of neighbours, and if there are
// too many buckets, pairs are merged. Buckets have mean, lowest and highest values, so a spike of a
// single step is visible in a run of a million. One thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "engine/measures/sample_text.h"
#include "nlohmann/json.hpp"

namespace spillway {

// A number in the rows of metrics.jsonl or eval.jsonl.
struct SeriesField {
  enum class Show {
    kMean,
    kSpread,  // the mean, and the lowest and highest value
    kHighest,
  };
  const char* name;
  std::string pointer;  // JSON pointer: "/stall_seconds/disk"
  Show show = Show::kMean;
};

// The fields of a row (docs/FORMATS.md) that the report shows.
const std::vector<SeriesField>& StepFields();
const std::vector<SeriesField>& EvaluationFields();

class ReportSeries {
 public:
  // Largest number of points of a curve; even.
  static constexpr size_t kMostBuckets = 2000;

  // `fields` outlives the object.
  explicit ReportSeries(const std::vector<SeriesField>* fields) : fields_(fields) {}

  // Adds the next row, whose "step" is higher than the earlier ones. A field that the row lacks, or
  // that is not a number (null), is left out.
  void Add(const nlohmann::json& row);

  int64_t rows() const { return rows_; }
  int64_t rows_per_bucket() const { return rows_per_bucket_; }
  size_t buckets() const { return buckets_.size(); }
  const nlohmann::json& first_row() const { return first_row_; }
  const nlohmann::json& last_row() const { return last_row_; }

  // Exact values over all rows.
  struct Total {
    int64_t count = 0;  // rows with the field
    double sum = 0;
    double low = 0, high = 0;
    double mean() const { return count > 0 ? sum / count : 0; }
  };
  const Total& total(absl::string_view field) const;
  // The mean of each bucket; nullopt if no row had the field.
  std::vector<std::optional<double>> Means(absl::string_view field) const;
  // The last step of each bucket.
  std::vector<int64_t> Steps() const;
  // The median of Means(); 0 without any.
  double MedianOfMeans(absl::string_view field) const;

  // {"rows":..,"rows_per_point":..,"step":[..],"fields":{"loss":{"mean":[..],"low":[..],
  // "high":[..]},..}}. Numbers have six digits; fields without a value are left out.
  std::string Json() const;

 private:
  struct Cell {
    uint32_t count = 0;
    float low = 0, high = 0;
    double sum = 0;
  };
  struct Bucket {
    int64_t last_step = 0;
    std::vector<Cell> cells;  // by field
  };

  size_t IndexOf(absl::string_view field) const;
  void MergePairs();

  const std::vector<SeriesField>* fields_;
  int64_t rows_ = 0;
  int64_t rows_per_bucket_ = 1;
  int64_t rows_in_last_ = 0;
  std::vector<Bucket> buckets_;
  std::vector<Total> totals_;
  nlohmann::json first_row_, last_row_;
};

// Texts that evaluations wrote for prompts. If there are too many evaluations, every second one of
// the older half is dropped; the first and the newest stay.
class SampleLog {
 public:
  static constexpr size_t kMostEvaluations = 64;
  static constexpr size_t kMostBytes = 4096;  // longest text; the rest is cut

  struct Evaluation {
    int64_t step = 0;
    std::vector<SampleText> texts;
  };

  // Adds the next row of samples.jsonl; invalid rows are skipped.
  void Add(const nlohmann::json& row);
  const std::vector<Evaluation>& evaluations() const { return evaluations_; }

 private:
  std::vector<Evaluation> evaluations_;
};

// All rows of a run in the form that its report and its evaluations need.
struct RunRows {
  ReportSeries steps{&StepFields()};
  ReportSeries evaluations{&EvaluationFields()};
  SampleLog samples;
  // The best evaluation by a metric; the first one among equals.
  struct Best {
    int64_t step = 0;
    double loss = 0;
    std::string metric = "loss";
    double value = 0;  // of the metric
  };
  std::map<std::string, Best> bests;  // by metric, for the held-out data of the last evaluation
  std::string evaluated_data;         // identifies that data; "": from an earlier version
  std::optional<Best> best;           // by the metric requested last

  void AddStep(const nlohmann::json& row) { steps.Add(row); }
  void AddEvaluation(const nlohmann::json& row);
  // Whether an evaluation with this value, of the held-out data `data`, would be the best by this
  // metric, which `best` uses from now on; false for metrics that MeasureKinds lacks. If the data
  // differs from before, the best starts anew.
  bool WouldBeBest(const std::string& metric, const std::string& data, double value);
};

// Time of steps, of waits between them, and of evaluations.
double SecondsSoFar(const RunRows& rows);

}  // namespace spillway
