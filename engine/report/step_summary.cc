#include "engine/report/step_summary.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/base/progress.h"
#include "engine/options/drive_wear.h"
#include "io/base/format_bytes.h"

namespace spillway {
namespace {

constexpr double kLeastStall = 0.005;  // of the step: less is not worth a word
constexpr size_t kColumns = 80;
constexpr double kLeastChange = 0.01;  // of the prediction, likewise

std::string Seconds(double seconds) {
  return seconds < 100 ? absl::StrFormat("%.3g s", seconds) : FormatDuration(seconds);
}

std::string Percent(double part) { return absl::StrFormat("%.0f%%", 100 * part); }

}  // namespace

void StepSummary::Add(const StepMetrics& row) {
  forecast_ = row.forecast;
  if (!first_) {
    first_ = row;
    Count(row);
    return;
  }
  if (counted_ == 1 && row.step == first_->step + 1) {
    counted_ = 0;
    steps_.clear();
    sums_ = Sums();
  }
  Count(row);
}

void StepSummary::Count(const StepMetrics& row) {
  const Step step = {row.seconds, static_cast<double>(row.nvme_read_bytes),
                     static_cast<double>(row.nvme_written_bytes)};
  if (steps_.size() < kMostSteps) {
    steps_.push_back(step);
  } else {
    steps_[counted_ % kMostSteps] = step;
  }
  ++counted_;
  sums_.seconds += row.seconds;
  sums_.stall_disk += row.stall_disk_seconds;
  sums_.stall_update += row.stall_update_seconds;
  sums_.stall_copy += row.stall_copy_seconds;
  sums_.stall_collective += row.stall_collective_seconds;
  sums_.commit += row.commit_seconds;
  sums_.busy_compute += row.busy_compute_seconds;
  sums_.busy_disk += row.busy_disk_seconds;
  sums_.busy_update += row.busy_update_seconds;
  sums_.busy_copy += row.busy_copy_seconds;
  sums_.busy_device_update += row.busy_device_update_seconds;
  sums_.busy_collective += row.busy_collective_seconds;
  sums_.collective_bytes += row.collective_bytes;
  const auto add = [](const CopyTime& copies, CopyTime& sum) {
    sum.bytes += copies.bytes;
    sum.seconds += copies.seconds;
  };
  add(row.copies_to_device, sums_.to_device);
  add(row.copies_to_host, sums_.to_host);
  sums_.binding += row.binding_seconds;
  sums_.read_bytes += row.nvme_read_bytes;
  sums_.written_bytes += row.nvme_written_bytes;
}

ObservedRates StepSummary::observed_rates() const {
  return {sums_.read_bytes, sums_.written_bytes,   sums_.busy_disk, sums_.to_device,
          sums_.to_host,    sums_.busy_collective, counted_};
}

std::optional<double> StepSummary::PredictAgain(const SwapPlan& plan,
                                                const std::optional<StepClock>& clock) {
  if (!clock || steps_.empty()) return std::nullopt;
  const StepClock observed = AtObservedRates(*clock, observed_rates());
  SetPredictedAtObservedRates(ForecastRun(plan, observed).predicted_seconds);
  return at_observed_rates_seconds_;
}

const char* StepSummary::MovedBy() const {
  if (sums_.busy_collective > 0) {
    return sums_.busy_disk > 0 ? "disk, collective as seen" : "collective as seen";
  }
  if (sums_.busy_copy <= 0) return "the disk as in these steps";
  return sums_.busy_disk > 0 ? "disk and link as seen" : "the link as in these steps";
}

double StepSummary::Median(double Step::*member) const {
  if (steps_.empty()) return 0;
  std::vector<double> values;
  for (const Step& step : steps_) values.push_back(step.*member);
  // Of two in the middle the smaller: with few steps the last, with an update more, would be it.
  const auto middle = values.begin() + static_cast<int64_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double StepSummary::median_seconds() const { return Median(&Step::seconds); }

std::string StepSummary::SpeedLines(int workers) const {
  const double median = median_seconds();
  std::string text = absl::StrCat("\n  step       ", Seconds(median), ", the median");
  if (forecast_) {
    absl::StrAppend(&text, "; predicted ", Seconds(forecast_->predicted_seconds), ", bound ",
                    Seconds(forecast_->bound_seconds));
    if (forecast_->bound_seconds > 0) {
      absl::StrAppendFormat(&text, " (%.2f x)", median / forecast_->bound_seconds);
    }
    const double predicted = forecast_->predicted_seconds;
    const double observed = at_observed_rates_seconds_.value_or(predicted);
    if (std::abs(observed - predicted) > kLeastChange * predicted) {
      absl::StrAppendFormat(&text, "\n  at rates   of %s, predicted %s (%.2f of the median)",
                            MovedBy(), Seconds(observed), median > 0 ? observed / median : 0);
    }
    std::string binds = "  binds      ";
    for (int i = 0; i < kPhases; ++i) {
      absl::StrAppend(&binds, i > 0 ? ", " : "", PhaseName(static_cast<Phase>(i)), " ",
                      ResourceName(forecast_->phases[i].binding));
    }
    const std::string busy =
        absl::StrCat("busy ", Percent(sums_.binding / sums_.seconds), " of the step");
    const bool one_line = binds.size() + 2 + busy.size() <= kColumns;
    absl::StrAppend(&text, "\n", binds, one_line ? "; " : ";\n             ", busy);
  }
  absl::StrAppend(&text, "\n  busy       compute ", Percent(sums_.busy_compute / sums_.seconds));
  if (sums_.busy_disk > 0) {
    absl::StrAppend(&text, ", disk ", Percent(sums_.busy_disk / sums_.seconds));
  }
  if (sums_.busy_copy > 0) {
    absl::StrAppend(&text, ", copy ", Percent(sums_.busy_copy / sums_.seconds));
  }
  absl::StrAppend(&text, ", update ", Percent(sums_.busy_update / workers / sums_.seconds), " of ",
                  workers, workers == 1 ? " worker" : " workers");
  if (sums_.busy_device_update > 0) {
    absl::StrAppend(&text, "\n  on GPU     update ",
                    Percent(sums_.busy_device_update / sums_.seconds), ", beside them");
  }
  const std::pair<const char*, double> waits[] = {{"disk", sums_.stall_disk},
                                                  {"update", sums_.stall_update},
                                                  {"copy", sums_.stall_copy},
                                                  {"collective", sums_.stall_collective}};
  std::string waited;
  for (const auto& [reason, seconds] : waits) {
    if (seconds / sums_.seconds < kLeastStall) continue;
    absl::StrAppend(&waited, waited.empty() ? "" : ", ", reason, " ",
                    Seconds(seconds / static_cast<double>(counted_)), " (",
                    Percent(seconds / sums_.seconds), ")");
  }
  absl::StrAppend(&text, "\n  waited     ",
                  waited.empty() ? "hardly: under 0.5% of the steps" : waited + " a step");
  if (sums_.commit > 0) {
    absl::StrAppend(&text, "; commits ", Seconds(sums_.commit), " in all");
  }
  if (sums_.collective_bytes > 0) {
    absl::StrAppend(&text, "\n  sent       ",
                    FormatBytes(sums_.collective_bytes / static_cast<uint64_t>(counted_)),
                    " a step to other ranks; exchanges under way ",
                    Percent(sums_.busy_collective / sums_.seconds), " of the step");
  }
  return text;
}

// Medians: the last step has an update more.
std::string StepSummary::TrafficLines(uint64_t parameters, double drive_bytes_per_day) const {
  const double read = Median(&Step::read_bytes), written = Median(&Step::written_bytes);
  if (read + written <= 0) return "";
  const double per = static_cast<double>(std::max<uint64_t>(1, parameters));
  std::string text =
      absl::StrFormat("\n  traffic    %.3g bytes read and %.3g written a parameter and step",
                      read / per, written / per);
  if (written <= 0) return text;
  const double seconds = std::max(1e-9, median_seconds());
  absl::StrAppend(&text, "\n  wear       ", FormatBytes(static_cast<uint64_t>(written)),
                  " written a step; at this rate a drive lasts ",
                  DriveLifeText(DriveLifeSeconds(written / seconds, drive_bytes_per_day)));
  absl::StrAppendFormat(&text, "\n             (rated %.4g TB a day for %g years)",
                        drive_bytes_per_day * 1e-12, kDriveRatedYears);
  return text;
}

std::string StepSummary::Text(uint64_t parameters, int workers, double drive_bytes_per_day) const {
  if (counted_ == 0 || sums_.seconds <= 0) return "";
  return SpeedLines(std::max(1, workers)) + TrafficLines(parameters, drive_bytes_per_day);
}

}  // namespace spillway
