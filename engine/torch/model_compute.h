// A step's arithmetic with LibTorch: forwards, backwards (recomputed or from a kept graph)
// and the loss, unit by unit on weights that the swap engine has put into memory.
#pragma once

#include <algorithm>
#include <limits>
#include <vector>

#include "engine/model/model_description.h"
#include "engine/model/step_compute.h"
#include "engine/options/train_options.h"
#include "engine/torch/compute_place.h"
#include "engine/torch/loss_total.h"
#include "engine/torch/model.h"
#include "engine/torch/model_buffers.h"
#include "engine/torch/step_batches.h"
#include "engine/torch/step_gradients.h"
#include "engine/torch/tensor_views.h"
#include "engine/torch/text_maker.h"
#include "engine/torch/unit_graph.h"
#include "engine/torch/value_flow.h"

namespace spillway {

// On a GPU its methods only put work into `place.stream`, and wait once a step: for the loss, at
// the end. So what an op reads and writes may be used by others only behind it in that stream.
class ModelCompute : public StepCompute {
 public:
  // All outlive it, what `place` points to included. `evaluation` may be null.
  ModelCompute(const Model& model, const ModelDescription& description, Dataset* data,
               Dataset* evaluation, const TrainOptions& options, const ComputePlace& place = {});

  // Evaluations make texts by it from now on. Outlives it; null: none.
  void MakeTextsBy(TextMaker* texts) { texts_ = texts; }
  // They write samples by it from now on, likewise.
  void WriteSamplesBy(SampleWriter* samples) { samples_ = samples; }

  // By a DryRunner (engine/torch/dry_run.h), which has it beside itself.
  absl::StatusOr<DryRun> MeasureNeeds() override;
  void KeepGraphs(std::vector<bool> units) override;
  int64_t training_samples() const override { return batches_.training_samples(); }
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
  bool writes_samples() const override { return samples_ != nullptr; }
  absl::StatusOr<std::vector<SampleText>> WriteSamples(
      int64_t at_once, const std::function<absl::Status()>& pass) override;
  const std::vector<TextCounts>& text_counts() const override { return text_counts_; }
  int64_t label_count() const override { return batches_.labels(); }
  int64_t token_count() const override { return batches_.tokens(); }
  void SetLabelCount(int64_t count) override { batches_.SetLabels(count); }
  uint64_t peak_bytes() const override { return place_.memory->peak_live_bytes(); }

 private:
  friend class DryRunner;

  absl::Status Begin(int64_t step, double loss_scale);
  absl::Status ClearLoss();
  UnitContext ContextOf(int unit, const MicroBatch& micro) const;
  // That compute.
  int num_units() const { return description_.num_computing(); }
  // Of the sum of a step's losses: its mean over the labels, times the loss scale.
  double LossGradient() const;
  UnitGraph GraphOf(int unit, const MicroBatch& micro,
                    const std::vector<ParameterView>& views) const;

  void Compute(const OpBuffers& buffers);
  void Forward(int unit, const std::vector<ParameterView>& views, const OpBuffers& buffers);
  void Backward(int unit, const std::vector<ParameterView>& views, const OpBuffers& buffers);
  void Loss(const std::vector<ParameterView>& views);
  void Judge(const UnitContext& context, const std::vector<torch::Tensor>& parameters,
             const torch::Tensor& x, const torch::Tensor& labels);
  void NextLogits(const UnitContext& context, const std::vector<torch::Tensor>& parameters,
                  MicroBatch& micro) const;
  int64_t LossChunkRows() const { return std::max<int64_t>(1, model_.loss->ChunkRows()); }
  int64_t LossChunks(const MicroBatch& micro) const;
  bool ReadsLossAfter(const StepOp& op) const;
  absl::Status CheckLoss();

  const Model& model_;
  const ModelDescription& description_;
  const ValueFlow flow_;
  Dataset* const evaluation_;
  const TrainOptions options_;
  const ComputePlace place_;

  ModelBuffers buffers_;
  const int first_backward_;       // the unit that a step's backward ends with
  std::vector<bool> keeps_graph_;  // [unit]
  uint64_t step_bytes_ = 0;        // of data, inputs in flight and gradients of a step
  uint64_t evaluation_bytes_ = 1;  // of a micro-batch: its data and one unit's input
  bool training_ = true;
  bool dry_run_ = false;  // nothing is learnt, and no loss is wrong
  int64_t step_ = 0;
  double loss_scale_ = 1;
  LossTotal loss_;
  std::vector<Judgement> judgements_;
  TextMaker* texts_ = nullptr;
  SampleWriter* samples_ = nullptr;
  int64_t loss_rows_ = 1;                                           // of one chunk's, at most
  int64_t most_loss_chunks_ = std::numeric_limits<int64_t>::max();  // fewer in a dry run
  std::vector<TextCounts> text_counts_;
  StepBatches batches_;
  StepGradients sums_;
};

}  // namespace spillway
