#include "engine/train/step_progress.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace spillway {
namespace {

constexpr double kSmoothedSteps = 10, kSmoothedSeconds = 10;

}  // namespace

void SmoothedRate::Add(double amount, double seconds) {
  const double kept = std::max(1 - 1 / kSmoothedSteps, std::exp(-seconds / kSmoothedSeconds));
  amount_ = amount_ * kept + amount;
  seconds_ = seconds_ * kept + seconds;
}

std::string FormatShort(double value) {
  std::string text = absl::StrFormat("%.2g", value);
  const size_t exponent = text.find('e');
  if (exponent == std::string::npos) return text;
  const size_t digits = text.find_first_not_of("+-", exponent + 1);
  const bool negative = text[exponent + 1] == '-';
  return absl::StrCat(text.substr(0, exponent), negative ? "e-" : "e",
                      text.substr(std::min(text.find_first_not_of('0', digits), text.size() - 1)));
}

std::vector<ProgressDetail> StepDetails(const StepMetrics& row, const Throughput& speed,
                                        double epochs, int64_t steps) {
  std::vector<ProgressDetail> details;
  const bool learnt = row.labels > 0;
  details.push_back({absl::StrCat(learnt ? absl::StrFormat("loss %.4f", row.loss) : "no labels",
                                  row.skipped ? " (skipped)" : ""),
                     Importance::kMost});
  details.push_back({absl::StrCat("lr ", FormatShort(row.learning_rate)), Importance::kMinor});
  if (row.grad_norm) {
    details.push_back({absl::StrFormat("norm %.3g", *row.grad_norm), Importance::kLeast});
  }
  if (epochs >= 1) {
    const int decimals = epochs == std::floor(epochs) ? 0 : 2;
    const double epoch = epochs * static_cast<double>(row.step) / static_cast<double>(steps);
    details.push_back(
        {absl::StrFormat("epoch %.2f/%.*f", epoch, decimals, epochs), Importance::kLess});
  }
  details.push_back({absl::StrCat(FormatRate(speed.per_second), " ",
                                  speed.unit == "tokens" ? "tok" : speed.unit, "/s"),
                     Importance::kMore});
  return details;
}

void StepProgress::Show(const StepMetrics& row) {
  Throughput speed = ThroughputOf(row, sample_unit_);
  rate_.Add(speed.per_second * row.seconds, row.seconds);
  speed.per_second = rate_.per_second();
  progress_.Update(row.step, StepDetails(row, speed, epochs_, steps_));
}

}  // namespace spillway
