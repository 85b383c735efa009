#include "engine/estimate/model_costs.h"

#include <algorithm>

#include "engine/numeric/product_blocks.h"

namespace spillway {
namespace {

// Of the matrices that one token passes in one layer.
double LayerMatrices(const ModelShape& shape) {
  double count = 0;
  for (const ParameterDescription& parameter : shape.model.units[1].parameters) {
    if (parameter.shape.size() == 2) count += static_cast<double>(parameter.elements);
    if (parameter.shape.size() == 3) {
      count += static_cast<double>(parameter.elements) / shape.experts * shape.experts_used;
    }
  }
  return count;
}

// Rows of logits that a micro-batch's loss has, at most. REQUIRES: shape.has_logits().
uint64_t MostLossRows(const ModelShape& shape, const StepShape& step) {
  return shape.masked ? MostMasked(step.tokens(), step.mask_probability) : step.tokens();
}

uint64_t LargestPacked(const ModelDescription& model) {
  uint64_t largest = 0;
  for (const UnitDescription& unit : model.units) {
    for (const ParameterDescription& parameter : unit.parameters) {
      if (parameter.packing.any()) largest = std::max(largest, parameter.elements);
    }
  }
  return largest;
}

}  // namespace

ComputeMemory ComputeMemoryOf(const ModelShape& shape, const ModelDescription& trained, DType dtype,
                              const StepShape& step, Products products) {
  const uint64_t bytes = DTypeBytes(dtype);
  const auto blocks = [&](int64_t m, int64_t n, int64_t k) {
    return products.in_fp32 && bytes < sizeof(float) ? ProductBlocks(m, n, k).bytes() : 0;
  };
  // Of a layer's product, or of one of its gradients, also both operands in 8 bits, and what of one
  // is rounded at once.
  const auto layer_blocks = [&](int64_t m, int64_t n, int64_t k) {
    if (!products.layers_in_fp8) return blocks(m, n, k);
    const auto [least, most] = std::minmax({m * k, k * n, m * n});
    const uint64_t rounded = 2 * sizeof(float) * std::min<int64_t>(1 << 20, most);
    const uint64_t multiplied =
        std::max({ProductBlocks(m, n, k).bytes(), ProductBlocks(m, k, n).bytes(),
                  ProductBlocks(n, k, m).bytes()});
    return m * k + k * n + m * n - least + std::max(rounded, multiplied);
  };
  const uint64_t tokens = step.tokens();
  const uint64_t hidden = tokens * shape.hidden * bytes;  // one vector a token
  const uint64_t data = tokens * 2 * sizeof(int64_t);
  const uint64_t units = shape.model.units.size();
  const uint64_t every = data + 2 * hidden;  // inputs in flight, and their gradient

  const uint64_t attended = (shape.heads + 2 * shape.key_value_heads) * shape.head_size;
  const uint64_t inner = tokens * shape.intermediate * shape.experts_used;
  const uint64_t layer = 9 * hidden + tokens * attended * bytes +
                         (shape.gated_mlp ? 4 : 3) * inner * bytes +
                         trained.TrainedElements(1) * bytes +
                         std::max(layer_blocks(tokens, shape.intermediate, shape.hidden),
                                  layer_blocks(tokens, attended, shape.hidden));
  // Of a packed matrix what is unpacked at once.
  const uint64_t unpacked =
      bytes * std::min<uint64_t>(PackedShape::kMostUnpacked, LargestPacked(trained));
  // The gradient of the tokens' matrix has rows where tokens occur.
  const uint64_t all = trained.TrainedElements(0);
  const uint64_t matrix = shape.vocabulary * shape.hidden;
  const uint64_t embedding = (all - std::min(all, matrix)) * bytes + 4 * hidden;
  uint64_t head = trained.TrainedElements(static_cast<int>(units) - 1) * bytes + 3 * hidden;
  if (shape.has_logits()) {
    const uint64_t rows =
        std::min<uint64_t>(LossChunkRows(shape.vocabulary), MostLossRows(shape, step));
    const uint64_t logits = rows * shape.vocabulary;
    // With tied weights the gradient of the matrix is none of the head's own parameters.
    if (shape.tied && all >= matrix) head += matrix * bytes;
    head += logits * bytes + blocks(rows, shape.vocabulary, shape.hidden);
  }
  ComputeMemory memory;
  memory.working_bytes = step.accumulate * every + std::max({layer + unpacked, embedding, head});
  memory.input_bytes.assign(units, step.accumulate * hidden);
  memory.input_bytes.front() = memory.input_bytes.back() = 0;
  memory.in_flight_bytes = step.accumulate * hidden;
  if (shape.has_logits()) {
    const int64_t rows = std::min<int64_t>(LossChunkRows(shape.vocabulary), tokens);
    memory.loss_chunks = (step.tokens() + rows - 1) / rows;
  }
  return memory;
}

DryRunCost DryRunCostOf(const ModelShape& shape, const ModelDescription& trained, DType dtype,
                        const StepShape& step, Products products) {
  uint64_t largest = 0;
  for (const UnitDescription& unit : shape.model.units) {
    largest = std::max(largest, unit.flat_parameters);
  }
  StepShape one = step;
  one.accumulate = 1;
  const StepFlops flops = FlopsOf(shape, one);
  // One layer with its backward, and the head.
  const double operations = 4 * flops.forward / shape.layers + (flops.backward - 3 * flops.forward);
  double logits = 0;
  if (shape.has_logits()) {
    logits = static_cast<double>(MostLossRows(shape, step)) * static_cast<double>(shape.vocabulary);
  }
  return {2 * largest * (DTypeBytes(dtype) + sizeof(float)) +
              ComputeMemoryOf(shape, trained, dtype, step, products).total_bytes(),
          operations / kGuessedFlops + logits / kGuessedLogits};
}

GraphCosts GraphCostsOf(const ModelShape& shape, DType dtype, const StepShape& step,
                        double flops_per_second) {
  const uint64_t bytes = DTypeBytes(dtype);
  const uint64_t tokens = step.tokens() * step.accumulate;
  const uint64_t attention =
      tokens * (shape.heads + 2 * shape.key_value_heads) * shape.head_size * bytes;
  const uint64_t inner = tokens * shape.intermediate * shape.experts_used * bytes;
  const uint64_t layer =
      5 * tokens * shape.hidden * bytes + attention + (shape.gated_mlp ? 3 : 2) * inner;
  const size_t units = shape.model.units.size();
  GraphCosts costs;
  costs.bytes.assign(units, layer);
  costs.seconds_saved.assign(units, FlopsOf(shape, step).forward / shape.layers / flops_per_second);
  costs.bytes.front() = costs.bytes.back() = 0;
  costs.seconds_saved.front() = costs.seconds_saved.back() = 0;
  return costs;
}

StepFlops FlopsOf(const ModelShape& shape, const StepShape& step) {
  const double tokens = static_cast<double>(step.tokens()) * step.accumulate;
  // Of the keys a causal query sees half, on average.
  const double keys = static_cast<double>(step.seq_len) * (shape.causal ? 0.5 : 1);
  const double attention = 2 * 2 * keys * shape.heads * shape.head_size;
  StepFlops flops;
  flops.forward = shape.layers * tokens * (2 * LayerMatrices(shape) + attention);
  flops.backward = 3 * flops.forward;
  if (shape.has_logits()) {
    const double rows = shape.masked ? step.mask_probability * tokens : tokens;
    flops.backward += 3 * rows * 2 * static_cast<double>(shape.vocabulary) * shape.hidden;
  }
  return flops;
}

}  // namespace spillway
