#include "engine/torch/model_compute.h"

#include <torch/autograd.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/data/window_sampler.h"
#include "engine/model/frozen_parameters.h"
#include "engine/numeric/gradient_loops.h"
#include "engine/torch/sparse_gradient.h"
#include "engine/torch/tensor_kernels.h"
#include "io/base/check.h"
#include "io/base/status.h"

namespace spillway {
namespace {

// The weights as leaves of a graph.
std::vector<torch::Tensor> LeavesOf(const std::vector<ParameterView>& views,
                                    const GivenParameters& given) {
  std::vector<torch::Tensor> leaves;
  for (size_t i = 0; i < views.size(); ++i) {
    leaves.push_back(given.tensors[i].detach().requires_grad_(!views[i].frozen));
  }
  return leaves;
}

// LibTorch reports by exceptions; they end here.
template <typename Function>
absl::Status Guarded(const TorchMemory& memory, const std::string& what, Function function) {
  try {
    function();
    return absl::OkStatus();
  } catch (const c10::OutOfMemoryError& error) {
    // What was kept for reuse has been given back, and the allocation tried again.
    return absl::ResourceExhaustedError(
        absl::StrCat(what, ": ", memory.RefusalText(error.what_without_backtrace())));
  } catch (const c10::Error& error) {
    return absl::InternalError(absl::StrCat(what, ": ", error.what_without_backtrace()));
  } catch (const std::exception& error) {
    return absl::InternalError(absl::StrCat(what, ": ", error.what()));
  }
}

// What looking at one text's logits takes, in times their bytes: scores, their order and sums.
constexpr int64_t kLookedAt = 12;

// Filled in the stream that uses them.
ModelBuffers BuffersAt(const ComputePlace& place, const Model& model) {
  const ComputeScope scope(place);
  return ModelBuffers(model, place.where);
}

// What moving a tensor takes: its bytes, aligned as LibTorch's own are.
uint64_t MovedBytes(const torch::Tensor& tensor) { return (tensor.nbytes() + 63) / 64 * 64; }

}  // namespace

absl::StatusOr<ModelDescription> DescribeModel(const Model& model, const FreezeRule& rule) {
  if (model.units.empty() || model.loss == nullptr) {
    return absl::InvalidArgumentError("a model needs at least one unit and a loss");
  }
  ModelDescription description;
  std::vector<std::vector<BorrowedParameter>> borrowed;
  std::set<std::string> frozen, names;
  auto add = [&](const auto& unit) {
    UnitDescription described;
    described.name = unit.name();
    for (const ParameterSpec& spec : unit.parameters()) {
      ParameterDescription parameter{spec.name, spec.shape};
      parameter.linear = spec.linear;
      described.parameters.push_back(std::move(parameter));
      if (spec.frozen) frozen.insert(spec.name);
      names.insert(spec.name);
    }
    borrowed.push_back(unit.borrowed());
    for (const BorrowedParameter& b : borrowed.back()) described.borrows.push_back(b.unit);
    std::sort(described.borrows.begin(), described.borrows.end());
    described.borrows.erase(std::unique(described.borrows.begin(), described.borrows.end()),
                            described.borrows.end());
    description.units.push_back(std::move(described));
  };
  for (const auto& unit : model.units) add(*unit);
  add(*model.loss);
  for (const auto& unit : model.units) {
    for (const BufferSpec& buffer : unit->buffers()) {
      if (names.insert(buffer.name).second) continue;
      return absl::InvalidArgumentError(absl::StrCat("buffer \"", buffer.name, "\" of unit \"",
                                                     unit->name(), "\" has another one's name"));
    }
  }
  for (size_t unit = 0; unit < borrowed.size(); ++unit) {
    for (const BorrowedParameter& b : borrowed[unit]) {
      if (b.unit < 0 || b.unit >= static_cast<int>(unit) || b.parameter < 0 ||
          b.parameter >= static_cast<int>(description.units[b.unit].parameters.size())) {
        return absl::InvalidArgumentError(
            absl::StrCat("unit \"", description.units[unit].name,
                         "\" borrows a parameter that no earlier unit has"));
      }
      const auto is_same = [&](const BorrowedParameter& other) {
        return other.unit == b.unit && other.parameter == b.parameter;
      };
      if (std::count_if(borrowed[unit].begin(), borrowed[unit].end(), is_same) > 1) {
        return absl::InvalidArgumentError(absl::StrCat(
            "unit \"", description.units[unit].name, "\" borrows ",
            description.units[b.unit].parameters[b.parameter].name, " twice: once is enough"));
      }
    }
  }
  RETURN_IF_ERROR(ValueFlow::Of(model).status());
  RETURN_IF_ERROR(LayOutParameters(description));
  if (rule.empty() && frozen.empty()) return description;
  RETURN_IF_ERROR(FreezeParameters(
      rule, [&](const std::string& name) { return frozen.contains(name); }, description));
  return description;
}

ModelCompute::ModelCompute(const Model& model, const ModelDescription& description, Dataset* data,
                           Dataset* evaluation, const TrainOptions& options,
                           const ComputePlace& place)
    : model_(model),
      description_(description),
      flow_(*ValueFlow::Of(model)),
      data_(data),
      evaluation_(evaluation),
      options_(options),
      place_(place),
      dtype_(ScalarTypeOf(options.dtype)),
      buffers_(BuffersAt(place, model)),
      first_backward_(description.first_backward()),
      keeps_graph_(description.num_computing(), false),
      loss_(place) {
  for (const UnitDescription& unit : description.units) {
    terms_.emplace_back(unit.parameters.size(), 0);
  }
}

uint64_t ModelCompute::peak_bytes() const { return place_.memory->peak_live_bytes(); }

int64_t ModelCompute::evaluation_samples_at_once(uint64_t input_bytes) const {
  const uint64_t micro_batches = (step_bytes_ + input_bytes) / evaluation_bytes_;
  return options_.micro_batch * static_cast<int64_t>(std::max<uint64_t>(1, micro_batches));
}

void ModelCompute::KeepGraphs(std::vector<bool> units) {
  SPILLWAY_CHECK(units.size() == num_units() && !units.back());
  keeps_graph_ = std::move(units);
  // Without a backward there is nothing to keep it for.
  std::fill_n(keeps_graph_.begin(), first_backward_, false);
}

// --- Data ---------------------------------------------------------------------

// A training step of no samples yet.
absl::Status ModelCompute::Begin(int64_t step, double loss_scale) {
  training_ = true;
  step_ = step;
  loss_scale_ = loss_scale;
  label_count_ = 0;
  return ClearLoss();
}

absl::Status ModelCompute::BeginTrain(int64_t step, double loss_scale) {
  RETURN_IF_ERROR(Begin(step, loss_scale));
  if (std::exchange(ahead_step_, 0) == step) {
    micro_batches_ = std::exchange(ahead_, {});
    label_count_ = ahead_labels_;
  } else {
    RETURN_IF_ERROR(LoadStep(step));
  }
  data_->Prepare(SamplesOf(step + 1));
  return absl::OkStatus();
}

absl::Status ModelCompute::LoadStep(int64_t step) {
  const int64_t own = options_.micro_batch * options_.accumulate;
  const int64_t first_draw = ((step - 1) * options_.ranks + options_.rank) * own;
  return LoadMicroBatches(data_, SamplesOf(step), options_.rank * own, first_draw);
}

// Beside the step that runs.
absl::Status ModelCompute::LoadAhead(int64_t step) {
  std::vector<MicroBatch> running = std::exchange(micro_batches_, {});
  const int64_t labels = std::exchange(label_count_, 0);
  const absl::Status status = LoadStep(step);
  ahead_ = std::exchange(micro_batches_, std::move(running));
  ahead_labels_ = std::exchange(label_count_, labels);
  ahead_step_ = status.ok() ? step : 0;
  return status;
}

int ModelCompute::LookedUp() const {
  const UnitDescription& unit = description_.units[0];
  return unit.frozen || !unit.places.empty() ? -1 : model_.units[0]->looks_up();
}

absl::StatusOr<FirstRead> ModelCompute::ReadFirst(int64_t step, const StateLayout& layout) {
  const int looked_up = LookedUp();
  if (looked_up < 0) return FirstRead();
  std::vector<bool> read(layout.NumTiles(0));
  const auto note = [&](uint64_t first, uint64_t count) {
    const uint64_t end = (first + count + layout.tile_parameters() - 1) / layout.tile_parameters();
    for (uint64_t tile = first / layout.tile_parameters(); tile < end; ++tile) read[tile] = true;
  };
  const std::vector<ParameterDescription>& parameters = description_.units[0].parameters;
  for (int i = 0; i < parameters.size(); ++i) {
    if (i != looked_up) note(parameters[i].offset, parameters[i].words);
  }
  const ParameterDescription& matrix = parameters[looked_up];
  const int64_t rows = matrix.shape[0], width = matrix.elements / rows;
  const auto note_rows = [&](const torch::Tensor& x) {
    const torch::Tensor ids = x.to(torch::kCPU, torch::kInt64).contiguous();
    for (int64_t i = 0; i < ids.numel(); ++i) {
      const int64_t row = ids.const_data_ptr<int64_t>()[i];
      if (row >= 0 && row < rows) note(matrix.offset + row * width, width);
    }
  };
  const bool runs = step == step_ && training_;
  if (!runs) RETURN_IF_ERROR(LoadAhead(step));
  for (const MicroBatch& micro : runs ? micro_batches_ : ahead_) note_rows(micro.inputs[0]);
  FirstRead first_read = {0, {}};
  for (int tile = 0; tile < read.size(); ++tile) {
    if (read[tile]) first_read.tiles.push_back(tile);
  }
  return first_read;
}

// Rank r takes the r-th equal run of the global batch.
std::vector<int64_t> ModelCompute::SamplesOf(int64_t step) const {
  const int64_t own = options_.micro_batch * options_.accumulate;
  const std::vector<int64_t> all =
      StepSamples(options_.order, options_.seed, data_->size(), own * options_.ranks, step - 1);
  const auto begin = all.begin() + options_.rank * own;
  return {begin, begin + own};
}

absl::Status ModelCompute::BeginEvaluate(int64_t first, int64_t count) {
  training_ = false;
  if (first == EvaluationShareOf(evaluation_->size(), options_.rank, options_.ranks).begin) {
    label_count_ = 0;
    judgements_.clear();
    RETURN_IF_ERROR(ClearLoss());
  }
  const auto from = [&](int64_t begin) {
    std::vector<int64_t> samples;
    for (int64_t i = begin; i < std::min(begin + count, evaluation_->size()); ++i) {
      samples.push_back(i);
    }
    return samples;
  };
  RETURN_IF_ERROR(LoadMicroBatches(evaluation_, from(first), 0, 0));
  evaluation_->Prepare(from(first + count));
  return absl::OkStatus();
}

absl::Status ModelCompute::ClearLoss() {
  const ComputeScope scope(place_);
  return Guarded(*place_.memory, "beginning a step", [&] { loss_.Clear(); });
}

absl::Status ModelCompute::LoadMicroBatches(Dataset* data, const std::vector<int64_t>& indices,
                                            int64_t first_sample, int64_t first_draw) {
  micro_batches_.clear();
  const ComputeScope scope(place_);
  const int64_t count = indices.size();
  for (int64_t begin = 0; begin < count; begin += options_.micro_batch) {
    const int64_t end = std::min(count, begin + options_.micro_batch);
    MicroBatch micro;
    for (int64_t i = begin; i < end; ++i) micro.samples.push_back(first_sample + i);
    absl::Status got;
    RETURN_IF_ERROR(Guarded(*place_.memory, "reading a batch", [&] {
      const auto some = absl::MakeSpan(indices).subspan(begin, end - begin);
      auto batch = training_ ? data->Draw(some, first_draw + begin) : data->Get(some);
      got = batch.status();
      if (!got.ok()) return;
      micro_batches_.push_back(std::move(micro));
      Load(*std::move(batch), micro_batches_.back());
      label_count_ += micro_batches_.back().labels;
    }));
    RETURN_IF_ERROR(got);
  }
  return absl::OkStatus();
}

void ModelCompute::Load(Batch batch, MicroBatch& micro) const {
  micro.batch = std::move(batch);
  const torch::Tensor& labels = micro.batch.labels;
  micro.labels = !labels.defined()            ? 0
                 : labels.is_floating_point() ? labels.numel()
                                              : labels.ne(kIgnoredLabel).sum().item<int64_t>();
  micro.batch.inputs = BringTo(place_, micro.batch.inputs);
  micro.batch.labels = BringTo(place_, micro.batch.labels);
  for (auto& [name, field] : micro.batch.fields) field = BringTo(place_, field);
  micro.inputs.resize(num_units());
  micro.graphs.resize(num_units());
  micro.moved.resize(num_units());
  micro.buffers.resize(num_units());
  GiveInput(0, micro.batch.inputs, micro);
}

// --- Ops ----------------------------------------------------------------------

UnitContext ModelCompute::ContextOf(int unit, const MicroBatch& micro) const {
  return UnitContext(options_.seed, step_, unit, micro.samples, training_, options_.products())
      .With(&micro.batch, micro.values.Outputs(flow_.reads(unit)))
      .WithLosses(nullptr, micro.labels)
      .WithBuffers(micro.buffers[unit].empty() ? buffers_.of(unit) : micro.buffers[unit]);
}

void ModelCompute::GiveInput(int unit, const torch::Tensor& output, MicroBatch& micro) const {
  const std::string& field = flow_.input(unit);
  micro.inputs[unit] = field.empty() ? output : ContextOf(unit, micro).field(field);
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
  absl::Status loss;
  RETURN_IF_ERROR(Guarded(*place_.memory, what, [&] {
    Compute(buffers);
    if (ReadsLossAfter(op)) loss = CheckLoss();
  }));
  return loss;
}

void ModelCompute::Compute(const OpBuffers& buffers) {
  const int unit = buffers.op->unit;
  const std::vector<ParameterView> views =
      ViewsOf(model_, description_, options_.dtype, unit, buffers, place_.where);
  OpenSums(buffers);
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
  for (size_t i = 0; i < buffers.gradients.size(); ++i) {
    if (buffers.op->gradients[i] != unit) continue;
    CompleteSums(unit, buffers.gradients[i],
                 buffers.Rounded(i) ? DTypeBytes(options_.dtype) : sizeof(float));
  }
}

UnitGraph ModelCompute::GraphOf(int unit, const MicroBatch& micro,
                                const std::vector<ParameterView>& views) const {
  const torch::Tensor& x = micro.inputs[unit];
  UnitGraph::Wanted wanted;
  wanted.input = flow_.reads_before(unit) && unit > first_backward_ && x.is_floating_point();
  for (int other : flow_.reads(unit)) wanted.values.push_back(other >= first_backward_);
  return UnitGraph(*model_.units[unit], ContextOf(unit, micro), views, x, wanted);
}

// Copies the unit's input behind those of the micro-batches before, as it lies in memory.
void ModelCompute::MoveInput(int unit, const OpBuffers& buffers, MicroBatch& micro,
                             uint64_t* end_bytes) {
  const torch::Tensor input = std::exchange(micro.inputs[unit], torch::Tensor());
  const uint64_t bytes = MovedBytes(input);
  TORCH_CHECK(*end_bytes + bytes <= buffers.inputs_bytes, "the inputs of unit ",
              description_.units[unit].name, " are larger than in the dry run before step 1");
  char* const to = buffers.inputs + *end_bytes;
  if (place_.where.is_cpu()) {
    std::memcpy(to, input.data_ptr(), input.nbytes());
  } else {
    // It may be gone for LibTorch before it has been copied: what takes its place comes later
    // in the same stream.
    ViewAt(to, input.sizes(), input.strides(), input.scalar_type(), torch::kCPU)
        .copy_(input, /*non_blocking=*/true);
  }
  micro.moved[unit] = {*end_bytes, input.sizes().vec(), input.strides().vec(), input.scalar_type()};
  *end_bytes += bytes;
}

void ModelCompute::Forward(int unit, const std::vector<ParameterView>& views,
                           const OpBuffers& buffers) {
  torch::NoGradGuard no_grad;
  const bool keep = training_ && keeps_graph_[unit];
  uint64_t moved_bytes = 0;
  std::vector<torch::Tensor> lent = buffers_.of(unit);
  for (const ParameterView& view : views) lent.push_back(view.weights);
  for (MicroBatch& micro : micro_batches_) {
    const bool again = training_ && !keep && unit >= first_backward_;
    std::vector<torch::Tensor> before;
    if (again) before = buffers_.CopyOf(unit);
    if (keep) {
      micro.graphs[unit] = GraphOf(unit, micro, views);
    }
    torch::Tensor output;
    std::vector<torch::Tensor> losses;
    if (keep) {
      output = micro.graphs[unit]->output();
      losses = micro.graphs[unit]->losses();
    } else {
      const GivenParameters given = Give(views);
      output = model_.units[unit]->Forward(
          ContextOf(unit, micro).WithPacked(given.packed).WithLosses(&losses, micro.labels),
          given.tensors, micro.inputs[unit]);
    }
    if (!micro.last_positions.defined()) {
      for (const torch::Tensor& loss : losses) loss_.Add(loss);
    }
    micro.buffers[unit] = std::move(before);
    // In every placement the same: what is moved keeps its strides, but must have no gaps.
    if (!output.is_non_overlapping_and_dense()) output = output.contiguous();
    output = ApartFrom(lent, output);
    if (flow_.kept(unit)) micro.values.Keep(unit, output);
    GiveInput(unit + 1, output, micro);
    if (buffers.inputs != nullptr) {
      MoveInput(unit, buffers, micro, &moved_bytes);
    } else if (keep || !training_ || unit < first_backward_) {
      micro.inputs[unit] = torch::Tensor();
    }
  }
}

void ModelCompute::Backward(int unit, const std::vector<ParameterView>& views,
                            const OpBuffers& buffers) {
  torch::NoGradGuard no_grad;
  for (MicroBatch& micro : micro_batches_) {
    if (buffers.inputs != nullptr) {
      const MovedInput& moved = micro.moved[unit];
      const torch::Tensor kept = ViewAt(buffers.inputs + moved.offset_bytes, moved.sizes,
                                        moved.strides, moved.type, torch::kCPU);
      micro.inputs[unit] = place_.where.is_cpu()
                               ? kept
                               : torch::empty_strided(moved.sizes, moved.strides,
                                                      kept.options().device(place_.where))
                                     .copy_(kept, /*non_blocking=*/true);
    }
    UnitGraph graph = micro.graphs[unit] ? *std::exchange(micro.graphs[unit], std::nullopt)
                                         : GraphOf(unit, micro, views);
    micro.inputs[unit] = torch::Tensor();
    micro.buffers[unit].clear();
    if (flow_.kept(unit)) micro.gradient = micro.values.TakeGradient(unit, micro.gradient);
    UnitGraph::Gradients gradients =
        std::move(graph).Differentiate(views, micro.gradient, LossGradient());
    micro.gradient = std::move(gradients.input);
    micro.values.Add(flow_.reads(unit), gradients.values);
    Accumulate(views, gradients.parameters);
  }
}

double ModelCompute::LossGradient() const {
  return loss_scale_ / static_cast<double>(std::max<int64_t>(1, label_count_));
}

int64_t ModelCompute::LossChunkRows() const {
  return std::max<int64_t>(1, model_.loss->ChunkRows());
}

int64_t ModelCompute::LossChunks(const MicroBatch& micro) const {
  return (micro.batch.labels.numel() + LossChunkRows() - 1) / LossChunkRows();
}

void ModelCompute::Loss(const std::vector<ParameterView>& views) {
  const int unit = num_units() - 1;
  const int64_t chunk_rows = LossChunkRows();
  for (MicroBatch& micro : micro_batches_) {
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
    const bool differentiates = training_ && unit > first_backward_;  // its input
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
      const std::vector<torch::Tensor> leaves = LeavesOf(views, given);
      x.requires_grad_(differentiates);
      const torch::Tensor loss = loss_sum(leaves, x, chunk_labels);
      loss_.Add(loss);
      const torch::Tensor seed =
          torch::full({}, LossGradient(), loss.options().requires_grad(false));
      std::vector<torch::Tensor> inputs;
      std::vector<ParameterView> trained;
      for (size_t i = 0; i < views.size(); ++i) {
        if (views[i].frozen) continue;
        trained.push_back(views[i]);
        inputs.push_back(leaves[i]);
      }
      if (differentiates) inputs.push_back(x);
      auto gradients = torch::autograd::grad({loss}, inputs, {seed.view_as(loss)}, false, false,
                                             /*allow_unused=*/true);
      torch::NoGradGuard no_grad;
      if (differentiates) {
        if (gradients.back().defined()) {
          hidden_gradient.narrow(0, row, rows).copy_(gradients.back());
        } else {
          hidden_gradient.narrow(0, row, rows).zero_();
        }
        gradients.pop_back();
      }
      Accumulate(trained, gradients);
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
  // Weights may be overwritten from here on; the logits must not point into them.
  micro.logits = logits.to(torch::kCPU, torch::kFloat32, /*non_blocking=*/false, /*copy=*/true);
}

void ModelCompute::Judge(const UnitContext& context, const std::vector<torch::Tensor>& parameters,
                         const torch::Tensor& x, const torch::Tensor& labels) {
  torch::Tensor judged = model_.loss->Judge(context, parameters, x, labels);
  if (!judged.defined()) return;
  judged = judged.to(torch::kCPU, torch::kFloat32).contiguous();
  const float* const numbers = judged.const_data_ptr<float>();
  for (int64_t i = 0; i < judged.numel(); i += 2) {
    judgements_.push_back({numbers[i], numbers[i + 1]});
  }
}

// --- Texts -----------------------------------------------------------------------

// As many as the memory of the last operation of a training step has room for: of one chunk of the
// loss it holds the logits in the run's dtype, and here one at a time is looked at, in fp32, in
// kLookedAt times its bytes.
int64_t ModelCompute::TextsAtOnce(int64_t samples_at_once) const {
  const int64_t logits = loss_rows_ * static_cast<int64_t>(DTypeBytes(options_.dtype)) /
                         static_cast<int64_t>(sizeof(float));
  return std::clamp<int64_t>(logits - kLookedAt, 1, samples_at_once);
}

uint64_t ModelCompute::TextLogitsBytes() const {
  return static_cast<uint64_t>((texts_->together() + kLookedAt) * texts_->classes()) *
         sizeof(float);
}

absl::Status ModelCompute::LoadBeginnings(absl::Span<const TextBeginning> texts) {
  training_ = false;
  micro_batches_.clear();
  const ComputeScope scope(place_);
  for (size_t begin = 0; begin < texts.size(); begin += options_.micro_batch) {
    const absl::Span<const TextBeginning> some = texts.subspan(begin, options_.micro_batch);
    absl::Status got;
    RETURN_IF_ERROR(Guarded(*place_.memory, "reading a batch", [&] {
      auto batch = texts_->BatchOf(some);
      got = batch.status();
      if (!got.ok()) return;
      MicroBatch micro;
      std::vector<int64_t> last;
      for (const TextBeginning& text : some) {
        micro.samples.push_back(text.sample);
        last.push_back(static_cast<int64_t>(text.tokens.size()) - 1);
      }
      micro.last_positions = BringTo(place_, torch::tensor(last, torch::kInt64));
      micro_batches_.push_back(std::move(micro));
      Load(*std::move(batch), micro_batches_.back());
    }));
    RETURN_IF_ERROR(got);
  }
  return absl::OkStatus();
}

class ModelCompute::BeginningPasses : public NextTokens {
 public:
  BeginningPasses(ModelCompute& compute, int64_t at_once, const std::function<absl::Status()>& pass)
      : compute_(compute), at_once_(at_once), pass_(pass) {}

  int64_t at_once() const override { return at_once_; }

  absl::StatusOr<std::vector<torch::Tensor>> After(
      const std::vector<TextBeginning>& texts) override {
    std::vector<torch::Tensor> logits;
    for (size_t begin = 0; begin < texts.size(); begin += at_once_) {
      RETURN_IF_ERROR(compute_.LoadBeginnings(absl::MakeSpan(texts).subspan(begin, at_once_)));
      RETURN_IF_ERROR(pass_());
      for (MicroBatch& micro : compute_.micro_batches_) {
        if (!micro.logits.defined()) {
          return absl::InvalidArgumentError("this model has no logits: it cannot make texts");
        }
        for (const torch::Tensor& row : micro.logits.unbind(0)) logits.push_back(row);
      }
      compute_.micro_batches_.clear();
    }
    return logits;
  }

 private:
  ModelCompute& compute_;
  const int64_t at_once_;
  const std::function<absl::Status()>& pass_;
};

absl::Status ModelCompute::MakeTexts(int64_t begin, int64_t end, int64_t at_once,
                                     const std::function<absl::Status()>& pass) {
  BeginningPasses passes(*this, TextsAtOnce(at_once), pass);
  ASSIGN_OR_RETURN(text_counts_, texts_->Make(begin, end, passes));
  return absl::OkStatus();
}

// --- Gradient sums ----------------------------------------------------------------

// Sums that nothing has been added to yet hold whatever was there before.
void ModelCompute::OpenSums(const OpBuffers& buffers) {
  for (size_t i = 0; i < buffers.gradients.size(); ++i) {
    if (!buffers.fresh[i]) continue;
    const int unit = buffers.op->gradients[i];
    terms_[unit].assign(terms_[unit].size(), 0);
  }
}

void ModelCompute::Accumulate(const std::vector<ParameterView>& views,
                              const std::vector<torch::Tensor>& gradients) {
  for (size_t i = 0; i < gradients.size(); ++i) {
    if (!gradients[i].defined()) continue;
    SPILLWAY_CHECK(gradients[i].scalar_type() == dtype_);
    const bool rounded = views[i].rounded_sums;
    const int64_t term = terms_[views[i].unit][views[i].parameter]++;
    TORCH_CHECK(!rounded || term < 2, "unit ", description_.units[views[i].unit].name,
                " has more gradients than in the dry run before step 1: a sample has more labels");
    if (HasSparseRows(gradients[i])) {
      AccumulateSparse(gradients[i], views[i].sums, rounded, term == 0);
      continue;
    }
    const torch::Tensor gradient = gradients[i].to_dense().contiguous();
    TensorKernels& kernels = KernelsOf(place_.where);
    if (rounded) {
      kernels.AccumulateRounded(gradient, views[i].sums, term == 0);
    } else {
      kernels.AccumulateGradient(gradient, reinterpret_cast<float*>(views[i].sums), term == 0);
    }
  }
}

// What no gradient has reached, and the gaps between parameters, must read as zero.
void ModelCompute::CompleteSums(int unit, char* sums, uint64_t bytes_each) {
  const UnitDescription& described = description_.units[unit];
  TensorKernels& kernels = KernelsOf(place_.where);
  // [zero_from, end): what is to be zero so far.
  uint64_t zero_from = 0, end = 0;
  const auto zero_up_to = [&](uint64_t to) {
    if (to <= zero_from) return;
    kernels.FillZero(sums + zero_from * bytes_each, (to - zero_from) * bytes_each);
  };
  for (size_t i = 0; i < described.parameters.size(); ++i) {
    const ParameterDescription& parameter = described.parameters[i];
    end = parameter.offset + parameter.elements;
    if (terms_[unit][i] == 0) continue;
    zero_up_to(parameter.offset);
    zero_from = end;
  }
  zero_up_to((end + kParameterAlignment - 1) / kParameterAlignment * kParameterAlignment);
}

// Where computing is done by then, at once. Elsewhere at the end of a step, when the device is
// long past its loss and has enough to do: waiting earlier would let it run dry.
bool ModelCompute::ReadsLossAfter(const StepOp& op) const {
  if (place_.computes_at_once() || !training_) return op.kind == OpKind::kLoss;
  return op.kind != OpKind::kForward && op.unit == first_backward_;
}

absl::Status ModelCompute::CheckLoss() {
  const double loss = loss_.Read();
  if (std::isfinite(loss) || options_.dtype == DType::kFloat16) return absl::OkStatus();
  return absl::OutOfRangeError(
      absl::StrCat("step ", step_, ": the loss is not finite (", loss, ") after unit ",
                   description_.units[num_units() - 1].name, "; ",
                   options_.dtype == DType::kFloat32 ? "" : "use --dtype fp32, or ",
                   "lower --lr or raise --warmup; earlier commits are good"));
}

}  // namespace spillway
