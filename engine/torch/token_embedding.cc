#include "engine/torch/token_embedding.h"

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <ATen/ops/_sparse_coo_tensor_unsafe.h>
#include <torch/autograd.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "engine/torch/ordered_sums.h"

namespace spillway {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Occurrences of tokens: `order` lists positions token by token, each token's in ascending order;
// token i has order[starts[i]] up to order[starts[i + 1]].
struct Occurrences {
  explicit Occurrences(const std::vector<int64_t>& ids) : order(ids.size()) {
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](int64_t a, int64_t b) { return ids[a] < ids[b]; });
    for (size_t i = 0; i < order.size(); ++i) {
      if (i == 0 || ids[order[i]] != ids[order[i - 1]]) starts.push_back(i);
    }
    starts.push_back(order.size());
  }
  int64_t tokens() const { return static_cast<int64_t>(starts.size()) - 1; }

  std::vector<int64_t> order;
  std::vector<size_t> starts;
};

// Row i of `out` becomes the sum of the i-th token's rows.
template <typename T>
void SumRows(const T* gradient, int64_t width, const Occurrences& occurrences, T* out) {
  at::parallel_for(0, occurrences.tokens(), 1, [&](int64_t begin, int64_t end) {
    std::vector<float> sum(width);
    for (int64_t token = begin; token < end; ++token) {
      std::fill(sum.begin(), sum.end(), 0.0f);
      const size_t first = occurrences.starts[token], last = occurrences.starts[token + 1];
      for (size_t i = first; i < last; ++i) {
        const T* row = gradient + occurrences.order[i] * width;
        for (int64_t j = 0; j < width; ++j) sum[j] += static_cast<float>(row[j]);
      }
      T* to = out + token * width;
      for (int64_t j = 0; j < width; ++j) to[j] = static_cast<T>(sum[j]);
    }
  });
}

// gradient [n, D] -> [rows, D]; on the CPU sparse, with a row for every token that occurs.
Tensor TokenGradient(const Tensor& gradient, const Tensor& ids, int64_t rows) {
  if (!gradient.device().is_cpu()) return SumRowsByToken(gradient, ids, rows);
  const Tensor flat = ids.contiguous();
  const std::vector<int64_t> list(flat.const_data_ptr<int64_t>(),
                                  flat.const_data_ptr<int64_t>() + flat.numel());
  const Occurrences occurrences(list);
  const Tensor tokens = torch::empty({1, occurrences.tokens()}, torch::kInt64);
  for (int64_t i = 0; i < occurrences.tokens(); ++i) {
    tokens.mutable_data_ptr<int64_t>()[i] = list[occurrences.order[occurrences.starts[i]]];
  }
  const Tensor sums = torch::empty({occurrences.tokens(), gradient.size(1)}, gradient.options());
  AT_DISPATCH_FLOATING_TYPES_AND2(torch::kBFloat16, torch::kFloat16, gradient.scalar_type(),
                                  "TokenGradient", [&] {
                                    SumRows(gradient.const_data_ptr<scalar_t>(), gradient.size(1),
                                            occurrences, sums.mutable_data_ptr<scalar_t>());
                                  });
  return at::_sparse_coo_tensor_unsafe(tokens, sums, {rows, gradient.size(1)},
                                       gradient.options().layout(torch::kSparse),
                                       /*is_coalesced=*/true);
}

class Embedding : public torch::autograd::Function<Embedding> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& ids, const Tensor& tokens,
                        const std::optional<Tensor>& positions,
                        const std::optional<int64_t>& padding) {
    context->save_for_backward({ids});
    context->saved_data["tokens"] = tokens.size(0);
    context->saved_data["positions"] = positions ? positions->size(0) : 0;
    context->saved_data["padding"] = padding.value_or(-1);
    Tensor out = torch::embedding(tokens, ids);
    return positions ? out.add_(positions->narrow(0, 0, ids.size(1))) : out;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const Tensor ids = context->get_saved_variables()[0];
    const Tensor gradient = gradients[0].contiguous();
    Tensor tokens, positions;
    if (context->needs_input_grad(1)) {
      const int64_t padding = context->saved_data["padding"].toInt();
      const Tensor used =
          padding < 0 ? gradient : gradient.masked_fill(ids.eq(padding).unsqueeze(-1), 0);
      tokens = TokenGradient(used.flatten(0, 1), ids, context->saved_data["tokens"].toInt());
    }
    if (context->saved_data["positions"].toInt() > 0 && context->needs_input_grad(2)) {
      positions = torch::zeros({context->saved_data["positions"].toInt(), gradient.size(2)},
                               gradient.options());
      positions.narrow(0, 0, ids.size(1)).copy_(gradient.sum(0, false, torch::kFloat32));
    }
    return {Tensor(), tokens, positions, Tensor()};
  }
};

}  // namespace

Tensor TokenEmbedding(const Tensor& ids, const Tensor& tokens,
                      const std::optional<Tensor>& positions, std::optional<int64_t> padding) {
  TORCH_CHECK(ids.dim() == 2, "TokenEmbedding: ids are ", ids.sizes(), ", not [samples, T]");
  TORCH_CHECK(!positions || ids.size(1) <= positions->size(0), "a sequence of ", ids.size(1),
              " tokens is longer than the model's ", positions->size(0), " positions");
  return Embedding::apply(ids.to(torch::kInt64), tokens, positions, padding);
}

}  // namespace spillway
