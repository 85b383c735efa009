// A step's arithmetic with LibTorch: forwards, backwards (recomputed or from a kept graph)
// and the loss, unit by unit on weights that the swap engine has put into memory.
// Large because forward, recompute, backward and loss of a unit share what a micro-batch carries.
#pragma once

#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "engine/model/model_description.h"
#include "engine/options/train_options.h"
#include "engine/plan/step_compute.h"
#include "engine/torch/compute_place.h"
#include "engine/torch/loss_total.h"
#include "engine/torch/model.h"
#include "engine/torch/model_buffers.h"
#include "engine/torch/tensor_views.h"
#include "engine/torch/text_maker.h"
#include "engine/torch/unit_graph.h"
#include "engine/torch/value_flow.h"

namespace spillway {

// Names, shapes and borrowing of `model`, laid out; what it or `rule` says is frozen.
// kInvalidArgument for a model that contradicts itself (a borrowed parameter that is not there, no
// units, ...).
absl::StatusOr<ModelDescription> DescribeModel(const Model& model, const FreezeRule& rule = {});

// On a GPU its methods only put work into `place.stream`, and wait once a step: for the loss, at
// the end. So what an op reads and writes may be used by others only behind it in that stream.
class ModelCompute : public StepCompute {
 public:
  // All outlive it, what `place` points to included. `evaluation` may be null.
  ModelCompute(const Model& model, const ModelDescription& description, Dataset* data,
               Dataset* evaluation, const TrainOptions& options, const ComputePlace& place = {});

  // Evaluations make texts by it from now on. Outlives it; null: none.
  void MakeTextsBy(TextMaker* texts) { texts_ = texts; }

  // By a DryRunner (engine/torch/dry_run.h), which has it beside itself.
  absl::StatusOr<DryRun> MeasureNeeds() override;
  void KeepGraphs(std::vector<bool> units) override;
  absl::Status BeginTrain(int64_t step, double loss_scale) override;
  absl::StatusOr<FirstRead> ReadFirst(int64_t step, const StateLayout& layout) override;
  absl::Status BeginEvaluate(int64_t first, int64_t count) override;
  int64_t evaluation_samples() const override { return evaluation_ ? evaluation_->size() : 0; }
  int64_t evaluation_samples_at_once(uint64_t input_bytes) const override;
  std::vector<StateBuffer> Buffers() const override;
  absl::Status SetBuffers(const std::vector<StateBuffer>& buffers) override;
  absl::Status Run(const OpBuffers& buffers) override;
  double loss_sum() const override { return loss_.value(); }
  const std::vector<Judgement>& judgements() const override { return judgements_; }
  std::vector<QualityMeasure> QualityOf(absl::Span<const Judgement> judgements,
                                        double loss) const override {
    return model_.loss->Quality(judgements, loss);
  }
  bool makes_texts() const override { return texts_ != nullptr; }
  absl::Status MakeTexts(int64_t begin, int64_t end, int64_t at_once,
                         const std::function<absl::Status()>& pass) override;
  const std::vector<TextCounts>& text_counts() const override { return text_counts_; }
  int64_t label_count() const override { return label_count_; }
  void SetLabelCount(int64_t count) override { label_count_ = count; }
  uint64_t peak_bytes() const override;

 private:
  friend class DryRunner;
  class BeginningPasses;

  // An input among those of all micro-batches in the swap engine's memory.
  struct MovedInput {
    uint64_t offset_bytes = 0;
    std::vector<int64_t> sizes, strides;
    torch::ScalarType type = torch::kFloat;
  };

  // What one micro-batch carries through a step.
  struct MicroBatch {
    std::vector<int64_t> samples;  // numbers within the global batch
    Batch batch;
    int64_t labels = 0;  // that count
    // [unit]: its input, the activation checkpoint; or its graph, which has it
    std::vector<torch::Tensor> inputs;
    std::vector<std::optional<UnitGraph>> graphs;
    std::vector<MovedInput> moved;  // [unit]: its input, where it left the device
    // [unit]: its buffers before its forward, until its backward has computed that again
    std::vector<std::vector<torch::Tensor>> buffers;
    KeptValues values;       // what units behind the next one read
    torch::Tensor gradient;  // of the output of the unit whose backward is next
    // Of beginnings of texts, in place of labels: the last position of each [rows] int64, and what
    // came out.
    torch::Tensor last_positions, logits;
  };

