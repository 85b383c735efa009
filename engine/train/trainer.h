// A run from its first step to its last: plan, swap manager, steps, evaluation,
// commits, metrics. Knows no tensor; StepCompute does the model's arithmetic.
//
// Everything here happens on the compute thread.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/estimate/step_forecast.h"
#include "engine/model/model_description.h"
#include "engine/options/train_options.h"
#include "engine/plan/step_compute.h"
#include "engine/ranks/sharded_step.h"
#include "engine/report/metrics.h"
#include "engine/report/run_journal.h"
#include "engine/report/step_recorder.h"
#include "engine/report/step_summary.h"
#include "engine/run/run_state.h"
#include "engine/run/run_storage.h"
#include "engine/run/written_bytes.h"
#include "engine/weights/weight_source.h"
#include "swap/mover/swap_manager.h"

namespace spillway {

struct TrainResult {
  // How it ended: at the last step, by a signal (or --max-bytes-written) after committing, or
  // it had already been at the last step.
  enum class End { kFinished, kStopped, kAlreadyFinished };
  End end = End::kFinished;
  int64_t step = 0;
  std::optional<double> first_loss;  // of the steps of this process
  std::optional<double> last_loss;
  std::optional<double> first_evaluation_loss;
  std::optional<double> evaluation_loss;
  std::optional<double> best_evaluation_loss;  // of the whole run
  int64_t best_evaluation_step = 0;
  int stop_signal = 0;             // 0: what stopped it was the limit of bytes written
  uint64_t run_written_bytes = 0;  // by all processes of the run

  uint64_t nvme_read_bytes = 0;
  uint64_t nvme_written_bytes = 0;
  uint64_t peak_device_bytes = 0;
  uint64_t peak_host_bytes = 0;
  uint64_t peak_rss_bytes = 0;
  double seconds = 0;
  std::string io_engine;
  // What the plan decided.
  PlanResidency residency;
  int lookahead = 0;
  int kept_graphs = 0;  // units whose backward recomputes nothing
  uint64_t host_arena_bytes = 0;

  // Predicted before the first step (none: nothing was), and the median of this process's
  // steps; the first, which runs no deferred update, does not count where there are others.
  std::optional<StepForecast> forecast;
  // The same with nothing changed but the disk's rates, as observed in those steps.
  std::optional<double> predicted_at_observed_rates_seconds;
  double median_seconds = 0;
  std::string speed;  // StepSummary's lines
};

class Trainer {
 public:
  // Checks, measures, plans and opens everything; nothing has been written to the
  // store yet. `storage` is open; `device_budget` is the one that LibTorch's memory is
  // counted against. `device`: what `compute` computes on, where that has memory of its own; it
  // outlives the trainer. `ranks`: where options.ranks is more than one; likewise.
  // kResourceExhausted that ends in exit code 3 when it does not fit.
  static absl::StatusOr<std::unique_ptr<Trainer>> Create(const TrainOptions& options,
                                                         const ModelDescription& model,
                                                         RunStorage* storage, StepCompute* compute,
                                                         MemoryBudget* device_budget,
                                                         Device* device = nullptr,
                                                         const RankGroups& ranks = {});

  const SwapPlan& plan() const { return manager_->plan(); }
  const RunState& state() const { return state_; }
  SwapManager* manager() { return manager_.get(); }

  // Writes the first state from `weights`, or loads that of the last commit. Of ranks with the same
  // shard each reads a part of it and sends it to the others, where `weights` reads files. OK on
  // every rank or on none: the error of the first that has one, BecauseOf it on the others.
  absl::Status Start(WeightSource* weights);

  // Runs to options.steps or to a signal.
  absl::StatusOr<TrainResult> Run();

 private:
  Trainer(const TrainOptions& options, const ModelDescription& model, RunStorage* storage,
          StepCompute* compute, Device* device, const RankGroups& ranks);

