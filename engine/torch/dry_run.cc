#include "engine/torch/dry_run.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/estimate/timings.h"
#include "engine/torch/rows_looked_up.h"
#include "engine/torch/text_passes.h"
#include "io/base/cache.h"
#include "io/base/clock.h"
#include "io/base/format_bytes.h"
#include "io/base/status.h"

namespace spillway {
namespace {

// Two chunks of a loss need as much memory as any number: the second one adds to the result of the
// first. A run that does not fit is thus refused without computing the others.
constexpr int64_t kLikeAll = 2;

// Units with equal signatures have equal code, inputs and parameters.
std::string Signature(const std::string& kind, const ModelDescription& model, int unit,
                      const std::vector<torch::Tensor>& inputs) {
  std::string text = absl::StrCat(kind, unit < model.first_backward() ? " without backward" : "");
  for (const torch::Tensor& input : inputs) {
    absl::StrAppend(&text, c10::toString(input.scalar_type()));
    for (int64_t size : input.sizes()) absl::StrAppend(&text, ",", size);
    absl::StrAppend(&text, "|");
  }
  for (int i = 0; i < model.NumParameters(unit); ++i) {
    const auto [owner, index] = model.PlaceOf(unit, i);
    absl::StrAppend(&text, model.units[owner].frozen ? ";frozen " : ";");
    for (int64_t size : model.units[owner].parameters[index].shape)
      absl::StrAppend(&text, size, ",");
  }
  return text;
}

// Number of initial values computed for each parameter, which are then repeated: all would take
// long. A prime, so that no two rows of a matrix are equal, which would make it singular.
constexpr uint64_t kMadeValues = 65521;

// Writes initial values to a unit's weights, which are zero; packed ones stay zero. Uses no memory
// of LibTorch's, which is being measured.
absl::Status WriteFirstWeights(const UnitDescription& unit, DType dtype, const ComputePlace& place,
                               WeightSource& first_weights, char* weights) {
  const ComputeScope scope(place);
  std::vector<float> made;
  for (const ParameterDescription& parameter : unit.parameters) {
    if (parameter.packing.any()) continue;
    const auto count = static_cast<int64_t>(parameter.elements);
    made.resize(std::min(parameter.elements, kMadeValues));
    RETURN_IF_ERROR(first_weights.Read(parameter.name, 0, made.size(), made.data()));
    const torch::Tensor all = ViewAt(weights + parameter.offset * DTypeBytes(dtype), {count}, {1},
                                     ScalarTypeOf(dtype), place.where);
    auto done = static_cast<int64_t>(made.size());
    all.narrow(0, 0, done).copy_(ViewAt(made.data(), {done}, {1}, torch::kFloat32, torch::kCPU));
    while (done < count) {
      const int64_t more = std::min(done, count - done);
      all.narrow(0, done, more).copy_(all.narrow(0, 0, more));
      done += more;
    }
  }
  return absl::OkStatus();
}

// The state of LibTorch's own random generator, read without LibTorch's memory.
std::string RandomState(const torch::Device& where) {
  const auto cpu = at::detail::getDefaultCPUGenerator();
  const at::mt19937_data_pod data = cpu.get<at::CPUGeneratorImpl>()->engine().data();
  std::string state = absl::StrCat(data.left_, " ", data.next_, " ", data.state_[0]);
  if (where.is_cpu()) return state;
  const torch::Tensor more = at::globalContext().defaultGenerator(where).get_state();
  return state.append(static_cast<const char*>(more.const_data_ptr()), more.nbytes());
}

// Weights and gradient sums of one op, in memory that replaces arenas and is counted like them.
struct OpScratch {
  explicit OpScratch(TorchMemory* counted_by) : counted_by(*counted_by) {}
  OpScratch(const OpScratch&) = delete;
  ~OpScratch() { counted_by.Uncount(counted_bytes); }

  absl::Status Fill(const ModelDescription& model, int unit, DType dtype, const ComputePlace& place,
                    bool rounded_sums, WeightSource& first_weights) {
    op.unit = unit;
    op.weights = model.units[unit].borrows;
    op.weights.push_back(unit);
    buffers.op = &op;
    for (int u : op.weights) {
      const uint64_t n = model.units[u].flat_parameters + kParameterAlignment;
      ASSIGN_OR_RETURN(char* const weights, Take(place, n * DTypeBytes(dtype)));
      // Zeroes are written: unwritten pages would all be the same one, which stays in the cache.
      memory.back().first.Zero(place, n * DTypeBytes(dtype));
      RETURN_IF_ERROR(WriteFirstWeights(model.units[u], dtype, place, first_weights, weights));
      buffers.weights.push_back(weights);
      if (model.units[u].frozen) continue;
      ASSIGN_OR_RETURN(char* const sums,
                       Take(place, n * (rounded_sums ? DTypeBytes(dtype) : sizeof(float))));
      op.gradients.push_back(u);
      buffers.gradients.push_back(sums);
      buffers.fresh.push_back(true);
      buffers.rounded.push_back(rounded_sums);
    }
    return absl::OkStatus();
  }

