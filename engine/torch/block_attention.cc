#include "engine/torch/block_attention.h"

#include <torch/autograd.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

namespace spillway {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr int64_t kBlockRows = 128;
// Size of one sample's probabilities in one block: with bf16, a few of these fit a core's
// second-level cache.
constexpr int64_t kBlockElements = int64_t{1} << 18;

// The partition of one sample's queries x keys x heads probabilities into blocks. It depends on
// their numbers alone, since masks must not depend on how samples are batched.
struct Blocks {
  Blocks(int64_t queries, int64_t keys, int64_t heads)
      : heads(heads),
        rows(std::min(queries, kBlockRows)),
        heads_at_once(std::clamp<int64_t>(kBlockElements / (rows * keys), 1, heads)),
        per_group((queries + rows - 1) / rows) {}

  int Site(int first_site, int64_t head, int64_t row) const {
    return static_cast<int>(first_site + head / heads_at_once * per_group + row / rows);
  }

  int sites() const {
    return static_cast<int>((heads + heads_at_once - 1) / heads_at_once * per_group);
  }

  int64_t heads;
  int64_t rows;           // queries per block
  int64_t heads_at_once;  // heads per block
  int64_t per_group;      // blocks per group of heads
};

// Queries, keys and values, or their gradients: [samples, T, heads, size], of any strides.
struct Parts {
  Tensor q, k, v;
};

Parts PartsOf(const Tensor& qkv, int64_t heads) {
  const Tensor parts = qkv.view({qkv.size(0), qkv.size(1), 3, heads, -1});
  return {parts.select(2, 0), parts.select(2, 1), parts.select(2, 2)};
}

// [heads, queries + keys - 1] by distance -> [heads, queries, keys].
Tensor BiasesByDistance(const Tensor& biases, int64_t keys) {
  return biases.unfold(1, keys, 1).flip(1);  // the last query was first
}

class Attention {
 public:
  // `biases`: see AttentionOptions.
  Attention(const UnitContext& context, const AttentionOptions& options, const Parts& parts,
            const Tensor& biases)
      : context_(context),
        options_(options),
        samples_(parts.q.size(0)),
        queries_(parts.q.size(1)),
        keys_(parts.k.size(1)),
        blocks_(queries_, keys_, options.heads),
        parts_(parts),
        biases_(biases),
        type_(options.fp32_products ? torch::kFloat32 : parts.q.scalar_type()) {}

  Tensor Forward() const {
    Tensor out =
        torch::empty({samples_, queries_, options_.heads, parts_.v.size(3)}, parts_.q.options());
    for (int64_t head = 0; head < options_.heads; head += blocks_.heads_at_once) {
      const Parts group = Take(head);
      for (int64_t row = 0; row < queries_; row += blocks_.rows) {
        const Tensor kept = Drop(Probabilities(group, head, row).to(type_), head, row);
        const Tensor mixed = torch::bmm(kept, group.v.narrow(1, 0, kept.size(2)));
        Slice(out, 2, head).narrow(1, row, kept.size(1)).copy_(Unfold(mixed).transpose(1, 2));
      }
    }
    return out.flatten(2);
  }

  // Writes all of `into`; returns the gradient of the biases, in fp32, if there are any.
  Tensor Backward(const Tensor& gradient, const Parts& into) const {
    const Tensor out_gradient =
        gradient.contiguous().view({samples_, queries_, options_.heads, -1});
    Tensor bias_gradient;
    if (biases_.defined()) {
      bias_gradient = torch::zeros(biases_.sizes(), biases_.options().dtype(torch::kFloat32));
    }
    for (int64_t head = 0; head < options_.heads; head += blocks_.heads_at_once) {
      const Parts group = Take(head);
      const Tensor mixed = Fold(Slice(out_gradient, 2, head).transpose(1, 2));
      // Gradients of keys and values are summed over the blocks of queries: in fp32, rounded once.
      Tensor dk = torch::zeros(group.k.sizes(), group.k.options().dtype(torch::kFloat32));
      Tensor dv = torch::zeros(group.v.sizes(), dk.options());
      for (int64_t row = 0; row < queries_; row += blocks_.rows) {
        const Tensor scores =
            BackwardBlock(group, mixed, head, row, Slice(into.q, 2, head), dk, dv);
        if (biases_.defined()) AddByDistance(scores, head, row, bias_gradient);
      }
      Slice(into.k, 2, head).copy_(Unfold(dk).transpose(1, 2));
      Slice(into.v, 2, head).copy_(Unfold(dv).transpose(1, 2));
    }
    return bias_gradient;
  }