  absl::Status PlanAndOpen(MemoryBudget* device_budget);
  absl::Status BringFirstState(WeightSource* weights);
  absl::Status WriteFirstState(WeightSource* weights);
  absl::Status OpenJournal();
  // Parameters [begin, begin + count) of this rank's shard of a unit: read, and put into its tile.
  absl::Status ReadShard(WeightSource* weights, int unit, uint64_t begin, uint64_t count,
                         float* out) const;
  absl::Status StoreShard(const TileView& tile, uint64_t begin, uint64_t count,
                          const float* values) const;
  // Its two halves before anything is allocated; ranks agree between them.
  struct Planned;
  absl::Status PlanUntimed(Planned& planned);
  absl::Status PlanTimed(Planned& planned);
  absl::Status CheckWrites(const SwapPlan& plan);
  // Brings OUTPUT/bytes-written up to date; a further step, or the end, may follow.
  absl::Status CountWritten(uint64_t expected_bytes = 0);
  // Counts as a stall what the compute thread waits for between operations, from here to End.
  class WaitOutsideOps;
  void EndStepOfTrace(const StepMetrics& row, bool steady);
  // Busy seconds of each resource since the row began; `update` is that of the workers.
  struct Busy {
    ResourceSeconds seconds{};
    double device_update = 0;
  };
  Busy BusyNow(const SwapStats& stats) const;
  // That operations computed, likewise: a separate device as its own stream tells.
  double ComputingNow(const SwapStats& stats) const;
  // The forecast again, for the summary, the report and the result.
  void JudgeForecast(StepSummary& summary, TrainResult& result);
  void StartClock(double now, const SwapStats& stats, const ShardedStats& exchanged);
  bool EvaluateAfter(int64_t step) const;
  bool CommitAfter(int64_t step) const;
  absl::StatusOr<TrainResult> RunSteps();
  absl::Status RunTrainStep(int64_t step, StepMetrics& row);
  absl::Status RunOps(int64_t count);
  // With several ranks, the same on each: the labels of the step that begins; the sum of their
  // losses; whether a signal or a limit has reached any of them.
  absl::StatusOr<std::vector<int64_t>> CountsOfAllRanks(int64_t own);
  // The compute thread has agreed with them on something since `began`.
  void CountAgreement(double began);
  absl::Status ShareLabels();
  absl::StatusOr<double> LossOfAllRanks();
  absl::StatusOr<bool> AnyRankStops(bool own);
  // Notes of what computing has answered whether it was refused memory.
  absl::Status Refusable(absl::Status status);
  absl::Status EndAfterRefusal(const absl::Status& refusal);
  absl::StatusOr<bool> CommitBeforeRefusal();
  absl::StatusOr<double> Evaluate();
  // Of the state after the step that has just ended; goes on beside the next.
  absl::Status StartCommit(bool finished);
  // Fills in what the row's time went to; the next row begins where this one ends.
  void EndRow(StepMetrics& row);
  // The same with several ranks: what of it they took.
  void EndRowOfRanks(StepMetrics& row, const ShardedStats& now) const;
  // Zeros with one rank.
  ShardedStats ExchangedNow() const { return sharded_ ? sharded_->stats() : ShardedStats(); }
  double LearningRateNow() const;

  const TrainOptions options_;
  const ModelDescription model_;
  RunStorage* const storage_;
  StepCompute* const compute_;
  Device* const device_;  // null: compute uses the host's memory
  const RankGroups ranks_;
  const ShardGrid grid_;
  RunState state_;
  LossScaler loss_scaler_;
  bool deferred_ = false;
  int64_t evaluate_ops_ = 0;
  uint64_t computing_bytes_ = 0;  // of device memory at its peak, as measured
  GraphPlan graphs_;

  std::unique_ptr<StepRecorder> recorder_;
  WritePlan write_plan_;
  uint64_t written_before_ = 0;  // by earlier processes
  std::unique_ptr<WrittenBytes> written_;

  std::unique_ptr<MemoryBudget> host_budget_;
  MemoryReservation books_;
  std::unique_ptr<Arena> host_arena_;
  std::unique_ptr<Arena> device_arena_;
  std::unique_ptr<SwapStore> store_;
  std::unique_ptr<OptimizerTiles> optimizer_;
  std::unique_ptr<SwapManager> manager_;
  std::unique_ptr<Arena> whole_arena_;    // with several ranks
  std::unique_ptr<Arena> exchange_page_;  // likewise, with a separate device
  std::unique_ptr<StepMemory> memory_;    // what operations get their memory from
  ShardedStep* sharded_ = nullptr;        // memory_, with several ranks
  std::unique_ptr<RunJournal> journal_;

  std::optional<StepClock> clock_;  // what forecast_ was made with
  std::optional<StepForecast> forecast_;
  int workers_ = 1;

  bool program_enqueued_ = false;  // the next step's, ahead of time
  int64_t last_commit_step_ = 0;   // 0: none
  bool memory_refused_ = false;    // to what was computed last
  SwapStats last_stats_;
  ShardedStats last_exchanged_;
  double row_began_ = 0;
  double compute_seconds_ = 0;
  // Of this row, up to the end of its forward and of its backward.
  Busy busy_after_forward_, busy_after_backward_;
  double excluded_seconds_ = 0;  // evaluation and commits since row_began_
  double last_commit_seconds_ = 0;
  // Outside operations, in this row.
  double waited_disk_seconds_ = 0, waited_update_seconds_ = 0, waited_copy_seconds_ = 0;
  double waited_collective_seconds_ = 0;
  double agreed_seconds_ = 0;                     // waited for numbers of other ranks, likewise
  std::array<int64_t, kPhases> phase_ends_ns_{};  // of this row
};

}  // namespace spillway
