// Records a run's spans for the time line of a steady step and, if requested, the file of --trace.
// Owned by the trainer; everything but trace() is for the compute thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/options/report_options.h"
#include "engine/report/step_timeline.h"
#include "engine/report/trace_file.h"
#include "io/base/trace.h"

namespace spillway {

class StepRecorder {
 public:
  // Opens the file of a trace, if one is requested.
  static absl::StatusOr<std::unique_ptr<StepRecorder>> Create(const TraceOptions& options,
                                                              std::vector<std::string> units);

  // The recorder's input, for the I/O engine and the swap manager, which must be destroyed first.
  Trace* trace() { return &trace_; }

  // Starts recording, with the spans before step `first_step`.
  void Begin(int64_t first_step);
  // The first step begins.
  void BeginSteps();
  // Removes the recorded spans from the trace; called after every operation, so that none are lost.
  void Drain();
  // `times` without begin_ns, which is the end of the last step (or the time of BeginSteps).
  void EndStep(const StepTimes& times, nlohmann::json metrics);
  // Ends recording, also after an error.
  void Finish();

  const std::optional<StepTimeline>& timeline() const { return builder_.timeline(); }

 private:
  StepRecorder(const TraceOptions& options, std::vector<std::string> units)
      : options_(options), builder_(std::move(units)) {}
  bool InFile(const Span& span) const;
  void CloseFile();
  // A trace is optional: if it cannot be written, a warning is logged and it ends.
  bool Keep(const absl::Status& status);

  TraceOptions options_;
  Trace trace_;
  TimelineBuilder builder_;
  std::unique_ptr<TraceFile> file_;
  std::vector<Span> spans_;
  int64_t step_ = 0;  // the current step
  int64_t step_began_ns_ = 0;
  int64_t file_ends_ns_ = 0;  // 0: the last step of the file has not ended
  int64_t last_in_file_ = 0;
  uint64_t lost_in_file_ = 0;
  bool finished_ = false;
};

}  // namespace spillway
