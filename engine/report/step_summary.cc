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

// What is summed of the steps' rows.
constexpr double StepMetrics::*kSummedSeconds[] = {&StepMetrics::seconds,
                                                   &StepMetrics::commit_seconds,
                                                   &StepMetrics::stall_disk_seconds,
                                                   &StepMetrics::stall_update_seconds,
                                                   &StepMetrics::stall_copy_seconds,
                                                   &StepMetrics::stall_collective_seconds,
                                                   &StepMetrics::busy_compute_seconds,
                                                   &StepMetrics::busy_disk_seconds,
                                                   &StepMetrics::busy_update_seconds,
                                                   &StepMetrics::busy_device_update_seconds,
                                                   &StepMetrics::busy_copy_seconds,
                                                   &StepMetrics::busy_collective_seconds,
                                                   &StepMetrics::binding_seconds};
constexpr uint64_t StepMetrics::*kSummedBytes[] = {&StepMetrics::nvme_read_bytes,
                                                   &StepMetrics::nvme_written_bytes,
                                                   &StepMetrics::collective_bytes};

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
    sums_ = {};
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
  for (const auto seconds : kSummedSeconds) sums_.*seconds += row.*seconds;
  for (const auto bytes : kSummedBytes) sums_.*bytes += row.*bytes;
  for (const auto copies : {&StepMetrics::copies_to_device, &StepMetrics::copies_to_host}) {
    (sums_.*copies).bytes += (row.*copies).bytes;
    (sums_.*copies).seconds += (row.*copies).seconds;
  }
}

ObservedRates StepSummary::observed_rates() const {
  return {sums_.nvme_read_bytes,
          sums_.nvme_written_bytes,
          sums_.busy_disk_seconds,
          sums_.copies_to_device,
          sums_.copies_to_host,
          sums_.busy_collective_seconds,
          counted_};
}

std::optional<double> StepSummary::PredictAgain(const SwapPlan& plan,
                                                const std::optional<StepClock>& clock) {
  if (!clock || steps_.empty()) return std::nullopt;
  const StepClock observed = AtObservedRates(*clock, observed_rates());
  SetPredictedAtObservedRates(ForecastRun(plan, observed).predicted_seconds);
  return at_observed_rates_seconds_;
}

const char* StepSummary::MovedBy() const {
  if (sums_.busy_collective_seconds > 0) {
    return sums_.busy_disk_seconds > 0 ? "disk, collective as seen" : "collective as seen";
  }
  if (sums_.busy_copy_seconds <= 0) return "the disk as in these steps";
  return sums_.busy_disk_seconds > 0 ? "disk and link as seen" : "the link as in these steps";
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
        absl::StrCat("busy ", Percent(sums_.binding_seconds / sums_.seconds), " of the step");
    const bool one_line = binds.size() + 2 + busy.size() <= kColumns;
    absl::StrAppend(&text, "\n", binds, one_line ? "; " : ";\n             ", busy);
  }
  absl::StrAppend(&text, "\n  busy       compute ",
                  Percent(sums_.busy_compute_seconds / sums_.seconds));
  if (sums_.busy_disk_seconds > 0) {
    absl::StrAppend(&text, ", disk ", Percent(sums_.busy_disk_seconds / sums_.seconds));
  }
  if (sums_.busy_copy_seconds > 0) {
    absl::StrAppend(&text, ", copy ", Percent(sums_.busy_copy_seconds / sums_.seconds));
  }
  absl::StrAppend(&text, ", update ", Percent(sums_.busy_update_seconds / workers / sums_.seconds),
                  " of ", workers, workers == 1 ? " worker" : " workers");
  if (sums_.busy_device_update_seconds > 0) {
    absl::StrAppend(&text, "\n  on GPU     update ",
                    Percent(sums_.busy_device_update_seconds / sums_.seconds), ", beside them");
  }
  const std::pair<const char*, double> waits[] = {{"disk", sums_.stall_disk_seconds},
                                                  {"update", sums_.stall_update_seconds},
                                                  {"copy", sums_.stall_copy_seconds},
                                                  {"collective", sums_.stall_collective_seconds}};
  std::string waited;
  for (const auto& [reason, seconds] : waits) {
    if (seconds / sums_.seconds < kLeastStall) continue;
    absl::StrAppend(&waited, waited.empty() ? "" : ", ", reason, " ",
                    Seconds(seconds / static_cast<double>(counted_)), " (",
                    Percent(seconds / sums_.seconds), ")");
  }
  absl::StrAppend(&text, "\n  waited     ",
                  waited.empty() ? "hardly: under 0.5% of the steps" : waited + " a step");
  if (sums_.commit_seconds > 0) {
    absl::StrAppend(&text, "; commits ", Seconds(sums_.commit_seconds), " in all");
  }
  if (sums_.collective_bytes > 0) {
    absl::StrAppend(&text, "\n  sent       ",
                    FormatBytes(sums_.collective_bytes / static_cast<uint64_t>(counted_)),
                    " a step to other ranks; exchanges under way ",
                    Percent(sums_.busy_collective_seconds / sums_.seconds), " of the step");
  }
  return text;
}

// Medians: the last step has an update more. Of several ranks one's bytes are of its share of the
// parameters, which is not told.
std::string StepSummary::TrafficLines(uint64_t parameters, double drive_bytes_per_day,
                                      bool alone) const {
  const double read = Median(&Step::read_bytes), written = Median(&Step::written_bytes);
  if (read + written <= 0) return "";
  const double per = static_cast<double>(std::max<uint64_t>(1, parameters));
  std::string text =
      alone
          ? absl::StrFormat("\n  traffic    %.3g bytes read and %.3g written a parameter and step",
                            read / per, written / per)
          : absl::StrCat("\n  traffic    ", FormatBytes(static_cast<uint64_t>(read)), " read and ",
                         FormatBytes(static_cast<uint64_t>(written)), " written a step");
  if (written <= 0) return text;
  const double seconds = std::max(1e-9, median_seconds());
  absl::StrAppend(&text, "\n  wear       ", FormatBytes(static_cast<uint64_t>(written)),
                  " written a step; at this rate a drive lasts ",
                  DriveLifeText(DriveLifeSeconds(written / seconds, drive_bytes_per_day)));
  absl::StrAppendFormat(&text, "\n             (rated %.4g TB a day for %g years)",
                        drive_bytes_per_day * 1e-12, kDriveRatedYears);
  return text;
}

std::string StepSummary::Text(uint64_t parameters, int workers, double drive_bytes_per_day,
                              const RankOptions& ranks) const {
  if (counted_ == 0 || sums_.seconds <= 0) return "";
  const bool alone = ranks.ranks == 1;
  std::string text = absl::StrCat(SpeedLines(std::max(1, workers)),
                                  TrafficLines(parameters, drive_bytes_per_day, alone));
  if (!alone) {
    absl::StrAppend(&text, "\n  ranks      ", ranks.ranks,
                    "; from \"moved\" on, all but the step's time is of rank ", ranks.rank);
  }
  return text;
}

}  // namespace spillway