 private:
  // Returns the scores' gradient.
  Tensor BackwardBlock(const Parts& group, const Tensor& out_gradient, int64_t head, int64_t row,
                       const Tensor& dq, Tensor& dk, Tensor& dv) const {
    const Tensor probabilities = Probabilities(group, head, row);
    const int64_t rows = probabilities.size(1), keys = probabilities.size(2);
    const Tensor mixed = out_gradient.narrow(1, row, rows);
    {
      const Tensor kept = Drop(probabilities.to(type_), head, row);
      dv.narrow(1, 0, keys).add_(torch::bmm(kept.transpose(1, 2), mixed));
    }
    Tensor scores = Drop(torch::bmm(mixed, group.v.narrow(1, 0, keys).transpose(1, 2)), head, row)
                        .to(probabilities.scalar_type());
    scores = torch::_softmax_backward_data(scores, probabilities, -1, scores.scalar_type());
    const Tensor q = Score(group.q.narrow(1, row, rows));
    const Tensor k = Score(group.k.narrow(1, 0, keys));
    dq.narrow(1, row, rows).copy_(Unfold(Scaled(scores, k)).transpose(1, 2));
    dk.narrow(1, 0, keys).add_(Scaled(scores.transpose(1, 2), q));
    return scores;
  }

  // [samples * group, rows, keys] for the queries from `row` on and the keys that they attend to.
  Tensor Probabilities(const Parts& group, int64_t head, int64_t row) const {
    const int64_t rows = std::min(blocks_.rows, queries_ - row);
    const Tensor q = Score(group.q.narrow(1, row, rows));
    const double hidden = -std::numeric_limits<double>::infinity();
    const int64_t keys = options_.causal ? row + rows : keys_;
    Tensor scores = Scaled(q, Score(group.k.narrow(1, 0, keys)).transpose(1, 2));
    if (biases_.defined()) {
      scores.view({samples_, -1, rows, keys}).add_(Distances(head, row, rows, keys));
    }
    if (!options_.causal) {
      if (options_.visible.defined()) {
        scores.view({samples_, -1, rows, keys})
            .masked_fill_(options_.visible.logical_not().view({samples_, 1, 1, keys}), hidden);
      }
      return torch::_softmax(scores, -1, /*half_to_float=*/false);
    }
    // Queries attend to keys up to themselves: only the last square has a masked half.
    scores.narrow(2, row, rows).add_(torch::full({rows, rows}, hidden, scores.options()).triu_(1));
    if (options_.window > 0 && options_.window < keys) {
      scores.add_(torch::full({rows, keys}, hidden, scores.options()).tril_(row - options_.window));
    }
    return torch::_softmax(scores, -1, /*half_to_float=*/false);
  }

  // First distance of a block's biases: between its last query and the first key.
  int64_t FirstDistance(int64_t row, int64_t rows) const { return queries_ - row - rows; }

  // The biases of a block: [group, rows, keys].
  Tensor Distances(int64_t head, int64_t row, int64_t rows, int64_t keys) const {
    return BiasesByDistance(
        Slice(biases_, 0, head).narrow(1, FirstDistance(row, rows), rows + keys - 1), keys);
  }

  // Adds the gradients of a block's scores to the sum of each distance.
  void AddByDistance(const Tensor& scores, int64_t head, int64_t row, Tensor& sums) const {
    const int64_t rows = scores.size(1), keys = scores.size(2);
    const Tensor all = scores.view({samples_, -1, rows, keys}).sum(0, false, torch::kFloat32);
    // Rows are one element longer than the number of distances; read without it, each row is
    // shifted by one more, so that equal distances are in one column.
    const Tensor skewed = torch::constant_pad_nd(all.flip(1), {0, rows})
                              .flatten(1)
                              .narrow(1, 0, rows * (rows + keys - 1))
                              .view({-1, rows, rows + keys - 1});
    Slice(sums, 0, head).narrow(1, FirstDistance(row, rows), rows + keys - 1).add_(skewed.sum(1));
  }

