// Accounts for what a step's time went to: its row of the metrics, spans for what the compute
// thread waits for between operations, and the step's phases on the time line.
//
// The swap manager counts what operations wait for; the meter adds what is waited for outside of
// them, and leaves evaluations and commits out of the step's seconds. Compute thread only.
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
  // All outlive it.
  StepMeter(const RunContext* context, const RunSetup* setup, StepRecorder* recorder)
      : context_(*context), setup_(*setup), recorder_(*recorder) {}

  // The first row begins now.
  void Begin();
  // An operation took so long on the compute thread.
  void CountCompute(double seconds) { compute_seconds_ += seconds; }
  // The row's step has come to the end of `phase`.
  void EndPhase(Phase phase);
  // The compute thread has agreed with other ranks on something since `began`.
  void CountAgreement(double began);
  // It has begun a commit since `began`, or waited for the one before.
  void CountCommit(double began);
  // Fills in what the row's time went to; the next row begins where this one ends.
  void EndRow(StepMetrics& row);
  // Gives the recorder the step whose row has just ended.
  void EndStepOfTrace(const StepMetrics& row, bool steady);

  // One wait of the compute thread outside operations, from here to End: for disk, updates, copies
  // or other ranks, whichever was busy meanwhile. The mover counts those of operations in the same
  // way. While a separate device still computes, nothing waits.
  class Wait {
   public:
    explicit Wait(StepMeter& meter);
    // It was no failure, and is over.
    void End();

   private:
    StepMeter& meter_;
    const SwapStats before_;
    const ShardedStats exchanged_before_;
    Span span_;
  };

  // What happens from here to End is in no step's row.
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
  // Busy seconds of each resource since the row began; `seconds` has the workers' updates.
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

  // As the row began, later by what is not in it.
  SwapStats stats_;
  ShardedStats exchanged_;
  double row_began_ = 0;
  double excluded_seconds_ = 0;  // evaluation and commits, since then
  double compute_seconds_ = 0;
  Waited waited_;                                 // outside operations
  double agreed_seconds_ = 0;                     // waited for numbers of other ranks, likewise
  std::array<Busy, kPhases> busy_;                // up to the end of each phase
  std::array<int64_t, kPhases> phase_ends_ns_{};  // of this row
  double commit_seconds_ = 0;                     // shown in the row after the commit
};

}  // namespace spillway
