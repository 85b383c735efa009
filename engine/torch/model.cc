#include "engine/torch/model.h"

#include <torch/autograd.h>
#include <torch/types.h>

#include <vector>

#include "engine/numeric/random.h"
#include "engine/torch/float8_product.h"
#include "engine/torch/packed_product.h"
#include "engine/torch/product.h"
#include "engine/torch/tensor_kernels.h"

namespace spillway {
namespace {

// Masks depend on their key only, so that backward recomputes them. Used for activations (forward)
// and gradients (backward).
torch::Tensor ApplyMasks(const torch::Tensor& x, double p, const DropoutKey& key,
                         const std::vector<int64_t>& samples) {
  const torch::Tensor in = x.contiguous();
  torch::Tensor out = torch::empty_like(in);
  if (in.numel() > 0) KernelsOf(in.device()).Dropout(key, p, samples, in, out);
  return out;
}

class DropoutFunction : public torch::autograd::Function<DropoutFunction> {
 public:
  static torch::Tensor forward(torch::autograd::AutogradContext* context, const torch::Tensor& x,
                               double p, const DropoutKey& key,
                               const std::vector<int64_t>& samples) {
    context->saved_data["p"] = p;
    context->saved_data["seed"] = static_cast<int64_t>(key.seed);
    context->saved_data["step"] = static_cast<int64_t>(key.step);
    context->saved_data["unit"] = static_cast<int64_t>(key.unit);
    context->saved_data["site"] = static_cast<int64_t>(key.site);
    context->saved_data["samples"] = samples;
    return ApplyMasks(x, p, key, samples);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const auto integer = [&](const char* name) { return context->saved_data[name].toInt(); };
    DropoutKey key;
    key.seed = static_cast<uint64_t>(integer("seed"));
    key.step = static_cast<uint64_t>(integer("step"));
    key.unit = static_cast<uint32_t>(integer("unit"));
    key.site = static_cast<uint32_t>(integer("site"));
    const torch::Tensor gradient = ApplyMasks(gradients[0], context->saved_data["p"].toDouble(),
                                              key, context->saved_data["samples"].toIntVector());
    return {gradient, torch::Tensor(), torch::Tensor(), torch::Tensor()};
  }
};

}  // namespace

const torch::Tensor& Batch::field(const std::string& name) const {
  const auto found = fields.find(name);
  TORCH_CHECK(found != fields.end(), "the batch has no field \"", name,
              "\": the dataset must give it (Batch::fields)");
  return found->second;
}

const torch::Tensor& UnitContext::field(const std::string& name) const {
  static const Batch& none = *new Batch;
  return (batch_ == nullptr ? none : *batch_).field(name);
}

void UnitContext::AddLoss(const torch::Tensor& loss) const {
  TORCH_CHECK(loss.numel() == 1 && loss.scalar_type() == torch::kFloat32,
              "a loss that a unit adds must be one fp32 number, and is ", loss.scalar_type(), " ",
              loss.sizes());
  if (losses_ != nullptr) losses_->push_back(loss);
}

const std::vector<int64_t>& UnitContext::texts() const {
  static const std::vector<int64_t>& none = *new std::vector<int64_t>;
  return batch_ == nullptr ? none : batch_->texts;
}

UnitContext UnitContext::ForSample(int64_t row) const {
  UnitContext one = *this;
  one.samples_ = {samples_.at(static_cast<size_t>(row))};
  return one;
}

torch::Tensor UnitContext::Dropout(const torch::Tensor& x, double p, int site) const {
  TORCH_CHECK(p >= 0 && p < 1, "Dropout: probability ", p, " is not at least 0 and less than 1");
  if (!training_ || p == 0) return x;
  TORCH_CHECK(x.dim() > 0 && x.size(0) == static_cast<int64_t>(samples_.size()), "Dropout: x is ",
              x.sizes(), ", but its first dimension must be the ", samples_.size(),
              " samples of the micro-batch");
  DropoutKey key;
  key.seed = seed_;
  key.step = static_cast<uint64_t>(step_);
  key.unit = static_cast<uint32_t>(unit_);
  key.site = static_cast<uint32_t>(site);
  return DropoutFunction::apply(x, p, key, samples_);
}

uint64_t UnitContext::RandomBits(int64_t row, int site, uint64_t index) const {
  const auto sample = static_cast<uint64_t>(samples_.at(static_cast<size_t>(row)));
  const uint64_t where = static_cast<uint64_t>(unit_) << 32 | static_cast<uint32_t>(site);
  const uint64_t seed = spillway::RandomBits(seed_, static_cast<uint64_t>(step_), sample);
  return spillway::RandomBits(seed, where, index);
}

torch::Tensor UnitContext::Convolve(const torch::Tensor& x, const torch::Tensor& weight,
                                    int64_t stride, int64_t padding) const {
  // Processors without 16-bit products are many times slower with them: --compute.
  const auto product = products_.in_fp32 ? torch::kFloat32 : weight.scalar_type();
  const auto convolve = [&](const torch::Tensor& in, const torch::Tensor& kernels, int64_t by,
                            int64_t around) {
    return torch::conv2d(in.to(product), kernels.to(product), /*bias=*/{}, by, around)
        .to(weight.scalar_type());
  };
  torch::Tensor y = convolve(x, weight, stride, padding);
  for (const LinearAdapter& adapter : adapters_) {
    if (adapter.weight.data_ptr() != weight.data_ptr()) continue;
    const torch::Tensor in = Dropout(x, adapter.dropout, adapter.site);
    const torch::Tensor low = convolve(in, adapter.a, stride, padding);
    return torch::add(y, convolve(low, adapter.b, 1, 0), adapter.scale);
  }
  return y;
}

torch::Tensor UnitContext::Linear(const torch::Tensor& x, const torch::Tensor& weight,
                                  const torch::Tensor& bias) const {
  const auto packed_one = [&](const torch::Tensor& matrix) -> const PackedMatrix* {
    for (const PackedMatrix& packed : packed_) {
      if (packed.stand_in.data_ptr() == matrix.data_ptr()) return &packed;
    }
    return nullptr;
  };
  const auto product = [&](const torch::Tensor& in, const torch::Tensor& matrix,
                           const torch::Tensor& added) {
    std::vector<int64_t> sizes = in.sizes().vec();
    sizes.back() = matrix.size(0);
    const torch::Tensor rows = in.reshape({-1, matrix.size(1)});
    const PackedMatrix* const packed = packed_one(matrix);
    if (packed == nullptr) {
      // An adapter's two matrices are thin: 8 bits would save nothing.
      const bool in_float8 = products_.layers_in_fp8 && matrix.is_same(weight);
      const torch::Tensor y = in_float8 ? ProjectInFloat8(rows, matrix.t(), added)
                                        : Project(rows, matrix.t(), added, products_.in_fp32);
      return y.view(sizes);
    }
    TORCH_CHECK(matrix.size(0) == packed->shape.rows && matrix.size(1) == packed->shape.columns,
                "Linear: a part of a matrix that is kept packed");
    return ProjectPacked(rows, packed->bytes, packed->shape, added, products_.in_fp32).view(sizes);
  };
  TORCH_CHECK(weight.dim() == 2 && x.dim() > 0 && x.size(-1) == weight.size(1), "Linear: x is ",
              x.sizes(), ", weight ", weight.sizes(), ": x's last dimension must be weight's last");
  torch::Tensor y = product(x, weight, bias);
  for (const LinearAdapter& adapter : adapters_) {
    // Accepts the matrix itself or its transposed view.
    if (adapter.weight.data_ptr() != weight.data_ptr() || adapter.b.size(0) != weight.size(0) ||
        adapter.a.size(1) != weight.size(1)) {
      continue;
    }
    const torch::Tensor in = Dropout(x, adapter.dropout, adapter.site);
    y = torch::add(y, product(product(in, adapter.a, {}), adapter.b, {}), adapter.scale);
    break;
  }
  return y;
}

}  // namespace spillway