  // scale * a @ b, rounded once.
  Tensor Scaled(const Tensor& a, const Tensor& b) const {
    Tensor out = torch::empty({a.size(0), a.size(1), b.size(2)}, a.options());
    return out.baddbmm_(a, b, /*beta=*/0, options_.scale);
  }

  Tensor Score(const Tensor& x) const { return options_.fp32_scores ? x.to(torch::kFloat32) : x; }

  Tensor Drop(const Tensor& x, int64_t head, int64_t row) const {
    const int site = blocks_.Site(options_.first_site, head, row);
    return context_.Dropout(x.view({samples_, -1, x.size(2)}), options_.dropout, site)
        .view(x.sizes());
  }

  Tensor Slice(const Tensor& x, int64_t dimension, int64_t head) const {
    return x.slice(dimension, head, std::min(head + blocks_.heads_at_once, options_.heads));
  }

  // One group of heads of all samples: contiguous [samples * group, T, head size].
  Parts Take(int64_t head) const {
    const auto part = [&](const Tensor& x) { return Fold(Slice(x, 2, head).transpose(1, 2)); };
    return {part(parts_.q), part(parts_.k), part(parts_.v)};
  }

  // [samples, group, T, size] <-> [samples * group, T, size]
  Tensor Fold(const Tensor& x) const {
    return x.to(type_, false, false, torch::MemoryFormat::Contiguous).contiguous().flatten(0, 1);
  }
  Tensor Unfold(const Tensor& x) const { return x.view({samples_, -1, x.size(1), x.size(2)}); }

  const UnitContext& context_;
  const AttentionOptions& options_;
  int64_t samples_, queries_, keys_;
  Blocks blocks_;
  Parts parts_;
  Tensor biases_;
  torch::ScalarType type_;  // dtype of the computation
};

// The values that backward needs besides tensors, in a form for an autograd context.
struct Saved : torch::CustomClassHolder {
  Saved(UnitContext context, AttentionOptions options)
      : context(std::move(context)), options(std::move(options)) {}
  UnitContext context;
  AttentionOptions options;

  static c10::IValue Keep(const UnitContext& context, const AttentionOptions& options) {
    AttentionOptions kept = options;
    kept.biases = Tensor();  // a variable, saved separately
    return c10::IValue::make_capsule(c10::make_intrusive<Saved>(context, std::move(kept)));
  }
  static c10::intrusive_ptr<Saved> From(AutogradContext* autograd) {
    return c10::static_intrusive_pointer_cast<Saved>(autograd->saved_data["saved"].toCapsule());
  }
};

// Queries, keys and values in one tensor, and also their gradients.
class FusedFunction : public torch::autograd::Function<FusedFunction> {
 public:
  static Tensor forward(AutogradContext* autograd, const Tensor& qkv, const UnitContext& context,
                        const AttentionOptions& options) {
    autograd->save_for_backward({qkv});
    autograd->saved_data["saved"] = Saved::Keep(context, options);
    return Attention(context, options, PartsOf(qkv, options.heads), {}).Forward();
  }

  static variable_list backward(AutogradContext* autograd, variable_list gradients) {
    const auto saved = Saved::From(autograd);
    const Tensor qkv = autograd->get_saved_variables()[0];
    const int64_t heads = saved->options.heads;
    Tensor result = torch::empty_like(qkv);
    Attention(saved->context, saved->options, PartsOf(qkv, heads), {})
        .Backward(gradients[0], PartsOf(result, heads));
    return {result, Tensor(), Tensor()};
  }
};

class PartsFunction : public torch::autograd::Function<PartsFunction> {
 public:
  static Tensor forward(AutogradContext* autograd, const Tensor& q, const Tensor& k,
                        const Tensor& v, const std::optional<Tensor>& biases,
                        const UnitContext& context, const AttentionOptions& options) {
    autograd->save_for_backward({q, k, v, biases.value_or(Tensor())});
    autograd->saved_data["saved"] = Saved::Keep(context, options);
    return Attention(context, options, {q, k, v}, biases.value_or(Tensor())).Forward();
  }

