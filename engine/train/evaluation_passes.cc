#include "engine/train/evaluation_passes.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "engine/base/progress.h"
#include "engine/base/stop_signal.h"
#include "io/base/clock.h"
#include "io/base/log.h"
#include "io/base/status.h"

namespace spillway {
namespace {

// Longer evaluations show their progress.
constexpr double kSilentSeconds = 5;

}  // namespace

absl::StatusOr<EvaluationMetrics> EvaluationPasses::Run(uint64_t input_bytes) {
  ASSIGN_OR_RETURN(at_once_, totals_.Least(compute_.evaluation_samples_at_once(input_bytes)));
  RETURN_IF_ERROR(ComputeLoss());
  EvaluationMetrics found;
  ASSIGN_OR_RETURN(found.tokens, totals_.ShareCounts());
  found.labels = compute_.label_count();
  found.samples = compute_.evaluation_samples();
  ASSIGN_OR_RETURN(found.loss, totals_.MeanLoss(found.labels));
  if (compute_.makes_texts()) RETURN_IF_ERROR(MakeTexts());
  ASSIGN_OR_RETURN(found.quality, totals_.Quality(found.loss));
  found.has_perplexity = compute_.makes_texts() || found.quality.empty();
  return found;
}

absl::Status EvaluationPasses::CheckGoesOn() {
  ASSIGN_OR_RETURN(const bool stop, totals_.AnyStops(StopSignal::received()));
  return stop ? absl::CancelledError("stopped") : absl::OkStatus();
}

absl::Status EvaluationPasses::ComputeLoss() {
  const double began = MonotonicSeconds();
  const int64_t samples = compute_.evaluation_samples();
  const int64_t most = ShareOf(0).end;
  const EvaluationShare share = ShareOf(grid_.rank);
  std::optional<Progress> progress;
  for (int64_t taken = 0; taken < most; taken += at_once_) {
    const int64_t first = std::min(share.end, share.begin + taken);
    RETURN_IF_ERROR(CheckGoesOn());
    RETURN_IF_ERROR(
        rescue_.NoteNotBegun(compute_.BeginEvaluate(first, std::min(at_once_, share.end - first))));
    RETURN_IF_ERROR(run_());
    const int64_t done = std::min(samples, (taken + at_once_) * grid_.size);
    if (!progress && done < samples && MonotonicSeconds() - began > kSilentSeconds) {
      progress.emplace("evaluating", samples, began);
    }
    if (progress) progress->Update(done);
  }
  return absl::OkStatus();
}

absl::Status EvaluationPasses::MakeTexts() {
  const EvaluationShare share = ShareOf(grid_.rank);
  RETURN_IF_ERROR(rescue_.NoteOutOfMemory(
      compute_.MakeTexts(share.begin, share.end, at_once_, [&] { return PassForTexts(); })));
  return AwaitTexts();
}

absl::StatusOr<std::vector<SampleText>> EvaluationPasses::WriteSamples() {
  std::vector<SampleText> samples;
  if (!compute_.writes_samples()) return samples;
  if (grid_.rank == 0) {
    auto written = compute_.WriteSamples(at_once_, [&] { return PassForTexts(); });
    // Infinite logits, from which a step in fp16 may recover, give no text.
    if (absl::IsOutOfRange(written.status())) {
      LogWarning(absl::StrCat("no sample texts: ", written.status().message()));
      written = std::vector<SampleText>();
    }
    RETURN_IF_ERROR(rescue_.NoteOutOfMemory(written.status()));
    samples = *std::move(written);
  }
  RETURN_IF_ERROR(AwaitTexts());
  return samples;
}

absl::Status EvaluationPasses::PassForTexts() {
  RETURN_IF_ERROR(totals_.AnyMakesTexts(true).status());
  RETURN_IF_ERROR(CheckGoesOn());
  return run_();
}

absl::Status EvaluationPasses::AwaitTexts() {
  const EvaluationShare share = ShareOf(grid_.rank);
  while (true) {
    ASSIGN_OR_RETURN(const bool any, totals_.AnyMakesTexts(false));
    if (!any) return absl::OkStatus();
    RETURN_IF_ERROR(CheckGoesOn());
    RETURN_IF_ERROR(compute_.BeginEvaluate(share.end, 0));
    RETURN_IF_ERROR(run_());
  }
}

}  // namespace spillway