  absl::StatusOr<char*> Take(const ComputePlace& place, uint64_t bytes) {
    if (!counted_by.TryCount(bytes)) {
      return absl::ResourceExhaustedError(
          absl::StrCat("weights and gradient sums of one operation, ", FormatBytes(bytes),
                       " of them, have no room; raise --device-memory and --host-memory"));
    }
    counted_bytes += bytes;
    ASSIGN_OR_RETURN(PlaceMemory taken, PlaceMemory::Create(place, bytes));
    memory.emplace_back(std::move(taken), bytes);
    return memory.back().first.data();
  }

  // REQUIRES: the memory is the host's.
  void Evict() const {
    for (const auto& [data, bytes] : memory) EvictFromCaches(data.data(), bytes);
  }

  TorchMemory& counted_by;
  uint64_t counted_bytes = 0;
  StepOp op;
  OpBuffers buffers;
  std::vector<std::pair<PlaceMemory, uint64_t>> memory;  // and their sizes
};

}  // namespace

absl::Status DryRunner::MeasureUnit(int unit, bool once, UnitNeeds& needs) {
  const bool last = unit == compute_.num_units() - 1;
  MicroBatch& micro = compute_.batches_.all()[0];
  const torch::Tensor input = micro.inputs[unit];
  TorchMemory& memory = *compute_.place_.memory;
  OpScratch scratch(&memory);
  // The terms of a step's sums (engine/estimate/run_plan.h), if all operations are of one kind.
  const int64_t terms = compute_.options_.accumulate * (last ? compute_.LossChunks(micro) : 1);
  const bool rounded = compute_.place_.where.is_cpu() && compute_.options_.ranks == 1 && terms <= 2;
  RETURN_IF_ERROR(scratch.Fill(compute_.description_, unit, compute_.options_.dtype,
                               compute_.place_, rounded, first_weights_));
  const auto timed = [&](OpKind kind, Timings& timings) -> absl::Status {
    scratch.op.kind = kind;
    RETURN_IF_ERROR(Settle(compute_.place_));
    // In a step other operations have run since, so nothing of this one is in a cache.
    memory.Evict();
    if (compute_.place_.where.is_cpu()) scratch.Evict();
    const double began = clock_();
    RETURN_IF_ERROR(compute_.Run(scratch.buffers));
    RETURN_IF_ERROR(Settle(compute_.place_));
    timings.Add(clock_() - began);
    return absl::OkStatus();
  };
  // Runs a forward and its backward; `held`: bytes that stay allocated after the forward.
  const auto round_trip = [&](Timings& backward, uint64_t& held) -> absl::Status {
    micro.inputs[unit] = input;
    needs.output = micro.gradient = micro.inputs[unit + 1] = torch::Tensor();
    if (compute_.flow_.kept(unit)) micro.values.Keep(unit, {});
    const uint64_t before = memory.live_bytes();
    memory.ResetPeak();
    RETURN_IF_ERROR(timed(OpKind::kForward, needs.forward));
    held = memory.live_bytes() - before;
    needs.output = compute_.flow_.reads_before(unit + 1) ? micro.inputs[unit + 1]
                                                         : micro.values.Outputs({unit})[0];
    if (unit < compute_.first_backward_) return absl::OkStatus();
    micro.gradient = torch::zeros_like(needs.output);
    return timed(OpKind::kBackward, backward);
  };
  do {
    const double began = clock_();
    const uint64_t before = memory.live_bytes();
    memory.ResetPeak();
    const bool partly = last && once && compute_.LossChunks(micro) > kLikeAll;
    if (last) {
      micro.inputs[unit] = input;
      Timings of_part;
      if (partly) compute_.most_loss_chunks_ = kLikeAll;
      const absl::Status status = timed(OpKind::kLoss, partly ? of_part : needs.backward);
      compute_.most_loss_chunks_ = std::numeric_limits<int64_t>::max();
      RETURN_IF_ERROR(status);
      needs.peak_bytes = std::max(needs.peak_bytes, memory.peak_live_bytes() - before);
    } else {
      uint64_t plain = 0, kept = 0;
      compute_.keeps_graph_[unit] = false;
      RETURN_IF_ERROR(round_trip(needs.backward, plain));
      needs.peak_bytes = std::max(needs.peak_bytes, memory.peak_live_bytes() - before);
      if (unit >= compute_.first_backward_) {
        compute_.keeps_graph_[unit] = true;
        const absl::Status status = round_trip(needs.graph_backward, kept);
        compute_.keeps_graph_[unit] = false;
        RETURN_IF_ERROR(status);
        needs.graph_bytes = std::max(needs.graph_bytes, kept - std::min(kept, plain));
      }
    }
    micro.gradient = torch::Tensor();
    const uint64_t limit = compute_.options_.device_memory_bytes;
    too_large_ |= limit > 0 && needs.peak_bytes > limit;
    needs.enough = too_large_ || (!partly && needs.repeats.Enough(clock_() - began));
  } while (!needs.enough && !once);
  return absl::OkStatus();
}

absl::Status DryRunner::MeasureChecked(int unit, bool once, const std::vector<int>& like,
                                       UnitNeeds& needs) {
  const std::string before = RandomState(compute_.place_.where);
  const absl::Status status = MeasureUnit(unit, once, needs);
  const auto name = [&](int i) { return compute_.description_.units[i].name; };
  const bool last = unit == compute_.num_units() - 1;
  if (status.ok() && !last && RandomState(compute_.place_.where) != before) {
    return absl::InvalidArgumentError(
        absl::StrCat("unit ", name(unit),
                     " draws random numbers of LibTorch's, which are others when its forward "
                     "is computed anew: use UnitContext::Dropout or UnitContext::RandomBits"));
  }
  if (!absl::IsInternal(status)) return status;
  std::vector<int> read = compute_.flow_.reads(unit);
  if (compute_.flow_.reads_before(unit)) read.push_back(unit - 1);
  std::string message(status.message());
  for (const int other : read) {
    if (like[other] == other) continue;
    absl::StrAppend(&message, "; unit ", name(other), " was taken to compute as unit ",
                    name(like[other]),
                    ", of the same kind(): units that differ by more than the "
                    "shapes of parameters and inputs must be of different kinds");
  }
  return absl::Status(status.code(), message);
}

DryRunner::OutputShape DryRunner::OutputShape::Of(const torch::Tensor& output) {
  return {output.sizes().vec(), output.strides().vec(), output.options().requires_grad(false),
          output.nbytes()};
}

torch::Tensor DryRunner::OutputShape::Zeros() const {
  return torch::empty_strided(sizes, strides, options).zero_();
}

absl::StatusOr<DryRun> DryRunner::Measure() {
  const ComputeScope scope(compute_.place_);
  TorchMemory& memory = *compute_.place_.memory;
  RETURN_IF_ERROR(compute_.Begin(1, 1.0));
  compute_.dry_run_ = true;
  RETURN_IF_ERROR(compute_.batches_.LoadLargest());
  // One micro-batch passes through all units; each micro-batch of a step leaves checkpoints.
  const uint64_t micro_batches = compute_.options_.accumulate;
  MicroBatch& micro = compute_.batches_.all()[0];
  const std::vector<StateBuffer> buffers = compute_.Buffers();  // to be restored afterwards
  DryRun found;
  std::map<std::string, UnitNeeds> kinds;   // by signature
  uint64_t checkpoints = 0, in_flight = 0;  // of the last unit
  uint64_t largest_op = 0;
  // Runs each kind `once`, or as often as its time requires.
  const auto walk = [&](bool once) -> absl::Status {
    found = {};
    checkpoints = 0;
    std::vector<int> like;  // [unit] the unit measured in its place
    micro.Give(0, compute_.flow_, micro.batch.inputs);
    for (int unit = 0; unit < compute_.num_units(); ++unit) {
      const bool last = unit == compute_.num_units() - 1;
      const torch::Tensor input = micro.inputs[unit];
      // A field of the batch is not moved.
      const bool moves = compute_.flow_.reads_before(unit) && !last;
      found.memory.input_bytes.push_back(moves ? micro_batches * ((input.nbytes() + 63) / 64 * 64)
                                               : 0);
      if (unit > 0) checkpoints += in_flight = input.nbytes();
      std::vector<torch::Tensor> read = micro.values.Outputs(compute_.flow_.reads(unit));
      read.push_back(input);
      const std::string signature = Signature(last ? "loss" : compute_.model_.units[unit]->kind(),
                                              compute_.description_, unit, read);
      const auto [kind, is_new] = kinds.try_emplace(signature);
      UnitNeeds& needs = kind->second;
      const bool measures = once ? is_new : !needs.enough;
      if (is_new) needs.unit = unit;
      like.push_back(measures ? unit : needs.unit);
      if (measures) {
        RETURN_IF_ERROR(MeasureChecked(unit, once, like, needs));
        largest_op = std::max(largest_op, needs.peak_bytes);
      }
      if (!last) {
        if (is_new) needs.shape = OutputShape::Of(needs.output);
        const torch::Tensor output =
            measures ? std::exchange(needs.output, torch::Tensor()) : needs.shape.Zeros();
        if (compute_.flow_.kept(unit)) micro.values.Keep(unit, output);
        micro.Give(unit + 1, compute_.flow_, output);
        micro.inputs[unit] = torch::Tensor();
      }
      found.forward_seconds.push_back(needs.forward.Typical() * micro_batches);
      const double backward = needs.backward.Typical();
      found.backward_seconds.push_back(backward * micro_batches);
      found.graphs.bytes.push_back(needs.graph_bytes * micro_batches);
      found.graphs.seconds_saved.push_back(
          last ? 0 : std::max(0.0, backward - needs.graph_backward.Typical()) * micro_batches);
    }
    return absl::OkStatus();
  };
  try {
    RETURN_IF_ERROR(walk(/*once=*/true));
    // A run that does not fit is refused, so its times are not needed.
    if (!too_large_) RETURN_IF_ERROR(walk(/*once=*/false));
  } catch (const c10::Error& error) {
    return absl::InternalError(
        absl::StrCat("the dry run before step 1: ", error.what_without_backtrace()));
  }
  // Between backwards every micro-batch also has a gradient, as large as a checkpoint at most.
  uint64_t largest_input = 0;
  for (const auto& [signature, needs] : kinds) {
    largest_input = std::max(largest_input, needs.shape.bytes);
  }
  found.memory.loss_chunks = compute_.LossChunks(micro);
  compute_.loss_rows_ = std::min(compute_.LossChunkRows(), micro.batch.labels.numel());
  uint64_t text_bytes = 0;
  for (const TextBatches* texts :
       std::initializer_list<const TextBatches*>{compute_.texts_, compute_.samples_}) {
    if (texts == nullptr) continue;
    largest_op = std::max(largest_op, TextLogitsBytes(*texts));
    // If a pass cannot take all beams of a text, the logits of earlier passes stay allocated.
    if (texts->together() > 1) text_bytes = TextLogitsBytes(*texts);
  }
  uint64_t data_bytes = micro.batch.inputs.nbytes() + micro.batch.labels.nbytes();
  for (const auto& [name, field] : micro.batch.fields) data_bytes += field.nbytes();
  if (LookedUp(compute_.model_, compute_.description_) >= 0) {
    micro.Give(0, compute_.flow_, micro.batch.inputs);
    found.rows_looked_up = micro.inputs[0].numel() * compute_.options_.accumulate;
    data_bytes *= 2;  // of this step and the next
  }
  data_bytes += micro.values.bytes() + compute_.buffers_.bytes();  // copies, until the backward
  RETURN_IF_ERROR(compute_.SetBuffers(buffers));
  compute_.step_bytes_ =
      micro_batches * (data_bytes + in_flight + largest_input) + compute_.buffers_.bytes();
  compute_.evaluation_bytes_ = std::max<uint64_t>(1, data_bytes + largest_input);
  compute_.batches_.Clear();
  compute_.dry_run_ = false;
  kinds.clear();
  const uint64_t largest_sum = checkpoints + largest_op;  // of one micro-batch, as computed here
  found.graphs.reuse_bytes = memory.held_bytes() - std::min(memory.held_bytes(), largest_sum);
  RETURN_IF_ERROR(Settle(compute_.place_));
  memory.Trim();
  found.memory.working_bytes =
      compute_.step_bytes_ + largest_op + text_bytes + memory.overhead_bytes();
  memory.ResetPeak();
  found.memory.in_flight_bytes = micro_batches * in_flight;
  return found;
}

absl::StatusOr<DryRun> ModelCompute::MeasureNeeds() {
  return DryRunner(this, &MonotonicSeconds).Measure();
}

}  // namespace spillway
