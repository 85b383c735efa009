#include "engine/layers/attention.h"

namespace spillway {
namespace {

using torch::Tensor;

// [.., key-value heads, size] -> [.., heads, size]: each is repeated for consecutive query heads.
Tensor ForEachQuery(const Tensor& x, int64_t heads) {
  const int64_t kept = x.size(2);
  if (kept == heads) return x;
  return x.unsqueeze(3).expand({-1, -1, -1, heads / kept, -1}).flatten(2, 3);
}

// LibTorch may choose its kernel by whether a gradient is needed. It is always requested, so that a
// forward without a graph has the same bits as one with a graph.
Tensor Wanted(const Tensor& x) {
  return torch::GradMode::is_enabled() ? x : x.detach().requires_grad_();
}

// Attention if every row is one text.
Tensor AttendInRows(const UnitContext& context, const AttentionHeads& heads,
                    const AttentionOptions& options) {
  const int64_t length = heads.keys.size(1);
  const Tensor keys = ForEachQuery(heads.keys, options.heads);
  const Tensor values = ForEachQuery(heads.values, options.heads);
  if (options.dropout > 0 || options.fp32_scores || options.fp32_products ||
      options.biases.defined()) {
    if (heads.fused.defined()) return AttendInBlocks(context, heads.fused, options);
    return AttendInBlocks(context, heads.queries, keys, values, options);
  }
  std::optional<Tensor> visible;
  if (options.visible.defined()) {
    visible = options.visible.view({heads.queries.size(0), 1, 1, length});
  } else if (options.window > 0 && options.window < length) {
    visible = torch::ones({length, length}, heads.queries.options().dtype(torch::kBool))
                  .tril_()
                  .triu_(1 - options.window);
  }
  const Tensor mixed = torch::scaled_dot_product_attention(
      Wanted(heads.queries.transpose(1, 2)), Wanted(keys.transpose(1, 2)),
      Wanted(values.transpose(1, 2)), visible, /*dropout_p=*/0,
      /*is_causal=*/options.causal && !visible.has_value(), options.scale);
  return mixed.transpose(1, 2).flatten(2);
}

// Attention within each text, as if it were alone in the batch, without a mask. All rows are split
// at once, so that backward concatenates the texts' gradients instead of adding them.
Tensor AttendInTexts(const UnitContext& context, const AttentionHeads& heads,
                     const AttentionOptions& options) {
  const std::vector<int64_t>& texts = context.texts();
  const int64_t samples = heads.queries.size(0), length = heads.queries.size(1);
  const auto cut = [&](const Tensor& x) {
    return x.defined() ? x.flatten(0, 1).split_with_sizes(texts, 0)
                       : std::vector<Tensor>(texts.size());
  };
  const std::vector<Tensor> queries = cut(heads.queries), keys = cut(heads.keys),
                            values = cut(heads.values), fused = cut(heads.fused);
  const auto row_of = [](const Tensor& x) { return x.defined() ? x.unsqueeze(0) : x; };
  std::vector<Tensor> mixed;
  AttentionOptions own = options;
  int64_t first = 0;
  for (size_t i = 0; i < texts.size(); ++i) {
    const int64_t within = first % length;
    TORCH_CHECK(texts[i] > 0 && within + texts[i] <= length, "text ", i, " of ", texts[i],
                " positions does not end in its row of ", length);
    // Each text has dropout sites of its own within its row.
    if (within == 0) own.first_site = options.first_site;
    mixed.push_back(AttendInRows(
        context.ForSample(first / length),
        {row_of(queries[i]), row_of(keys[i]), row_of(values[i]), row_of(fused[i])}, own));
    own.first_site += AttentionSites(texts[i], options.heads);
    first += texts[i];
  }
  return torch::cat(mixed, 1).view({samples, length, -1});
}

}  // namespace

Tensor Attend(const UnitContext& context, const AttentionHeads& heads,
              const AttentionOptions& options) {
  return context.texts().empty() ? AttendInRows(context, heads, options)
                                 : AttendInTexts(context, heads, options);
}

}  // namespace spillway
