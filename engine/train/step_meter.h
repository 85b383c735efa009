// Measures a step's time: its row of the metrics, spans for the compute thread's waits between
// operations, and the step's phases on the time line.
// The swap manager counts the waits of operations; the meter adds waits outside of them, and
// subtracts evaluations and commits from the step's seconds. Compute thread only.
#pragma once

#include <array>
#include <cstdint>

#include "engine/report/metrics.h"
#include "engine/report/step_recorder.h"
#include "engine/train/run_context.h"
#include "engine/train/run_setup.h"
#include "io/base/span.h"
#include "swap/plan/phase_traffic.h"

namespace spillway {

class StepMeter {
 public:
  // All outlive the object.
  StepMeter(const RunContext* context, const RunSetup* setup, StepRecorder* recorder)
      : context_(*context), setup_(*setup), recorder_(*recorder) {}

  // The first row begins now.
  void Begin();
  // Adds the seconds of an operation on the compute thread.
  void CountCompute(double seconds) { compute_seconds_ += seconds; }
  // The row's step has reached the end of `phase`.
  void EndPhase(Phase phase);
  // Adds the time since `began`, in which the compute thread agreed with other ranks.
  void CountAgreement(double began);
  // Adds the time since `began`, in which it began a commit, or waited for the previous one.
  void CountCommit(double began);
  // Completes the row's times; the next row begins where this one ends.
  void EndRow(StepMetrics& row);
  // Passes the step whose row has just ended to the recorder.
  void EndStepOfTrace(const StepMetrics& row, bool steady);

  // One wait of the compute thread outside operations, from construction to End: for disk, updates,
  // copies or other ranks, whichever was busy meanwhile. The mover counts waits of operations in
  // the same way. While a separate device still computes, nothing waits.
  class Wait {
   public:
    explicit Wait(StepMeter& meter);
    // Ends a wait that succeeded; failed ones are not counted.
    void End();

   private:
    StepMeter& meter_;
    const SwapStats before_;
    const ShardedStats exchanged_before_;
    Span span_;
  };

  // Excludes the time from construction to End from every step's row.
  class Pause {
   public:
    explicit Pause(StepMeter& meter);
    void End();

   private:
    StepMeter& meter_;
    const double began_;
    const SwapStats stats_;
    const ShardedStats exchanged_;
    const double compute_seconds_;
    const double agreed_seconds_;
  };

 private:
  // Busy seconds of each resource since the row began; `seconds` includes the workers' updates.
  struct Busy {
    ResourceSeconds seconds{};
    double device_update = 0;
  };
  struct Waited {
    double disk = 0, update = 0, copy = 0, collective = 0;
  };
  void BeginRow(double now, const SwapStats& stats, const ShardedStats& exchanged);
  Busy BusySince(const SwapStats& swapped, const ShardedStats& exchanged) const;
  double BindingSecondsOfRow() const;

  const RunContext& context_;
  const RunSetup& setup_;
  StepRecorder& recorder_;

  // Counters at the beginning of the row, plus what is excluded from it.
  SwapStats stats_;
  ShardedStats exchanged_;
  double row_began_ = 0;
  double excluded_seconds_ = 0;  // evaluation and commits in this row
  double compute_seconds_ = 0;
  Waited waited_;                                 // outside operations
  double agreed_seconds_ = 0;                     // waits for numbers of other ranks, likewise
  std::array<Busy, kPhases> busy_;                // up to the end of each phase
  std::array<int64_t, kPhases> phase_ends_ns_{};  // of this row
  double commit_seconds_ = 0;                     // shown in the row after the commit
};

}  // namespace spillway
