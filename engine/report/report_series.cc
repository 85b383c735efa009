#include "engine/report/report_series.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/numeric/quality.h"
#include "io/base/check.h"

namespace spillway {
namespace {

using Show = SeriesField::Show;

// JSON pointers parsed once: parsing them for every row would take longer than following them.
std::vector<nlohmann::json::json_pointer> PointersOf(const std::vector<SeriesField>& fields) {
  std::vector<nlohmann::json::json_pointer> pointers;
  for (const SeriesField& field : fields) pointers.emplace_back(field.pointer);
  return pointers;
}

const std::vector<nlohmann::json::json_pointer>& CachedPointers(
    const std::vector<SeriesField>& fields) {
  static const auto* const steps = new auto(PointersOf(StepFields()));
  static const auto* const evaluations = new auto(PointersOf(EvaluationFields()));
  return &fields == &StepFields() ? *steps : *evaluations;
}

const nlohmann::json* Find(const nlohmann::json& row, const nlohmann::json::json_pointer& pointer) {
  if (!row.contains(pointer)) return nullptr;
  return &row[pointer];
}

void AppendNumbers(absl::string_view name, const std::vector<std::optional<double>>& values,
                   std::string& out) {
  absl::StrAppend(&out, "\"", name, "\":[");
  for (size_t i = 0; i < values.size(); ++i) {
    if (i > 0) out.push_back(',');
    if (values[i] && std::isfinite(*values[i])) {
      absl::StrAppendFormat(&out, "%.6g", *values[i]);
    } else {
      out += "null";
    }
  }
  out.push_back(']');
}

}  // namespace

const std::vector<SeriesField>& StepFields() {
  static const auto* const fields = new std::vector<SeriesField>{
      {"loss", "/loss", Show::kSpread},
      {"grad_norm", "/grad_norm", Show::kSpread},
      {"lr", "/lr"},
      {"loss_scale", "/loss_scale"},
      {"tokens", "/tokens"},
      {"samples", "/samples"},
      {"tokens_per_second", "/tokens_per_second", Show::kSpread},
      {"samples_per_second", "/samples_per_second", Show::kSpread},
      {"seconds", "/seconds", Show::kSpread},
      {"commit_seconds", "/commit_seconds"},
      {"nvme_read", "/bytes/nvme_read"},
      {"nvme_written", "/bytes/nvme_written"},
      {"to_device", "/bytes/to_device"},
      {"to_host", "/bytes/to_host"},
      {"collective", "/bytes/collective"},
      {"stall_disk", "/stall_seconds/disk"},
      {"stall_copy", "/stall_seconds/copy"},
      {"stall_update", "/stall_seconds/update"},
      {"stall_collective", "/stall_seconds/collective"},
      {"busy_compute", "/busy_seconds/compute"},
      {"busy_disk", "/busy_seconds/disk"},
      {"busy_copy", "/busy_seconds/copy"},
      {"busy_update", "/busy_seconds/update"},
      {"busy_collective", "/busy_seconds/collective"},
      {"peak_device", "/peak_bytes/device", Show::kHighest},
      {"peak_host", "/peak_bytes/host", Show::kHighest},
      {"peak_rss", "/peak_bytes/rss", Show::kHighest},
      {"predicted_seconds", "/predicted_seconds"},
      {"bound_seconds", "/bound_seconds"},
      {"binding_seconds", "/binding_seconds"},
      {"skipped", "/skipped"},
  };
  return *fields;
}

const std::vector<SeriesField>& EvaluationFields() {
  static const auto* const fields = [] {
    auto* const made = new std::vector<SeriesField>{{"seconds", "/seconds"}, {"tokens", "/tokens"}};
    for (const MeasureKind& kind : MeasureKinds()) {
      const bool spreads =
          absl::string_view(kind.name) == "loss" || absl::string_view(kind.name) == "perplexity";
      made->push_back(
          {kind.name, absl::StrCat("/", kind.name), spreads ? Show::kSpread : Show::kMean});
    }
    return made;
  }();
  return *fields;
}

void ReportSeries::Add(const nlohmann::json& row) {
  if (totals_.empty()) totals_.resize(fields_->size());
  if (buckets_.empty() || rows_in_last_ == rows_per_bucket_) {
    if (buckets_.size() == kMostBuckets) MergePairs();
    buckets_.emplace_back();
    buckets_.back().cells.resize(fields_->size());
    rows_in_last_ = 0;
  }
  Bucket& bucket = buckets_.back();
  bucket.last_step = row.value("step", int64_t{0});
  const auto& pointers = CachedPointers(*fields_);
  for (size_t i = 0; i < fields_->size(); ++i) {
    const nlohmann::json* found = Find(row, pointers[i]);
    if (found == nullptr || !(found->is_number() || found->is_boolean())) continue;
    const double value =
        found->is_boolean() ? static_cast<double>(found->get<bool>()) : found->get<double>();
    Cell& cell = bucket.cells[i];
    const float rounded = static_cast<float>(value);
    cell.low = cell.count > 0 ? std::min(cell.low, rounded) : rounded;
    cell.high = cell.count > 0 ? std::max(cell.high, rounded) : rounded;
    cell.sum += value;
    ++cell.count;
    Total& total = totals_[i];
    total.low = total.count > 0 ? std::min(total.low, value) : value;
    total.high = total.count > 0 ? std::max(total.high, value) : value;
    total.sum += value;
    ++total.count;
  }
  if (rows_ == 0) first_row_ = row;
  ++rows_in_last_;
  ++rows_;
  last_row_ = row;
}

// REQUIRES: an even number of buckets, all full.
void ReportSeries::MergePairs() {
  for (size_t pair = 0; pair < buckets_.size() / 2; ++pair) {
    Bucket merged = std::move(buckets_[2 * pair]);
    const Bucket& second = buckets_[2 * pair + 1];
    merged.last_step = second.last_step;
    for (size_t i = 0; i < merged.cells.size(); ++i) {
      Cell& cell = merged.cells[i];
      const Cell& other = second.cells[i];
      if (other.count == 0) continue;
      cell.low = cell.count > 0 ? std::min(cell.low, other.low) : other.low;
      cell.high = cell.count > 0 ? std::max(cell.high, other.high) : other.high;
      cell.sum += other.sum;
      cell.count += other.count;
    }
    buckets_[pair] = std::move(merged);
  }
  buckets_.resize(buckets_.size() / 2);
  rows_per_bucket_ *= 2;
}

size_t ReportSeries::IndexOf(absl::string_view field) const {
  for (size_t i = 0; i < fields_->size(); ++i) {
    if ((*fields_)[i].name == field) return i;
  }
  SPILLWAY_CHECK(false);
  return 0;
}

const ReportSeries::Total& ReportSeries::total(absl::string_view field) const {
  static const Total* const none = new Total;
  return totals_.empty() ? *none : totals_[IndexOf(field)];
}

std::vector<std::optional<double>> ReportSeries::Means(absl::string_view field) const {
  const size_t index = IndexOf(field);
  std::vector<std::optional<double>> means;
  for (const Bucket& bucket : buckets_) {
    const Cell& cell = bucket.cells[index];
    means.push_back(cell.count > 0 ? std::optional(cell.sum / cell.count) : std::nullopt);
  }
  return means;
}

std::vector<int64_t> ReportSeries::Steps() const {
  std::vector<int64_t> steps;
  for (const Bucket& bucket : buckets_) steps.push_back(bucket.last_step);
  return steps;
}

double ReportSeries::MedianOfMeans(absl::string_view field) const {
  std::vector<double> means;
  for (const std::optional<double>& mean : Means(field)) {
    if (mean) means.push_back(*mean);
  }
  if (means.empty()) return 0;
  const auto middle = means.begin() + means.size() / 2;
  std::nth_element(means.begin(), middle, means.end());
  return *middle;
}

std::string ReportSeries::Json() const {
  std::string out =
      absl::StrCat("{\"rows\":", rows_, ",\"rows_per_point\":", rows_per_bucket_, ",\"step\":[");
  for (size_t i = 0; i < buckets_.size(); ++i) {
    absl::StrAppend(&out, i > 0 ? "," : "", buckets_[i].last_step);
  }
  out += "],\"fields\":{";
  bool first = true;
  for (size_t i = 0; i < fields_->size() && !totals_.empty(); ++i) {
    const SeriesField& field = (*fields_)[i];
    if (totals_[i].count == 0) continue;
    absl::StrAppend(&out, first ? "" : ",", "\"", field.name, "\":{");
    first = false;
    const auto column = [&](float Cell::*member) {
      std::vector<std::optional<double>> values;
      for (const Bucket& bucket : buckets_) {
        const Cell& cell = bucket.cells[i];
        values.push_back(cell.count > 0 ? std::optional<double>(cell.*member) : std::nullopt);
      }
      return values;
    };
    if (field.show == Show::kHighest) {
      AppendNumbers("mean", column(&Cell::high), out);
    } else {
      AppendNumbers("mean", Means(field.name), out);
    }
    if (field.show == Show::kSpread && rows_per_bucket_ > 1) {
      out.push_back(',');
      AppendNumbers("low", column(&Cell::low), out);
      out.push_back(',');
      AppendNumbers("high", column(&Cell::high), out);
    }
    out.push_back('}');
  }
  out += "}}";
  return out;
}

void SampleLog::Add(const nlohmann::json& row) {
  const auto text = [&](const char* name) {
    const auto found = row.find(name);
    return found != row.end() && found->is_string()
               ? found->get<std::string>().substr(0, kMostBytes)
               : std::string();
  };
  const int64_t step = row.value("step", int64_t{0});
  if (evaluations_.empty() || evaluations_.back().step != step) {
    if (evaluations_.size() == kMostEvaluations) {
      std::vector<Evaluation> kept;
      for (size_t i = 0; i < evaluations_.size(); ++i) {
        if (i >= kMostEvaluations / 2 || i % 2 == 0) kept.push_back(std::move(evaluations_[i]));
      }
      evaluations_ = std::move(kept);
    }
    evaluations_.push_back({step, {}});
  }
  const auto ended = row.find("ended");
  evaluations_.back().texts.push_back(
      {text("prompt"), text("text"), ended != row.end() && *ended == true});
}

void RunRows::AddEvaluation(const nlohmann::json& row) {
  evaluations.Add(row);
  const auto number = [&](const std::string& name) {
    const auto found = row.find(name);
    return found != row.end() && found->is_number() ? found->get<double>() : std::nan("");
  };
  const auto said = row.find("metric");
  const std::string metric = said == row.end()   ? "loss"
                             : said->is_string() ? said->get<std::string>()
                                                 : "";
  const double value = number(metric);
  const auto data = row.find("data");
  const bool has_data = data != row.end() && data->is_string();
  if (!WouldBeBest(metric, has_data ? data->get<std::string>() : "", value)) return;
  best = bests[metric] = {row.value("step", int64_t{0}), number("loss"), metric, value};
}

double SecondsSoFar(const RunRows& rows) {
  return rows.steps.total("seconds").sum + rows.steps.total("commit_seconds").sum +
         rows.evaluations.total("seconds").sum;
}

bool RunRows::WouldBeBest(const std::string& metric, const std::string& data, double value) {
  if (!data.empty() && data != evaluated_data) {
    if (!evaluated_data.empty()) bests.clear();
    evaluated_data = data;
  }
  const auto& kinds = MeasureKinds();
  const bool known = std::any_of(kinds.begin(), kinds.end(),
                                 [&](const MeasureKind& kind) { return kind.name == metric; });
  if (!known) return false;
  const auto found = bests.find(metric);
  best = found == bests.end() ? std::nullopt : std::optional(found->second);
  return std::isfinite(value) && (!best || IsBetter(metric, value, best->value));
}

}  // namespace spillway
