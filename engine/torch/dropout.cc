// UnitContext::Dropout: masks that are a function of what they are for, so that
// backward makes them again instead of keeping them.
#include <ATen/Parallel.h>
#include <torch/torch.h>

#include <algorithm>
#include <vector>

#include "engine/model.h"
#include "engine/random.h"

namespace spillway {
namespace {

// What one thread takes at a time. DropoutApply cuts ranges as it likes: the size
// changes no bit.
constexpr int64_t kRange = 16384;

DType DTypeOf(const torch::Tensor& x) {
  switch (x.scalar_type()) {
    case torch::kFloat32:
      return DType::kFloat32;
    case torch::kBFloat16:
      return DType::kBFloat16;
    case torch::kFloat16:
      return DType::kFloat16;
    default:
      TORCH_CHECK(false, "Dropout: dtype ", x.scalar_type(), " is not fp32, bf16 or fp16");
  }
}

// The same on activations (forward) and on gradients (backward).
torch::Tensor ApplyMasks(const torch::Tensor& x, double p, DropoutKey key,
                         const std::vector<int64_t>& samples) {
  TORCH_CHECK(x.device().is_cpu(), "Dropout: only CPU tensors yet, got ", x.device());
  const torch::Tensor in = x.contiguous();
  torch::Tensor out = torch::empty_like(in);
  if (in.numel() == 0) return out;
  const DType dtype = DTypeOf(in);
  const int64_t per_sample = in.numel() / in.size(0);
  const int64_t ranges = (per_sample + kRange - 1) / kRange;
  const auto* from = static_cast<const char*>(in.const_data_ptr());
  auto* to = static_cast<char*>(out.mutable_data_ptr());
  at::parallel_for(0, in.size(0) * ranges, 1, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      const int64_t sample = i / ranges;
      const int64_t begin = i % ranges * kRange;
      const int64_t offset = (sample * per_sample + begin) * in.element_size();
      DropoutKey mask = key;
      mask.sample = static_cast<uint64_t>(samples[sample]);
      DropoutApply(mask, p, begin, std::min(kRange, per_sample - begin), dtype, from + offset,
                   to + offset);
    }
  });
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

}  // namespace spillway