  static variable_list backward(AutogradContext* autograd, variable_list gradients) {
    const auto saved = Saved::From(autograd);
    const variable_list kept = autograd->get_saved_variables();
    const auto like = [](const Tensor& x) { return torch::empty(x.sizes(), x.options()); };
    const Parts into = {like(kept[0]), like(kept[1]), like(kept[2])};
    Tensor biases = Attention(saved->context, saved->options, {kept[0], kept[1], kept[2]}, kept[3])
                        .Backward(gradients[0], into);
    if (biases.defined()) biases = biases.to(kept[3].scalar_type());
    return {into.q, into.k, into.v, biases, Tensor(), Tensor()};
  }
};

}  // namespace

Tensor AttendInBlocks(const UnitContext& context, const Tensor& qkv,
                      const AttentionOptions& options) {
  TORCH_CHECK(qkv.dim() == 3 && qkv.size(2) % (3 * options.heads) == 0, "AttendInBlocks: qkv is ",
              qkv.sizes(), ", not [samples, T, 3 * ", options.heads, " heads * head size]");
  return FusedFunction::apply(qkv.contiguous(), context, options);
}

Tensor AttendInBlocks(const UnitContext& context, const Tensor& queries, const Tensor& keys,
                      const Tensor& values, const AttentionOptions& options) {
  const auto biases = options.biases.defined() ? std::optional(options.biases) : std::nullopt;
  return PartsFunction::apply(queries, keys, values, biases, context, options);
}

int AttentionSites(int64_t length, int64_t heads) { return Blocks(length, length, heads).sites(); }

Tensor AttendToSeen(const Tensor& queries, const Tensor& keys, const Tensor& values,
                    const AttentionOptions& options) {
  if (options.fp32_products) {
    AttentionOptions plain = options;
    plain.fp32_products = false;
    const auto wide = [](const Tensor& x) { return x.defined() ? x.to(torch::kFloat32) : x; };
    plain.biases = wide(options.biases);
    return AttendToSeen(wide(queries), wide(keys), wide(values), plain).to(queries.scalar_type());
  }
  // [n, D] -> [1, heads, n, head size]
  const auto heads = [&](const Tensor& x, int64_t count) {
    return x.unflatten(1, {count, -1}).transpose(0, 1).unsqueeze(0);
  };
  const auto shared = [&](const Tensor& x) {
    return heads(x, options.key_value_heads)
        .repeat_interleave(options.heads / options.key_value_heads, 1);
  };
  const int64_t length = queries.size(0), seen = keys.size(0);
  Tensor hidden;  // mask of a query's invisible keys, if any
  if (length > 1 || (options.window > 0 && options.window < seen)) {
    hidden =
        torch::ones({length, seen}, queries.options().dtype(torch::kBool)).tril_(seen - length);
    if (options.window > 0) hidden.triu_(seen - length + 1 - options.window);
    hidden.logical_not_();
  }
  const double infinity = std::numeric_limits<double>::infinity();
  Tensor biases;  // [1, heads, T, n]
  if (options.biases.defined()) {
    biases = BiasesByDistance(options.biases.narrow(1, 0, length + seen - 1), seen).unsqueeze(0);
  }
  const auto join = [](const Tensor& mixed) { return mixed[0].transpose(0, 1).flatten(1); };
  if (!options.fp32_scores || queries.scalar_type() == torch::kFloat32) {
    std::optional<Tensor> visible;
    if (hidden.defined()) visible = hidden.logical_not();
    if (biases.defined()) {
      visible = hidden.defined() ? biases.masked_fill(hidden, -infinity) : biases;
    }
    return join(torch::scaled_dot_product_attention(heads(queries, options.heads), shared(keys),
                                                    shared(values), visible, /*dropout_p=*/0,
                                                    /*is_causal=*/false, options.scale));
  }
  Tensor scores = torch::matmul(heads(queries, options.heads).to(torch::kFloat32),
                                shared(keys).to(torch::kFloat32).transpose(2, 3))
                      .mul_(options.scale);
  if (biases.defined()) scores.add_(biases);
  if (hidden.defined()) scores.masked_fill_(hidden, -infinity);
  return join(torch::matmul(scores.softmax(-1).to(queries.scalar_type()), shared(values)));
}

}  // namespace spillway
