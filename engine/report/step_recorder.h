// Makes a run's spans into what people look at: the time line of a steady step, always, and
// the file of --trace. Owned by the trainer; all but trace() is for the compute thread.
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
  // Opens the file of a trace, where one is asked for.
  static absl::StatusOr<std::unique_ptr<StepRecorder>> Create(const TraceOptions& options,
                                                              std::vector<std::string> units);

  // What records: given to the I/O engine and the swap manager, which must end first.
  Trace* trace() { return &trace_; }

  // Recording begins, with what comes before step `first_step`.
  void Begin(int64_t first_step);
  // The first step begins.
  void BeginSteps();
  // Takes away what was recorded. Often enough that nothing is lost: after every operation.
  void Drain();
  // `times` but for begin_ns, which is where the last step ended (or BeginSteps).
  void EndStep(const StepTimes& times, nlohmann::json metrics);
  // Recording ends, well or not.
  void Finish();

  const std::optional<StepTimeline>& timeline() const { return builder_.timeline(); }

 private:
  StepRecorder(const TraceOptions& options, std::vector<std::string> units)
      : options_(options), builder_(std::move(units)) {}
  bool InFile(const Span& span) const;
  void CloseFile();
  // A trace is a convenience: where it can't be written, a warning says so and it ends.
  bool Keep(const absl::Status& status);

  TraceOptions options_;
  Trace trace_;
  TimelineBuilder builder_;
  std::unique_ptr<TraceFile> file_;
  std::vector<Span> spans_;
  int64_t step_ = 0;  // under way
  int64_t step_began_ns_ = 0;
  int64_t file_ends_ns_ = 0;  // 0: the last step of the file has not ended
  int64_t last_in_file_ = 0;
  uint64_t lost_in_file_ = 0;
  bool finished_ = false;
};

}  // namespace spillway
