#include "engine/torch/cross_entropy.h"

#include <ATen/Parallel.h>
#include <torch/autograd.h>

#include <algorithm>
#include <optional>

#include "engine/torch/model.h"
#include "engine/torch/ordered_sums.h"
#include "engine/torch/product.h"

namespace spillway {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Number of logits whose fp32 intermediates stay in a core's second-level cache.
constexpr int64_t kLogitBlockElements = int64_t{1} << 17;

// Calls f(first, count) for blocks of rows, each on one thread: results do not depend on the
// blocks. A device other than the CPU gets all rows at once.
template <typename F>
void ForRowBlocks(const Tensor& logits, F f) {
  const int64_t rows = logits.size(0);
  if (!logits.device().is_cpu()) return f(0, rows);
  const int64_t block = std::max<int64_t>(1, kLogitBlockElements / logits.size(1));
  at::parallel_for(0, (rows + block - 1) / block, 1, [&](int64_t begin, int64_t end) {
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    for (int64_t i = begin; i < end; ++i) f(i * block, std::min(block, rows - i * block));
  });
}

Tensor Product(const Tensor& a, const Tensor& b, bool in_fp32, const Tensor& bias = {}) {
  if (in_fp32) return ProductInFp32(a, b, bias);
  return bias.defined() ? torch::addmm(bias, a, b) : torch::mm(a, b);
}

class CrossEntropy : public torch::autograd::Function<CrossEntropy> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& hidden, const Tensor& weight,
                        const Tensor& labels, bool fp32_products, double smoothing,
                        const std::optional<Tensor>& bias) {
    const Tensor logits = Product(hidden, weight.t(), fp32_products, bias.value_or(Tensor()));
    const Tensor log_sums = torch::empty({logits.size(0)}, logits.options().dtype(torch::kFloat32));
    const Tensor means = smoothing > 0 ? torch::empty_like(log_sums) : Tensor();
    ForRowBlocks(logits, [&](int64_t first, int64_t count) {
      const Tensor block = logits.narrow(0, first, count).to(torch::kFloat32);
      log_sums.narrow(0, first, count).copy_(torch::logsumexp(block, 1));
      if (means.defined()) means.narrow(0, first, count).copy_(block.mean(1));
    });
    const Tensor valid = labels.ne(kIgnoredLabel);
    const Tensor ignored = valid.logical_not();
    // An ignored label is replaced by class 0 with weight 0. gather checks the others. (where would
    // copy its scalar to a GPU, and wait for that.)
    const Tensor classes = labels.masked_fill(ignored, 0).unsqueeze(1);
    Tensor picked = logits.gather(1, classes).squeeze(1).to(torch::kFloat64);
    if (means.defined()) {
      picked.mul_(1 - smoothing).add_(means.to(torch::kFloat64), /*alpha=*/smoothing);
    }
    const Tensor losses = log_sums.to(torch::kFloat64) - picked;

    context->save_for_backward({hidden, weight});
    context->saved_data["logits"] = logits;
    context->saved_data["log_sums"] = log_sums;
    context->saved_data["classes"] = classes;
    context->saved_data["valid"] = valid;
    context->saved_data["fp32_products"] = fp32_products;
    context->saved_data["has_bias"] = bias.has_value();
    context->saved_data["smoothing"] = smoothing;
    return losses.masked_fill(ignored, 0.0).sum().to(torch::kFloat32);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const Tensor& hidden = saved[0];
    const Tensor& weight = saved[1];
    TORCH_CHECK(!context->saved_data["logits"].isNone(), "CrossEntropySum: a second backward");
    Tensor logits = context->saved_data["logits"].toTensor();
    context->saved_data["logits"] = c10::IValue();
    const Tensor log_sums = context->saved_data["log_sums"].toTensor();
    const Tensor classes = context->saved_data["classes"].toTensor();
    const Tensor factors =
        context->saved_data["valid"].toTensor().to(torch::kFloat32).mul_(gradients[0]);

    const double smoothing = context->saved_data["smoothing"].toDouble();
    const double label = 1 - smoothing;  // part that no other class shares
    const double shared = smoothing / static_cast<double>(logits.size(1));
    ForRowBlocks(logits, [&](int64_t first, int64_t count) {
      const Tensor block = logits.narrow(0, first, count);
      const Tensor index = classes.narrow(0, first, count);
      Tensor values = torch::sub(block, log_sums.narrow(0, first, count).unsqueeze(1)).exp_();
      if (values.device().is_cpu()) {
        values.scatter_add_(1, index, torch::full(index.sizes(), -label, values.options()));
      } else {
        SubtractPerRow(values, index, label);
      }
      if (shared > 0) values.sub_(shared);
      values.mul_(factors.narrow(0, first, count).unsqueeze(1));
      block.copy_(values);
    });
    Tensor hidden_gradient, weight_gradient, bias_gradient;
    const bool in_fp32 = context->saved_data["fp32_products"].toBool();
    if (context->needs_input_grad(0)) hidden_gradient = Product(logits, weight, in_fp32);
    if (context->needs_input_grad(1)) weight_gradient = Product(logits.t(), hidden, in_fp32);
    if (context->saved_data["has_bias"].toBool()) bias_gradient = logits.sum(0);
    return {hidden_gradient, weight_gradient, Tensor(), Tensor(), Tensor(), bias_gradient};
  }
};

}  // namespace

Tensor CrossEntropySum(const Tensor& hidden, const Tensor& weight, const Tensor& labels,
                       bool fp32_products, double smoothing, const Tensor& bias) {
  // LibTorch's functions take an undefined tensor as absent only in an empty optional.
  const std::optional<Tensor> added = bias.defined() ? std::optional(bias) : std::nullopt;
  return CrossEntropy::apply(hidden, weight, labels, fp32_products, smoothing, added);
}

}  // namespace spillway
