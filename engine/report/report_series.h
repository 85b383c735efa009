// Curves of a run in bounded memory: rows go into buckets of neighbours, and when there are
// too many buckets, pairs of them become one. Means, lowest and highest values stay, so a
// spike of a single step is seen in a run of a million. One thread.
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

// What docs/FORMATS.md says of a row, as far as the report shows it.
const std::vector<SeriesField>& StepFields();
const std::vector<SeriesField>& EvaluationFields();

class ReportSeries {
 public:
  // Never more than this many points a curve; even.
  static constexpr size_t kMostBuckets = 2000;

  // `fields` outlives it.
  explicit ReportSeries(const std::vector<SeriesField>* fields) : fields_(fields) {}

  // The next row: its "step" is higher than those before it. A field that the row does not
  // have, or that is no number there (null), is left out.
  void Add(const nlohmann::json& row);

  int64_t rows() const { return rows_; }
  int64_t rows_per_bucket() const { return rows_per_bucket_; }
  size_t buckets() const { return buckets_.size(); }
  const nlohmann::json& first_row() const { return first_row_; }
  const nlohmann::json& last_row() const { return last_row_; }

  // Over all rows, exact.
  struct Total {
    int64_t count = 0;  // rows that have it
    double sum = 0;
    double low = 0, high = 0;
    double mean() const { return count > 0 ? sum / count : 0; }
  };
  const Total& total(absl::string_view field) const;
  // Of each bucket the mean; nothing where no row had the field.
  std::vector<std::optional<double>> Means(absl::string_view field) const;
  // The last step of each bucket.
  std::vector<int64_t> Steps() const;
  // The middle of Means(); 0 without any.
  double MedianOfMeans(absl::string_view field) const;

  // {"rows":..,"rows_per_point":..,"step":[..],"fields":{"loss":{"mean":[..],"low":[..],
  // "high":[..]},..}}. Six digits a number; fields without a value are left out.
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

// What evaluations have written behind prompts. Of very many evaluations every other one of the
// older half goes; the first and the newest stay.
class SampleLog {
 public:
  static constexpr size_t kMostEvaluations = 64;
  static constexpr size_t kMostBytes = 4096;  // of a text; the rest of it is left out

  struct Evaluation {
    int64_t step = 0;
    std::vector<SampleText> texts;
  };

  // The next row of samples.jsonl; what is none is passed over.
  void Add(const nlohmann::json& row);
  const std::vector<Evaluation>& evaluations() const { return evaluations_; }

 private:
  std::vector<Evaluation> evaluations_;
};

// All rows of a run as its report and its evaluations need them.
struct RunRows {
  ReportSeries steps{&StepFields()};
  ReportSeries evaluations{&EvaluationFields()};
  SampleLog samples;
  // The best evaluation by a metric, the first of equals.
  struct Best {
    int64_t step = 0;
    double loss = 0;
    std::string metric = "loss";
    double value = 0;  // of the metric
  };
  std::map<std::string, Best> bests;  // by metric, of the held-out data that was evaluated last
  std::string evaluated_data;         // which those are; "": an earlier version has not said it
  std::optional<Best> best;           // by that which was asked for last

  void AddStep(const nlohmann::json& row) { steps.Add(row); }
  void AddEvaluation(const nlohmann::json& row);
  // Whether one that has this, of the held-out data `data`, would be the best by this metric, which
  // `best` goes by from here on; never by one that MeasureKinds does not have. With other data than
  // before the best begins anew.
  bool WouldBeBest(const std::string& metric, const std::string& data, double value);
};

// In steps, in what was waited between them, and in evaluations.
double SecondsSoFar(const RunRows& rows);

}  // namespace spillway
