#include "engine/torch/dry_run.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/estimate/timings.h"
#include "io/base/cache.h"
#include "io/base/clock.h"
#include "io/base/status.h"

namespace spillway {
namespace {

// Units that compute alike are of one kind, read alike, and have parameters alike.
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

// Weights, zero, and gradient sums of one op.
struct OpScratch {
  absl::Status Fill(const ModelDescription& model, int unit, DType dtype, const ComputePlace& place,
                    bool rounded_sums) {
    op.unit = unit;
    op.weights = model.units[unit].borrows;
    op.weights.push_back(unit);
    buffers.op = &op;
    for (int u : op.weights) {
      const uint64_t n = model.units[u].flat_parameters + kParameterAlignment;
      ASSIGN_OR_RETURN(PlaceMemory weights, PlaceMemory::Create(place, n * DTypeBytes(dtype)));
      // Written to: pages that were not would all be one, which stays in the cache.
      weights.Zero(place, n * DTypeBytes(dtype));
      buffers.weights.push_back(weights.data());
      memory.emplace_back(std::move(weights), n * DTypeBytes(dtype));
      if (model.units[u].frozen) continue;
      ASSIGN_OR_RETURN(PlaceMemory sums, PlaceMemory::Create(place, n * sizeof(float)));
      op.gradients.push_back(u);
      buffers.gradients.push_back(sums.data());
      buffers.fresh.push_back(true);
      buffers.rounded.push_back(rounded_sums);
      memory.emplace_back(std::move(sums), n * sizeof(float));
    }
    return absl::OkStatus();
  }

  // REQUIRES: of the host.
  void Evict() const {
    for (const auto& [data, bytes] : memory) EvictFromCaches(data.data(), bytes);
  }

  StepOp op;
  OpBuffers buffers;
  std::vector<std::pair<PlaceMemory, uint64_t>> memory;  // and its bytes
};

// When a kind of unit has run often enough to say what it takes. The first run also faults its
// memory in: what took no longer than kColdSeconds is run again. A process computes at half its
// speed for up to a second or two after its start, on some machines; so what takes its time is run
// again for as long as that makes it quicker.
class Repeats {
 public:
  // After a run of so many seconds.
  bool Enough(double seconds) {
    spent_ += seconds;
    ++count_;
    const bool quicker = count_ == 1 || seconds < kQuicker * least_;
    least_ = count_ == 1 ? seconds : std::min(least_, seconds);
    if (count_ == 1) return seconds > kColdSeconds;
    if (spent_ + seconds > kMostSeconds) return true;
    return !quicker && (count_ >= kFewRuns || spent_ > kFewSeconds);
  }

 private:
  static constexpr double kColdSeconds = 10;
  static constexpr double kMostSeconds = 4;
  static constexpr double kFewSeconds = 1;
  static constexpr int kFewRuns = 10;
  static constexpr double kQuicker = 0.97;

