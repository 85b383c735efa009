#include "engine/torch/model_compute.h"

#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/options/run_change.h"
#include "engine/torch/guarded.h"
#include "engine/torch/rows_looked_up.h"
#include "engine/torch/text_passes.h"
#include "io/base/check.h"
#include "io/base/status.h"

namespace spillway {
namespace {

// The weights as leaves of an autograd graph.
std::vector<torch::Tensor> LeavesOf(const std::vector<ParameterView>& views,
                                    const GivenParameters& given) {
  std::vector<torch::Tensor> leaves;
  for (size_t i = 0; i < views.size(); ++i) {
    leaves.push_back(given.tensors[i].detach().requires_grad_(!views[i].frozen));
  }
  return leaves;
}

// Initialised in the stream that uses them.
ModelBuffers BuffersAt(const ComputePlace& place, const Model& model) {
  const ComputeScope scope(place);
  return ModelBuffers(model, place.where);
}

}  // namespace

ModelCompute::ModelCompute(const Model& model, const ModelDescription& description, Dataset* data,
                           Dataset* evaluation, const TrainOptions& options,
                           const ComputePlace& place)
    : model_(model),
      description_(description),
      flow_(*ValueFlow::Of(model)),
      evaluation_(evaluation),
      options_(options),
      place_(place),
      buffers_(BuffersAt(place, model)),
      first_backward_(description.first_backward()),
      keeps_graph_(description.num_computing(), false),
      loss_(place),
      batches_(flow_, description.num_computing(), data, evaluation, options_, place_),
      sums_(description, ScalarTypeOf(options.dtype), place.where) {}

int64_t ModelCompute::evaluation_samples_at_once(uint64_t input_bytes) const {
  const uint64_t micro_batches = (step_bytes_ + input_bytes) / evaluation_bytes_;
  return options_.micro_batch * static_cast<int64_t>(std::max<uint64_t>(1, micro_batches));
}

void ModelCompute::KeepGraphs(std::vector<bool> units) {
  SPILLWAY_CHECK(units.size() == num_units() && !units.back());
  keeps_graph_ = std::move(units);
  // Without a backward no graph is needed.
  std::fill_n(keeps_graph_.begin(), first_backward_, false);
}

// --- Beginnings ---------------------------------------------------------------

// Begins a training step without samples.
absl::Status ModelCompute::Begin(int64_t step, double loss_scale) {
  training_ = true;
  step_ = step;
  loss_scale_ = loss_scale;
  batches_.ClearCounts();
  return ClearLoss();
}

absl::Status ModelCompute::BeginTrain(int64_t step, double loss_scale) {
  RETURN_IF_ERROR(Begin(step, loss_scale));
  return batches_.LoadTraining(step);
}

absl::StatusOr<FirstRead> ModelCompute::ReadFirst(int64_t step, const StateLayout& layout) {
  const int looked_up = LookedUp(model_, description_);
  if (looked_up < 0) return FirstRead();
  const std::vector<MicroBatch>* read = &batches_.all();
  if (step != step_ || !training_) {
    ASSIGN_OR_RETURN(read, batches_.LoadAhead(step));
  }
  return TilesLookedUp(description_, looked_up, layout, *read);
}

absl::Status ModelCompute::BeginEvaluate(int64_t first, int64_t count) {
  training_ = false;
  if (first == EvaluationShareOf(evaluation_->size(), options_.rank, options_.ranks).begin) {
    batches_.ClearCounts();
    judgements_.clear();
    RETURN_IF_ERROR(ClearLoss());
  }
  return batches_.LoadEvaluation(first, count);
}

absl::Status ModelCompute::ClearLoss() {
  const ComputeScope scope(place_);
  return Guarded(*place_.memory, "beginning a step", [&] { loss_.Clear(); });
}

absl::Status ModelCompute::MakeTexts(int64_t begin, int64_t end, int64_t at_once,
                                     const std::function<absl::Status()>& pass) {
  training_ = false;
  TextPasses passes(batches_, *texts_, TextsAtOnce(loss_rows_, options_.dtype, at_once), pass);
  ASSIGN_OR_RETURN(text_counts_, texts_->Make(begin, end, passes));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<SampleText>> ModelCompute::WriteSamples(
    int64_t at_once, const std::function<absl::Status()>& pass) {
  training_ = false;
  TextPasses passes(batches_, *samples_, TextsAtOnce(loss_rows_, options_.dtype, at_once), pass);
  return samples_->Write(passes);
}

// --- Ops ----------------------------------------------------------------------

UnitContext ModelCompute::ContextOf(int unit, const MicroBatch& micro) const {
  return UnitContext(options_.seed, step_, unit, micro.samples, training_, options_.products())
      .With(&micro.batch, micro.values.Outputs(flow_.reads(unit)))
      .WithLosses(nullptr, micro.labels)
      .WithBuffers(micro.buffers[unit].empty() ? buffers_.of(unit) : micro.buffers[unit]);
}

std::vector<StateBuffer> ModelCompute::Buffers() const {
  if (buffers_.empty()) return {};
  const ComputeScope scope(place_);
  return buffers_.Values();
}

absl::Status ModelCompute::SetBuffers(const std::vector<StateBuffer>& buffers) {
  if (buffers.empty() && buffers_.empty()) return absl::OkStatus();
  const ComputeScope scope(place_);
  return buffers_.SetValues(buffers);
}

absl::Status ModelCompute::Run(const OpBuffers& buffers) {
  const StepOp& op = *buffers.op;
  const ComputeScope scope(place_);
  const std::string what = absl::StrCat(std::string(OpKindName(op.kind)), " of unit ",
                                        description_.units[op.unit].name, ", step ", step_);
  return Guarded(*place_.memory, what, [&]() -> absl::Status {
    Compute(buffers);
    return ReadsLossAfter(op) ? CheckLoss() : absl::OkStatus();
  });
}

void ModelCompute::Compute(const OpBuffers& buffers) {
  const int unit = buffers.op->unit;
  const std::vector<ParameterView> views =
      ViewsOf(model_, description_, options_.dtype, unit, buffers, place_.where);
  sums_.Open(buffers);
  switch (buffers.op->kind) {
    case OpKind::kForward:
      Forward(unit, views, buffers);
      break;
    case OpKind::kLoss:
      Loss(views);
      loss_.Send();
      break;
    case OpKind::kBackward:
      Backward(unit, views, buffers);
      break;
  }
  sums_.Complete(buffers);
}

UnitGraph ModelCompute::GraphOf(int unit, const MicroBatch& micro,
                                const std::vector<ParameterView>& views) const {
  const torch::Tensor& x = micro.inputs[unit];
  UnitGraph::Wanted wanted;
  wanted.input = flow_.reads_before(unit) && unit > first_backward_ && x.is_floating_point();
  for (int other : flow_.reads(unit)) wanted.values.push_back(other >= first_backward_);
  return UnitGraph(*model_.units[unit], ContextOf(unit, micro), views, x, wanted);
}

void ModelCompute::Forward(int unit, const std::vector<ParameterView>& views,
                           const OpBuffers& buffers) {
  torch::NoGradGuard no_grad;
  const bool keep = training_ && keeps_graph_[unit];
  uint64_t moved_bytes = 0;
  std::vector<torch::Tensor> lent = buffers_.of(unit);
  for (const ParameterView& view : views) lent.push_back(view.weights);
  for (MicroBatch& micro : batches_.all()) {
    const bool again = training_ && !keep && unit >= first_backward_;
    std::vector<torch::Tensor> before;
    if (again) before = buffers_.CopyOf(unit);
    torch::Tensor output;
    std::vector<torch::Tensor> losses;
    if (keep) {
      // A graph may have saved its buffers, so the next micro-batch gets copies.
      micro.buffers[unit] = buffers_.CopyOf(unit);
      micro.graphs[unit] = GraphOf(unit, micro, views);
      buffers_.Set(unit, micro.buffers[unit]);
      output = micro.graphs[unit]->output();
      losses = micro.graphs[unit]->losses();
    } else {
      output =
          ForwardOf(*model_.units[unit], ContextOf(unit, micro).WithLosses(&losses, micro.labels),
                    Give(views), micro.inputs[unit]);
    }
    if (!micro.last_positions.defined()) {
      for (const torch::Tensor& loss : losses) loss_.Add(loss);
    }
    micro.buffers[unit] = std::move(before);
    // Done in every placement: a moved tensor keeps its strides, but must have no gaps.
    if (!output.is_non_overlapping_and_dense()) output = output.contiguous();
    output = ApartFrom(lent, output);
    if (flow_.kept(unit)) micro.values.Keep(unit, output);
    micro.Give(unit + 1, flow_, output);
    if (buffers.inputs != nullptr) {
      micro.MoveInput(unit, buffers, place_, &moved_bytes);
    } else if (keep || !training_ || unit < first_backward_) {
      micro.inputs[unit] = torch::Tensor();
    }
  }
}

void ModelCompute::Backward(int unit, const std::vector<ParameterView>& views,
                            const OpBuffers& buffers) {
  torch::NoGradGuard no_grad;
  for (MicroBatch& micro : batches_.all()) {
    std::vector<torch::Tensor> lent;
    for (const ParameterView& view : views) lent.push_back(view.weights);
    if (buffers.inputs != nullptr) {
      micro.TakeInput(unit, buffers, place_);
      lent.push_back(micro.inputs[unit]);
    }
    UnitGraph graph = micro.graphs[unit] ? *std::exchange(micro.graphs[unit], std::nullopt)
                                         : GraphOf(unit, micro, views);
    micro.inputs[unit] = torch::Tensor();
    micro.buffers[unit].clear();
    if (flow_.kept(unit)) micro.gradient = micro.values.TakeGradient(unit, micro.gradient);
    UnitGraph::Gradients gradients =
        std::move(graph).Differentiate(views, micro.gradient, LossGradient());
    micro.gradient = ApartFrom(lent, gradients.input);
    micro.values.Add(flow_.reads(unit), gradients.values);
    sums_.Add(views, gradients.parameters);
  }
}

double ModelCompute::LossGradient() const {
  return loss_scale_ / static_cast<double>(std::max<int64_t>(1, batches_.labels()));
}

int64_t ModelCompute::LossChunks(const MicroBatch& micro) const {
  return (micro.batch.labels.numel() + LossChunkRows() - 1) / LossChunkRows();
}

void ModelCompute::Loss(const std::vector<ParameterView>& views) {
  const int unit = num_units() - 1;
  const int64_t chunk_rows = LossChunkRows();
  for (MicroBatch& micro : batches_.all()) {
    const GivenParameters given = Give(views);
    std::vector<torch::Tensor> added;
    const UnitContext context =
        ContextOf(unit, micro).WithPacked(given.packed).WithLosses(&added, micro.labels);
    if (micro.last_positions.defined()) {
      NextLogits(context, given.tensors, micro);
      continue;
    }
    const auto loss_sum = [&](const std::vector<torch::Tensor>& parameters, const torch::Tensor& x,
                              const torch::Tensor& chunk_labels) {
      torch::Tensor loss = model_.loss->LossSum(context, parameters, x, chunk_labels);
      TORCH_CHECK(added.empty(), "a loss unit gives its whole loss by LossSum, not by AddLoss");
      return loss;
    };
    const torch::Tensor labels = micro.batch.labels.flatten();
    const torch::Tensor hidden = micro.inputs[unit].detach().reshape({labels.numel(), -1});
    const bool differentiates = training_ && unit > first_backward_;  // for its input
    torch::Tensor hidden_gradient = differentiates ? torch::empty_like(hidden) : torch::Tensor();
    for (int64_t row = 0; row < labels.numel() && row / chunk_rows < most_loss_chunks_;
         row += chunk_rows) {
      const int64_t rows = std::min(chunk_rows, labels.numel() - row);
      const torch::Tensor chunk_labels = labels.narrow(0, row, rows);
      torch::Tensor x = hidden.narrow(0, row, rows).detach();
      if (!training_) {
        torch::NoGradGuard no_grad;
        loss_.Add(loss_sum(given.tensors, x, chunk_labels));
        Judge(context, given.tensors, x, chunk_labels);
        continue;
      }
      torch::AutoGradMode grad(true);
      std::vector<torch::Tensor> inputs = LeavesOf(views, given);
      x.requires_grad_(differentiates);
      const torch::Tensor loss = loss_sum(inputs, x, chunk_labels);
      loss_.Add(loss);
      inputs.push_back(x);
      std::vector<torch::Tensor> gradients =
          GradientsOfLoss(loss, LossGradient(), inputs, chunk_labels);
      torch::NoGradGuard no_grad;
      if (differentiates) {
        if (gradients.back().defined()) {
          hidden_gradient.narrow(0, row, rows).copy_(gradients.back());
        } else {
          hidden_gradient.narrow(0, row, rows).zero_();
        }
        gradients.pop_back();
      }
      sums_.Add(views, gradients);
    }
    if (differentiates) micro.gradient = hidden_gradient.view(micro.inputs[unit].sizes());
    micro.inputs[unit] = torch::Tensor();
  }
}

void ModelCompute::NextLogits(const UnitContext& context,
                              const std::vector<torch::Tensor>& parameters,
                              MicroBatch& micro) const {
  torch::NoGradGuard no_grad;
  const torch::Tensor hidden = std::exchange(micro.inputs[num_units() - 1], torch::Tensor());
  const torch::Tensor rows = torch::arange(hidden.size(0), micro.last_positions.options());
  const torch::Tensor last = hidden.index({rows, micro.last_positions});
  const torch::Tensor logits = model_.loss->Logits(context, parameters, last);
  if (!logits.defined()) return;
  // Weights may be overwritten from here on, so the logits must not alias them.
  micro.logits = logits.to(torch::kCPU, torch::kFloat32, /*non_blocking=*/false, /*copy=*/true);
}

void ModelCompute::Judge(const UnitContext& context, const std::vector<torch::Tensor>& parameters,
                         const torch::Tensor& x, const torch::Tensor& labels) {
  torch::Tensor judged = model_.loss->Judge(context, parameters, x, labels);
  if (!judged.defined()) return;
  TORCH_CHECK(judged.dim() == 2 && judged.size(1) == 2, "LossUnit::Judge gives ", judged.sizes(),
              ", and must give what is predicted and what is right: [any, 2]");
  judged = judged.to(torch::kCPU, torch::kFloat32).contiguous();
  const float* const numbers = judged.const_data_ptr<float>();
  for (int64_t i = 0; i < judged.numel(); i += 2) {
    judgements_.push_back({numbers[i], numbers[i + 1]});
  }
}

// If computation is synchronous, at once. Otherwise at the end of a step, when the device is far
// past its loss and has enough work: an earlier wait would leave it idle.
bool ModelCompute::ReadsLossAfter(const StepOp& op) const {
  if (place_.computes_at_once() || !training_) return op.kind == OpKind::kLoss;
  return op.kind != OpKind::kForward && op.unit == first_backward_;
}

absl::Status ModelCompute::CheckLoss() {
  const double loss = loss_.Read();
  if (dry_run_ || std::isfinite(loss) || options_.dtype == DType::kFloat16) return absl::OkStatus();
  return absl::OutOfRangeError(
      absl::StrCat("step ", step_, ": the loss is not finite (", loss, ") after unit ",
                   description_.units[num_units() - 1].name, "; ", NotFiniteRemedy(options_.dtype),
                   "; earlier commits are good"));
}

}  // namespace spillway