  absl::Status Begin(int64_t step, double loss_scale);
  absl::Status ClearLoss();
  std::vector<int64_t> SamplesOf(int64_t step) const;
  absl::Status LoadStep(int64_t step);
  absl::Status LoadAhead(int64_t step);
  // The parameter of the first unit that it looks up, if it is trained as a whole; -1: none.
  int LookedUp() const;
  // `first_sample`: number of the first of them in the global batch; `first_draw`: of all that the
  // run draws.
  absl::Status LoadMicroBatches(Dataset* data, const std::vector<int64_t>& indices,
                                int64_t first_sample, int64_t first_draw);
  // Puts a batch where it is computed.
  void Load(Batch batch, MicroBatch& micro) const;
  UnitContext ContextOf(int unit, const MicroBatch& micro) const;
  // That compute.
  int num_units() const { return description_.num_computing(); }
  // Of `unit`, of whose predecessor this is the output.
  void GiveInput(int unit, const torch::Tensor& output, MicroBatch& micro) const;
  // Of the sum of a step's losses: its mean over the labels, times the loss scale.
  double LossGradient() const;
  UnitGraph GraphOf(int unit, const MicroBatch& micro,
                    const std::vector<ParameterView>& views) const;

  void Compute(const OpBuffers& buffers);
  void Forward(int unit, const std::vector<ParameterView>& views, const OpBuffers& buffers);
  void Backward(int unit, const std::vector<ParameterView>& views, const OpBuffers& buffers);
  void MoveInput(int unit, const OpBuffers& buffers, MicroBatch& micro, uint64_t* end_bytes);
  void Loss(const std::vector<ParameterView>& views);
  void Judge(const UnitContext& context, const std::vector<torch::Tensor>& parameters,
             const torch::Tensor& x, const torch::Tensor& labels);
  void NextLogits(const UnitContext& context, const std::vector<torch::Tensor>& parameters,
                  MicroBatch& micro) const;
  absl::Status LoadBeginnings(absl::Span<const TextBeginning> texts);
  int64_t TextsAtOnce(int64_t samples_at_once) const;
  uint64_t TextLogitsBytes() const;  // of as few as must be together
  int64_t LossChunkRows() const;
  int64_t LossChunks(const MicroBatch& micro) const;
  void Accumulate(const std::vector<ParameterView>& views,
                  const std::vector<torch::Tensor>& gradients);
  void OpenSums(const OpBuffers& buffers);
  void CompleteSums(int unit, char* sums, uint64_t bytes_each);
  bool ReadsLossAfter(const StepOp& op) const;
  absl::Status CheckLoss();

  const Model& model_;
  const ModelDescription& description_;
  const ValueFlow flow_;
  Dataset* const data_;
  Dataset* const evaluation_;
  const TrainOptions options_;
  const ComputePlace place_;
  const torch::ScalarType dtype_;

  ModelBuffers buffers_;
  const int first_backward_;       // the unit that a step's backward ends with
  std::vector<bool> keeps_graph_;  // [unit]
  uint64_t step_bytes_ = 0;        // of data, inputs in flight and gradients of a step
  uint64_t evaluation_bytes_ = 1;  // of a micro-batch: its data and one unit's input
  bool training_ = true;
  int64_t step_ = 0;
  double loss_scale_ = 1;
  LossTotal loss_;
  int64_t label_count_ = 0;
  std::vector<Judgement> judgements_;
  TextMaker* texts_ = nullptr;
  int64_t loss_rows_ = 1;                                           // of one chunk's, at most
  int64_t most_loss_chunks_ = std::numeric_limits<int64_t>::max();  // fewer in a dry run
  std::vector<TextCounts> text_counts_;
  std::vector<MicroBatch> micro_batches_;
  std::vector<MicroBatch> ahead_;  // of step ahead_step_, to be begun later; 0: of none
  int64_t ahead_step_ = 0;
  int64_t ahead_labels_ = 0;
  std::vector<std::vector<int64_t>> terms_;  // [unit][parameter] In its sums, in this step.
};

}  // namespace spillway