  double spent_ = 0;
  double least_ = 0;
  int count_ = 0;
};

}  // namespace

absl::Status DryRunner::MeasureUnit(int unit, UnitNeeds& needs) {
  const bool last = unit == compute_.num_units() - 1;
  ModelCompute::MicroBatch& micro = compute_.micro_batches_[0];
  const torch::Tensor input = micro.inputs[unit];
  TorchMemory& memory = *compute_.place_.memory;
  OpScratch scratch;
  // As a step adds them up (engine/estimate/run_plan.h), but that an operation's are of one kind.
  const int64_t terms = compute_.options_.accumulate * (last ? compute_.LossChunks(micro) : 1);
  const bool rounded = compute_.place_.where.is_cpu() && compute_.options_.ranks == 1 && terms <= 2;
  RETURN_IF_ERROR(
      scratch.Fill(compute_.description_, unit, compute_.options_.dtype, compute_.place_, rounded));
  const auto timed = [&](OpKind kind, Timings& timings) -> absl::Status {
    scratch.op.kind = kind;
    RETURN_IF_ERROR(Settle(compute_.place_));
    // In a step other operations have been there since: nothing of this one is in a cache.
    memory.Evict();
    if (compute_.place_.where.is_cpu()) scratch.Evict();
    const double began = clock_();
    RETURN_IF_ERROR(compute_.Run(scratch.buffers));
    RETURN_IF_ERROR(Settle(compute_.place_));
    timings.Add(clock_() - began);
    return absl::OkStatus();
  };
  // A forward and its backward; `held`: bytes that the forward leaves alive.
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
  Repeats repeats;
  for (bool enough = false; !enough;) {
    const double began = clock_();
    const uint64_t before = memory.live_bytes();
    memory.ResetPeak();
    if (last) {
      micro.inputs[unit] = input;
      RETURN_IF_ERROR(timed(OpKind::kLoss, needs.backward));
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
    enough = repeats.Enough(clock_() - began);
  }
  return absl::OkStatus();
}

absl::StatusOr<DryRun> DryRunner::Measure() {
  const ComputeScope scope(compute_.place_);
  TorchMemory& memory = *compute_.place_.memory;
  RETURN_IF_ERROR(compute_.BeginTrain(1, 1.0));
  const size_t micro_batches = compute_.micro_batches_.size();
  // One micro-batch walks through the units; all of them leave checkpoints.
  compute_.micro_batches_.resize(1);
  ModelCompute::MicroBatch& micro = compute_.micro_batches_[0];
  ASSIGN_OR_RETURN(std::optional<Batch> largest,
                   compute_.data_->Largest(compute_.options_.micro_batch));
  if (largest) compute_.Load(*std::move(largest), micro);

  const std::vector<StateBuffer> buffers = compute_.Buffers();  // as they are to be afterwards
  DryRun found;
  std::map<std::string, UnitNeeds> kinds;   // by signature
  uint64_t checkpoints = 0, in_flight = 0;  // of the last unit
  uint64_t largest_op = 0;
  try {
    for (int unit = 0; unit < compute_.num_units(); ++unit) {
      const bool last = unit == compute_.num_units() - 1;
      const torch::Tensor input = micro.inputs[unit];
      const bool moves = unit > 0 && !last;
      found.memory.input_bytes.push_back(moves ? micro_batches * ((input.nbytes() + 63) / 64 * 64)
                                               : 0);
      if (unit > 0) checkpoints += in_flight = input.nbytes();
      std::vector<torch::Tensor> read = micro.values.Outputs(compute_.flow_.reads(unit));
      read.push_back(input);
      const std::string signature = Signature(last ? "loss" : compute_.model_.units[unit]->kind(),
                                              compute_.description_, unit, read);
      const auto [kind, is_new] = kinds.try_emplace(signature);
      UnitNeeds& needs = kind->second;
      if (is_new) {
        RETURN_IF_ERROR(MeasureUnit(unit, needs));
        largest_op = std::max(largest_op, needs.peak_bytes);
      }
      if (!last) {
        if (compute_.flow_.kept(unit)) micro.values.Keep(unit, needs.output);
        compute_.GiveInput(unit + 1, needs.output, micro);
      }
      found.forward_seconds.push_back(needs.forward.Typical() * micro_batches);
      const double backward = needs.backward.Typical();
      found.backward_seconds.push_back(backward * micro_batches);
      found.graphs.bytes.push_back(needs.graph_bytes * micro_batches);
      found.graphs.seconds_saved.push_back(
          last ? 0 : std::max(0.0, backward - needs.graph_backward.Typical()) * micro_batches);
    }
  } catch (const c10::Error& error) {
    return absl::InternalError(
        absl::StrCat("the dry run before step 1: ", error.what_without_backtrace()));
  }
  // Every micro-batch also carries a gradient between backwards, at most a checkpoint's size.
  uint64_t largest_input = 0;
  for (const auto& [signature, needs] : kinds) {
    if (needs.output.defined()) {
      largest_input = std::max<uint64_t>(largest_input, needs.output.nbytes());
    }
  }
  found.memory.loss_chunks = compute_.LossChunks(micro);
  compute_.loss_rows_ = std::min(compute_.LossChunkRows(), micro.batch.labels.numel());
  uint64_t text_bytes = 0;
  if (compute_.texts_ != nullptr) {
    largest_op = std::max(largest_op, compute_.TextLogitsBytes());
    // Where one pass has no room for all beams of a text, the logits of some stay meanwhile.
    if (compute_.texts_->together() > 1) text_bytes = compute_.TextLogitsBytes();
  }
  uint64_t data_bytes =
      micro.batch.inputs.nbytes() + micro.batch.labels.nbytes() + micro.values.bytes();
  for (const auto& [name, field] : micro.batch.fields) data_bytes += field.nbytes();
  data_bytes += compute_.buffers_.bytes();  // copies, until the backward
  RETURN_IF_ERROR(compute_.SetBuffers(buffers));
  compute_.step_bytes_ =
      micro_batches * (data_bytes + in_flight + largest_input) + compute_.buffers_.bytes();
  compute_.evaluation_bytes_ = std::max<uint64_t>(1, data_bytes + largest_input);
  compute_.micro_batches_.clear();
  kinds.clear();
  const uint64_t largest_sum = checkpoints + largest_op;  // of one micro-batch, as run here
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
