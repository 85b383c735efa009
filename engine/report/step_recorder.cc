#include "engine/report/step_recorder.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "io/base/log.h"
#include "io/base/status.h"

namespace spillway {

absl::StatusOr<std::unique_ptr<StepRecorder>> StepRecorder::Create(const TraceOptions& options,
                                                                   std::vector<std::string> units) {
  std::unique_ptr<TraceFile> file;
  if (!options.path.empty()) {
    ASSIGN_OR_RETURN(file, TraceFile::Open(options.path, units));
  }
  auto recorder = std::unique_ptr<StepRecorder>(new StepRecorder(options, std::move(units)));
  recorder->file_ = std::move(file);
  return recorder;
}

void StepRecorder::Begin(int64_t first_step) {
  if (options_.first_step == 0) options_.first_step = first_step;
  step_ = first_step;
  if (file_ != nullptr) file_->Begin(Trace::Now());
  trace_.TurnOn(true);
}

void StepRecorder::BeginSteps() {
  Drain();
  step_began_ns_ = Trace::Now();
  builder_.Begin(step_began_ns_);
}

// Whether the span begins in the steps of the file; spans before the first step only belong to it
// if the file begins there.
bool StepRecorder::InFile(const Span& span) const {
  if (file_ == nullptr) return false;
  if (file_ends_ns_ > 0) return span.begin_ns < file_ends_ns_;
  return step_ >= options_.first_step;
}

bool StepRecorder::Keep(const absl::Status& status) {
  if (status.ok()) return true;
  LogWarning(absl::StrCat(status.message(), "; training goes on"));
  file_.reset();
  return false;
}

void StepRecorder::Drain() {
  if (finished_) return;
  trace_.Take(&spans_);
  const uint64_t lost = trace_.lost();
  for (const Span& span : spans_) {
    builder_.Add(span);
    if (InFile(span)) Keep(file_->Add(span));
  }
  if (lost > lost_in_file_ && file_ != nullptr && !spans_.empty()) {
    Keep(file_->AddLost(spans_.back().end_ns, lost - lost_in_file_));
  }
  lost_in_file_ = lost;
}

void StepRecorder::EndStep(const StepTimes& given, nlohmann::json metrics) {
  if (finished_) return;
  Drain();
  StepTimes times = given;
  times.begin_ns = std::exchange(step_began_ns_, times.end_ns);
  builder_.EndStep(times, std::move(metrics), trace_.lost());
  if (file_ != nullptr && file_ends_ns_ > 0) {
    CloseFile();  // spans under way at its end are complete
  } else if (file_ != nullptr && step_ >= options_.first_step && Keep(file_->AddStep(times))) {
    last_in_file_ = step_;
    if (step_ - options_.first_step + 1 >= options_.steps) file_ends_ns_ = times.end_ns;
  }
  ++step_;
}

void StepRecorder::CloseFile() {
  if (file_ == nullptr) return;
  if (Keep(file_->Flush()) && last_in_file_ > 0) {
    LogInfo(
        absl::StrCat("trace of step ", options_.first_step,
                     last_in_file_ > options_.first_step ? absl::StrCat(" to ", last_in_file_) : "",
                     " in ", file_->path(), ": open it with ui.perfetto.dev"));
  }
  file_.reset();
}

void StepRecorder::Finish() {
  if (finished_) return;
  Drain();
  trace_.TurnOn(false);
  builder_.Finish();
  CloseFile();
  finished_ = true;
}

}  // namespace spillway
