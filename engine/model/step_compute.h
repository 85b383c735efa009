// The interface between a training step and a model's arithmetic. The trainer walks a schedule and
// knows no tensor; LibTorch (engine/torch/model_compute.h) or a test's stub computes. Compute
// thread only.
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

// Device memory of a step, without weights and gradient sums.
struct ComputeMemory {
  // The part that does not depend on where activations are kept: data, one unit's inputs and
  // gradients of all micro-batches, and the largest op.
  uint64_t working_bytes = 0;
  // [unit] Inputs of all micro-batches, kept from the forward to the backward; 0 for the first
  // unit, whose inputs are the data, and the last, which has no backward of its own. Empty: part of
  // working_bytes.
  std::vector<uint64_t> input_bytes = {};
  uint64_t in_flight_bytes = 0;  // one unit's inputs, part of working_bytes
  // Number of chunks of a micro-batch in the loss; each adds a term to its weights' gradients.
  int64_t loss_chunks = 1;

  // Memory if all inputs stay on the device.
  uint64_t total_bytes() const {
    return std::accumulate(input_bytes.begin(), input_bytes.end(), working_bytes);
  }
};

// Measurements of the model's compute, made before step 1.
struct DryRun {
  ComputeMemory memory = {};
  // [unit] Seconds per step: the forward of all micro-batches, and their backward with recompute
  // (for the last unit: the loss and its backward). Empty if not measured.
  std::vector<double> forward_seconds;
  std::vector<double> backward_seconds;
  GraphCosts graphs = {};
  // Rows of the first unit's parameters that a step's batch looks up, repeats included; 0: the unit
  // reads all of them.
  int64_t rows_looked_up = 0;
};

// The evaluation samples [begin, end) of a rank: equal shares, the last ones shorter.
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

  // Runs each kind of unit on this run's shapes, with weights of zeros.
  virtual absl::StatusOr<DryRun> MeasureNeeds() = 0;

  // From now on, training steps keep the graphs of these units' forwards until their backwards; by
  // default none. Results do not change in any bit.
  virtual void KeepGraphs(std::vector<bool> units) {}

  // Samples per epoch, over all ranks; 0: unknown.
  virtual int64_t training_samples() const { return 0; }

  // Loads the micro-batches of step `step` (from 1). `loss_scale` multiplies the loss.
  virtual absl::Status BeginTrain(int64_t step, double loss_scale) = 0;

  // The part of the first unit, laid out by `layout`, that step `step` reads, if not all of it.
  // Reads the step's data unless the step has just begun.
  virtual absl::StatusOr<FirstRead> ReadFirst(int64_t step, const StateLayout& layout) {
    return FirstRead();
  }

  // Loads evaluation samples [first, first + count), in order. A range that does not start at the
  // first sample of this rank's share continues the previous one. `count` may be 0.
  virtual absl::Status BeginEvaluate(int64_t first, int64_t count) = 0;
  virtual int64_t evaluation_samples() const = 0;
  // Number of evaluation samples to load at once: every pass over the data costs one over the
  // weights. The most that needs no more memory than a training step with `input_bytes` of inputs
  // on the device; a multiple of the micro-batch. REQUIRES: after MeasureNeeds.
  virtual int64_t evaluation_samples_at_once(uint64_t input_bytes) const = 0;

  // The model's buffers, which forwards change; SetBuffers restores them. kInvalidArgument if they
  // do not fit the model.
  virtual std::vector<StateBuffer> Buffers() const { return {}; }
  virtual absl::Status SetBuffers(const std::vector<StateBuffer>& buffers) {
    return absl::OkStatus();
  }

  // Runs one op of the schedule over all micro-batches. In training, an op completes the gradient
  // sums of its own unit, with zeros in gaps and unused parameters.
  virtual absl::Status Run(const OpBuffers& buffers) = 0;

  // The loss of the current training step, or of the evaluation since its first sample, after its
  // last op. The evaluation's sum does not depend on evaluation_samples_at_once.
  virtual double loss_sum() const = 0;
  // The predictions and targets of that evaluation, row by row, and their measures, if the model's
  // loss records predictions.
  virtual const std::vector<Judgement>& judgements() const {
    static const auto& none = *new std::vector<Judgement>();
    return none;
  }
  virtual std::vector<QualityMeasure> QualityOf(absl::Span<const Judgement> judgements,
                                                double loss) const {
    return {};
  }
  // Whether evaluations also generate texts for their samples.
  virtual bool makes_texts() const { return false; }
  // Generates texts for evaluation samples [begin, end), after their loss has been read. `pass`
  // runs the evaluation's operations once over the loaded samples; `at_once`: from
  // evaluation_samples_at_once.
  virtual absl::Status MakeTexts(int64_t begin, int64_t end, int64_t at_once,
                                 const std::function<absl::Status()>& pass) {
    return absl::OkStatus();
  }
  // Whether evaluations also continue sample prompts, for people to read.
  virtual bool writes_samples() const { return false; }
  // Continues the prompts, after the evaluation. `pass` and `at_once`: as in MakeTexts.
  virtual absl::StatusOr<std::vector<SampleText>> WriteSamples(
      int64_t at_once, const std::function<absl::Status()>& pass) {
    return std::vector<SampleText>();
  }
  // Counts of matches between each generated text and its target.
  virtual const std::vector<TextCounts>& text_counts() const {
    static const auto& none = *new std::vector<TextCounts>();
    return none;
  }
  virtual int64_t label_count() const = 0;
  // Tokens in the current batches on this rank, without padding; 0 if the model reads none.
  virtual int64_t token_count() const { return 0; }
  // Sets the number of labels over all ranks in the current step, over which the mean is taken.
  // Called before the step's first op; label_count() returns it from then on.
  virtual void SetLabelCount(int64_t count) {}

  // Peak device memory since the start.
  virtual uint64_t peak_bytes() const = 0;
};

}  // namespace spillway
