// The seam between the engine's step and whatever does a model's arithmetic.
//
// The trainer walks a schedule and knows no tensor; behind this interface LibTorch
// computes (engine/torch/model_compute.h), or a stub in tests. Compute thread only.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <numeric>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/measures/sample_text.h"
#include "engine/measures/text_measures.h"
#include "engine/model/graph_plan.h"
#include "engine/model/state_buffer.h"
#include "engine/numeric/quality.h"
#include "swap/mover/swap_manager.h"

namespace spillway {

// The device memory of a step beside weights and gradient sums.
struct ComputeMemory {
  // What it takes wherever activations are kept between a unit's forward and its backward:
  // data, one unit's inputs and gradients of all micro-batches, and the largest op.
  uint64_t working_bytes = 0;
  // [unit] Its inputs of all micro-batches, kept that long; 0 of the first unit, whose inputs
  // are the data, and the last, which has no backward of its own. Empty: working_bytes has them.
  std::vector<uint64_t> input_bytes = {};
  uint64_t in_flight_bytes = 0;  // of one unit's inputs, in working_bytes
  // In how many parts the loss takes a micro-batch: each adds a term to its weights' gradients.
  int64_t loss_chunks = 1;

  // With all of them on the device.
  uint64_t total_bytes() const {
    return std::accumulate(input_bytes.begin(), input_bytes.end(), working_bytes);
  }
};

// What computing takes, found before step 1.
struct DryRun {
  ComputeMemory memory = {};
  // Seconds of a step's ops, by unit: the forwards of all micro-batches; their recomputed
  // backwards, of the last unit the loss and its backward. Empty where they were not taken.
  std::vector<double> forward_seconds;
  std::vector<double> backward_seconds;
  GraphCosts graphs = {};
  // Of the first unit's parameters a step's batch looks up so many rows, each as often as it
  // occurs; 0: that unit reads all of them.
  int64_t rows_looked_up = 0;
};

// The evaluation's samples [begin, end) of a rank: equal runs, the last ones shorter.
struct EvaluationShare {
  int64_t begin = 0;
  int64_t end = 0;
};
inline EvaluationShare EvaluationShareOf(int64_t samples, int rank, int ranks) {
  const int64_t each = (samples + ranks - 1) / ranks;
  return {std::min(samples, each * rank), std::min(samples, each * (rank + 1))};
}

class StepCompute {
 public:
  virtual ~StepCompute() = default;

  // Runs each kind of unit on this run's shapes, with zeros for weights.
  virtual absl::StatusOr<DryRun> MeasureNeeds() = 0;

  // The graphs of these units' forwards are kept until their backwards, in every training
  // step from now on. None without it. Changes no bit of any result.
  virtual void KeepGraphs(std::vector<bool> units) {}

  // Samples of an epoch, of all ranks; 0: not known.
  virtual int64_t training_samples() const { return 0; }

  // Loads the micro-batches of step `step` (from 1). `loss_scale` multiplies the loss.
  virtual absl::Status BeginTrain(int64_t step, double loss_scale) = 0;

  // What step `step` reads of its first unit, which is laid out so, where that is a part of it;
  // reads the step's data unless it is the one begun last.
  virtual absl::StatusOr<FirstRead> ReadFirst(int64_t step, const StateLayout& layout) {
    return FirstRead();
  }

  // Loads samples [first, first + count) of the evaluation data, in order. One that does not
  // begin with the first sample of this rank's share goes on with the one before it. May be none.
  virtual absl::Status BeginEvaluate(int64_t first, int64_t count) = 0;
  virtual int64_t evaluation_samples() const = 0;
  // How many of them to take at once: every pass over the data costs one over the weights. As
  // many as need no more memory than a training step, of whose inputs `input_bytes` are on the
  // device. A whole number of micro-batches. REQUIRES: after MeasureNeeds.
  virtual int64_t evaluation_samples_at_once(uint64_t input_bytes) const = 0;

  // What forwards change beside the state that updates do; SetBuffers puts it back.
  // kInvalidArgument where they are not the model's.
  virtual std::vector<StateBuffer> Buffers() const { return {}; }
  virtual absl::Status SetBuffers(const std::vector<StateBuffer>& buffers) {
    return absl::OkStatus();
  }

  // One op of the schedule over all micro-batches. In a training step the sums of
  // every unit whose own op this is are complete afterwards, gaps and unused
  // parameters zero.
  virtual absl::Status Run(const OpBuffers& buffers) = 0;

  // Of the step begun last, or of the evaluation since its first sample, which is the same
  // sum however many samples were taken at once; the loss after its last op.
  virtual double loss_sum() const = 0;
  // Of that evaluation, row by row, where the model's loss judges its predictions, and what they
  // come to.
  virtual const std::vector<Judgement>& judgements() const {
    static const auto& none = *new std::vector<Judgement>();
    return none;
  }
  virtual std::vector<QualityMeasure> QualityOf(absl::Span<const Judgement> judgements,
                                                double loss) const {
    return {};
  }
  // Whether evaluations also make texts, as they would be made of the samples when training is
  // over.
  virtual bool makes_texts() const { return false; }
  // Makes those of the evaluation's samples [begin, end), after its loss has been read. `pass` runs
  // the evaluation's operations once, over what has been loaded for it; `at_once`: of
  // evaluation_samples_at_once.
  virtual absl::Status MakeTexts(int64_t begin, int64_t end, int64_t at_once,
                                 const std::function<absl::Status()>& pass) {
    return absl::OkStatus();
  }
  // Whether evaluations also write what comes behind some prompts, for people to read.
  virtual bool writes_samples() const { return false; }
  // Writes them, after the evaluation. `pass` and `at_once` as of MakeTexts.
  virtual absl::StatusOr<std::vector<SampleText>> WriteSamples(
      int64_t at_once, const std::function<absl::Status()>& pass) {
    return std::vector<SampleText>();
  }
  // What they have of what they should be, text by text.
  virtual const std::vector<TextCounts>& text_counts() const {
    static const auto& none = *new std::vector<TextCounts>();
    return none;
  }
  virtual int64_t label_count() const = 0;
  // Tokens that the model reads of the same batches, without padding, on this rank; 0 where it
  // reads something else.
  virtual int64_t token_count() const { return 0; }
  // Of the step begun last on all ranks, where there are several: its mean is theirs. Before
  // the step's first op; label_count() is this from then on.
  virtual void SetLabelCount(int64_t count) {}

  // Device memory in use at its highest since the start.
  virtual uint64_t peak_bytes() const = 0;
};

}  // namespace spillway
