// The dry run: how much device memory computing takes, before step 1.
#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "engine/torch/device_memory.h"
#include "engine/torch/model_compute.h"
#include "io/status.h"

namespace spillway {
namespace {

struct FreeDeleter {
  void operator()(char* data) const { std::free(data); }
};
using Scratch = std::unique_ptr<char, FreeDeleter>;

// Zeroed memory that LibTorch's allocator does not count.
Scratch MakeScratch(uint64_t bytes) {
  return Scratch(static_cast<char*>(std::calloc(std::max<uint64_t>(bytes, 64), 1)));
}

std::string Signature(const UnitDescription& unit, const torch::Tensor& input) {
  std::string text = absl::StrCat(c10::toString(input.scalar_type()));
  for (int64_t size : input.sizes()) absl::StrAppend(&text, ",", size);
  for (const ParameterDescription& parameter : unit.parameters) {
    absl::StrAppend(&text, ";");
    for (int64_t size : parameter.shape) absl::StrAppend(&text, size, ",");
  }
  return text;
}

}  // namespace

absl::StatusOr<uint64_t> ModelCompute::MeasurePeakBytes() {
  RETURN_IF_ERROR(BeginTrain(1, 1.0));
  const size_t micro_batches = micro_batches_.size();
  // One micro-batch walks through the units; all of them leave checkpoints.
  micro_batches_.resize(1);
  MicroBatch& micro = micro_batches_[0];

  std::map<std::string, torch::Tensor> kinds;  // by signature: the unit's output
  uint64_t checkpoints = 0;
  uint64_t largest_op = 0;
  try {
    for (int unit = 0; unit < num_units(); ++unit) {
      const bool last = unit == num_units() - 1;
      const torch::Tensor input = micro.inputs[unit];
      if (unit > 0) checkpoints += input.nbytes();
      const std::string signature =
          absl::StrCat(last ? "loss;" : "", Signature(description_.units[unit], input));
      auto kind = kinds.find(signature);
      if (kind == kinds.end()) {
        // The op on zeros, with sums that go nowhere.
        StepOp op;
        op.unit = unit;
        op.weights = description_.units[unit].borrows;
        op.weights.push_back(unit);
        op.gradients = op.weights;
        OpBuffers buffers;
        buffers.op = &op;
        std::vector<Scratch> scratch;
        for (int u : op.weights) {
          const uint64_t n = description_.units[u].flat_parameters + kParameterAlignment;
          scratch.push_back(MakeScratch(n * DTypeBytes(options_.dtype)));
          buffers.weights.push_back(scratch.back().get());
          scratch.push_back(MakeScratch(n * sizeof(float)));
          buffers.gradients.push_back(reinterpret_cast<float*>(scratch.back().get()));
          buffers.fresh.push_back(true);
        }
        const uint64_t before = DeviceMemory::live_bytes();
        DeviceMemory::ResetPeak();
        op.kind = last ? OpKind::kLoss : OpKind::kForward;
        RETURN_IF_ERROR(Run(buffers));
        torch::Tensor output;
        if (!last) {
          output = micro.inputs[unit + 1];
          micro.gradient = torch::zeros_like(output);
          op.kind = OpKind::kBackward;
          RETURN_IF_ERROR(Run(buffers));
          micro.gradient = torch::Tensor();
        }
        largest_op = std::max(largest_op, DeviceMemory::peak_live_bytes() - before);
        kind = kinds.emplace(signature, output).first;
      }
      micro.gradient = torch::Tensor();
      if (!last) micro.inputs[unit + 1] = kind->second;
    }
  } catch (const c10::Error& error) {
    return absl::InternalError(
        absl::StrCat("the dry run before step 1: ", error.what_without_backtrace()));
  }
  // Every micro-batch also carries a gradient between backwards, at most a checkpoint's size.
  uint64_t largest_input = 0;
  for (const auto& [signature, output] : kinds) {
    if (output.defined()) largest_input = std::max<uint64_t>(largest_input, output.nbytes());
  }
  const uint64_t data_bytes = micro.batch.inputs.nbytes() + micro.batch.labels.nbytes();
  const uint64_t training_bytes = micro_batches * (data_bytes + checkpoints + largest_input);
  // In evaluation a micro-batch keeps its data and one unit's input.
  evaluation_samples_at_once_ =
      options_.micro_batch *
      static_cast<int64_t>(training_bytes / std::max<uint64_t>(1, data_bytes + largest_input));
  micro_batches_.clear();
  kinds.clear();
  DeviceMemory::Trim();
  DeviceMemory::ResetPeak();
  return training_bytes + largest_op;
}

}  // namespace spillway
