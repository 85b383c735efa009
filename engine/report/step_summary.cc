#include "engine/report/step_summary.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "engine/base/progress.h"
#include "engine/options/drive_wear.h"
#include "io/base/format_bytes.h"
#include "io/base/terminal.h"

namespace spillway {
namespace {

constexpr double kLeastStall = 0.005;  // part of the step; smaller ones are not mentioned
constexpr double kLeastChange = 0.01;  // of the prediction, likewise

// The sums over the steps' rows.
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

// The name of a resource in these lines.
const char* ShortWords(Resource resource) {
  switch (resource) {
    case Resource::kDisk:
      return "the disk";
    case Resource::kCompute:
      return "computing";
    case Resource::kUpdate:
      return "updates";
    case Resource::kCopy:
      return "GPU copies";
    case Resource::kCollective:
      return "exchanges";
  }
  return "?";
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

std::string StepSummary::MovedBy() const {
  std::vector<std::string> movers;
  if (sums_.busy_disk_seconds > 0) movers.push_back("disk");
  if (sums_.busy_copy_seconds > 0) movers.push_back("GPU copies");
  if (sums_.busy_collective_seconds > 0) movers.push_back("exchanges");
  return absl::StrJoin(movers, ", ");
}

double StepSummary::Median(double Step::*member) const {
  if (steps_.empty()) return 0;
  std::vector<double> values;
  for (const Step& step : steps_) values.push_back(step.*member);
  // The lower of two middle values: with few steps the upper one would be the last step, which has
  // an additional update.
  const auto middle = values.begin() + static_cast<int64_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double StepSummary::median_seconds() const { return Median(&Step::seconds); }

std::string StepSummary::LimitIn(Phase phase) const {
  return ShortWords(forecast_->phases[static_cast<int>(phase)].binding);
}

std::string StepSummary::ForecastLines() const {
  const double forecast = forecast_->predicted_seconds;
  std::string text =
      absl::StrCat("; forecast ", SecondsText(forecast), "; at least ",
                   SecondsText(forecast_->bound_seconds), " for ", ShortWords(forecast_->binding));
  const double observed = at_observed_rates_seconds_.value_or(forecast);
  if (std::abs(observed - forecast) > kLeastChange * forecast) {
    absl::StrAppend(&text, "\n             (with the speed of ", MovedBy(),
                    " in these steps: forecast ", SecondsText(observed), ")");
  }
  const std::string forward = LimitIn(Phase::kForward), backward = LimitIn(Phase::kBackward),
                    behind = LimitIn(Phase::kFlush);
  const bool always = forward == backward && backward == behind;
  absl::StrAppend(&text, "\n  limits     ", forward,
                  always ? ""
                         : absl::StrCat(" in the forward pass, ", backward, " in the backward, ",
                                        behind, " behind it"),
                  "; busy ", Percent(sums_.binding_seconds / sums_.seconds), " of the step");
  return text;
}

std::string StepSummary::SpeedLines(int workers) const {
  std::string text = absl::StrCat("\n  step       ", SecondsText(median_seconds()), " median",
                                  forecast_ ? ForecastLines() : "");
  const auto share = [&](const char* name, double seconds) {
    if (seconds > 0) absl::StrAppend(&text, ", ", name, " ", Percent(seconds / sums_.seconds));
  };
  absl::StrAppend(&text, "\n  busy       computing ",
                  Percent(sums_.busy_compute_seconds / sums_.seconds), " of the time");
  share("disk", sums_.busy_disk_seconds);
  share("GPU copies", sums_.busy_copy_seconds);
  share("updates on the GPU", sums_.busy_device_update_seconds);
  absl::StrAppend(&text, ",\n             updates ",
                  Percent(sums_.busy_update_seconds / workers / sums_.seconds), " (on ", workers,
                  workers == 1 ? " thread" : " threads", " of their own, beside --threads)");
  const std::pair<Resource, double> waits[] = {
      {Resource::kDisk, sums_.stall_disk_seconds},
      {Resource::kUpdate, sums_.stall_update_seconds},
      {Resource::kCopy, sums_.stall_copy_seconds},
      {Resource::kCollective, sums_.stall_collective_seconds}};
  std::string waited;
  for (const auto& [reason, seconds] : waits) {
    if (seconds / sums_.seconds < kLeastStall) continue;
    absl::StrAppend(&waited, waited.empty() ? "for " : ", ", ShortWords(reason), " ",
                    SecondsText(seconds / static_cast<double>(counted_)), " (",
                    Percent(seconds / sums_.seconds), ")");
  }
  absl::StrAppend(&text, "\n  waited     ",
                  waited.empty() ? "hardly: less than 0.5% of the time" : waited + " a step");
  if (sums_.commit_seconds > 0) {
    absl::StrAppend(&text, "; ", SecondsText(sums_.commit_seconds), " in all for commits");
  }
  if (sums_.collective_bytes > 0) {
    absl::StrAppend(&text, "\n  sent       ",
                    FormatBytes(sums_.collective_bytes / static_cast<uint64_t>(counted_)),
                    " a step to other ranks; exchanges took ",
                    Percent(sums_.busy_collective_seconds / sums_.seconds), " of the step");
  }
  return text;
}

// Medians, since the last step has an additional update.
std::string StepSummary::TrafficLines(double drive_bytes_per_day) const {
  const double read = Median(&Step::read_bytes), written = Median(&Step::written_bytes);
  if (read + written <= 0) return "";
  std::string text =
      absl::StrCat("\n  traffic    ", FormatBytes(static_cast<uint64_t>(read)), " read and ",
                   FormatBytes(static_cast<uint64_t>(written)), " written each step");
  if (written <= 0) return text;
  const double seconds = std::max(1e-9, median_seconds());
  absl::StrAppend(&text, "\n  wear       at this rate a drive lasts ",
                  DriveLifeText(DriveLifeSeconds(written / seconds, drive_bytes_per_day)));
  absl::StrAppendFormat(&text, "\n             (rated %.4g TB a day for %g years)",
                        drive_bytes_per_day * 1e-12, kDriveRatedYears);
  return text;
}

std::string StepSummary::Text(int workers, double drive_bytes_per_day,
                              const RankOptions& ranks) const {
  if (counted_ == 0 || sums_.seconds <= 0) return "";
  std::string text =
      absl::StrCat(SpeedLines(std::max(1, workers)), TrafficLines(drive_bytes_per_day));
  if (ranks.ranks > 1) {
    absl::StrAppend(&text, "\n  ranks      ", ranks.ranks,
                    "; from \"moved\" on, all but the step's time is of rank ", ranks.rank);
  }
  return FoldText(text, kPageColumns);
}

}  // namespace spillway
