#include "engine/torch/block_attention.h"

#include <torch/autograd.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace spillway {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr int64_t kBlockRows = 128;
// Probabilities of one sample in one block: with bf16, a few of these fit a core's
// second-level cache.
constexpr int64_t kBlockElements = int64_t{1} << 18;

// How one sample's T x T x heads probabilities are cut. A function of T and the heads
// alone: masks must not depend on how samples are batched.
struct Blocks {
  Blocks(int64_t length, int64_t heads)
      : length(length),
        heads(heads),
        rows(std::min(length, kBlockRows)),
        heads_at_once(std::clamp<int64_t>(kBlockElements / (rows * length), 1, heads)),
        per_group((length + rows - 1) / rows) {}

  int Site(int first_site, int64_t head, int64_t row) const {
    return static_cast<int>(first_site + head / heads_at_once * per_group + row / rows);
  }

  int sites() const {
    return static_cast<int>((heads + heads_at_once - 1) / heads_at_once * per_group);
  }

  int64_t length, heads;
  int64_t rows;           // queries of a block
  int64_t heads_at_once;  // heads of a block
  int64_t per_group;      // blocks of one group of heads
};

// One group of heads of all samples: contiguous [samples * group, T, head size].
struct Group {
  Tensor q, k, v;
};

class Attention {
 public:
  Attention(const UnitContext& context, const AttentionOptions& options, const Tensor& qkv)
      : context_(context),
        options_(options),
        samples_(qkv.size(0)),
        length_(qkv.size(1)),
        blocks_(length_, options.heads),
        qkv_(qkv.view({samples_, length_, 3, options.heads, -1})),
        type_(options.fp32_products ? torch::kFloat32 : qkv.scalar_type()) {}

  Tensor Forward() const {
    Tensor out = torch::empty({samples_, length_, options_.heads, qkv_.size(4)}, qkv_.options());
    for (int64_t head = 0; head < options_.heads; head += blocks_.heads_at_once) {
      const Group group = Take(head);
      for (int64_t row = 0; row < length_; row += blocks_.rows) {
        const Tensor kept = Drop(Probabilities(group, row).to(type_), head, row);
        const Tensor mixed = torch::bmm(kept, group.v.narrow(1, 0, kept.size(2)));
        Slice(out, 2, head).narrow(1, row, kept.size(1)).copy_(Unfold(mixed).transpose(1, 2));
      }
    }
    return out.view({samples_, length_, -1});
  }

  Tensor Backward(const Tensor& gradient) const {
    const Tensor out_gradient = gradient.contiguous().view({samples_, length_, options_.heads, -1});
    Tensor result = torch::empty_like(qkv_);
    for (int64_t head = 0; head < options_.heads; head += blocks_.heads_at_once) {
      const Group group = Take(head);
      const Tensor mixed = Fold(Slice(out_gradient, 2, head).transpose(1, 2));
      const Tensor into = Slice(result, 3, head);
      // Keys and values gather from every block of queries: in fp32, rounded once.
      Tensor dk = torch::zeros(group.k.sizes(), qkv_.options().dtype(torch::kFloat32));
      Tensor dv = torch::zeros_like(dk);
      for (int64_t row = 0; row < length_; row += blocks_.rows) {
        BackwardBlock(group, mixed, head, row, into, dk, dv);
      }
      into.select(2, 1).copy_(Unfold(dk).transpose(1, 2));
      into.select(2, 2).copy_(Unfold(dv).transpose(1, 2));
    }
    return result.view({samples_, length_, -1});
  }

 private:
  void BackwardBlock(const Group& group, const Tensor& out_gradient, int64_t head, int64_t row,
                     const Tensor& into, Tensor& dk, Tensor& dv) const {
    const Tensor probabilities = Probabilities(group, row);
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
    into.select(2, 0).narrow(1, row, rows).copy_(Unfold(Scaled(scores, k)).transpose(1, 2));
    dk.narrow(1, 0, keys).add_(Scaled(scores.transpose(1, 2), q));
  }

  // [samples * group, rows, keys] for the queries from `row` on and the keys they see.
  Tensor Probabilities(const Group& group, int64_t row) const {
    const int64_t rows = std::min(blocks_.rows, length_ - row);
    const Tensor q = Score(group.q.narrow(1, row, rows));
    const double hidden = -std::numeric_limits<double>::infinity();
    if (!options_.causal) {
      Tensor scores = Scaled(q, Score(group.k).transpose(1, 2));
      if (options_.visible.defined()) {
        scores.view({samples_, -1, rows, length_})
            .masked_fill_(options_.visible.logical_not().view({samples_, 1, 1, length_}), hidden);
      }
      return torch::_softmax(scores, -1, /*half_to_float=*/false);
    }
    const Tensor k = Score(group.k.narrow(1, 0, row + rows));
    Tensor scores = Scaled(q, k.transpose(1, 2));
    // Queries see keys up to themselves: only the last square has a masked half.
    scores.narrow(2, row, rows).add_(torch::full({rows, rows}, hidden, scores.options()).triu_(1));
    if (options_.window > 0 && options_.window < row + rows) {
      scores.add_(
          torch::full({rows, row + rows}, hidden, scores.options()).tril_(row - options_.window));
    }
    return torch::_softmax(scores, -1, /*half_to_float=*/false);
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

  Group Take(int64_t head) const {
    const Tensor group = Slice(qkv_, 3, head);
    const auto part = [&](int64_t i) { return Fold(group.select(2, i).transpose(1, 2)); };
    return {part(0), part(1), part(2)};
  }

  // [samples, group, T, size] <-> [samples * group, T, size]
  Tensor Fold(const Tensor& x) const {
    return x.to(type_, false, false, torch::MemoryFormat::Contiguous).contiguous().flatten(0, 1);
  }
  Tensor Unfold(const Tensor& x) const { return x.view({samples_, -1, x.size(1), x.size(2)}); }

  const UnitContext& context_;
  const AttentionOptions& options_;
  int64_t samples_, length_;
  Blocks blocks_;
  Tensor qkv_;              // [samples, T, 3, heads, head size]
  torch::ScalarType type_;  // of what is computed
};

// What backward needs besides qkv, in a form that an autograd context can hold.
struct Saved : torch::CustomClassHolder {
  Saved(UnitContext context, AttentionOptions options)
      : context(std::move(context)), options(options) {}
  UnitContext context;
  AttentionOptions options;
};

class AttentionFunction : public torch::autograd::Function<AttentionFunction> {
 public:
  static Tensor forward(AutogradContext* autograd, const Tensor& qkv, const UnitContext& context,
                        const AttentionOptions& options) {
    autograd->save_for_backward({qkv});
    autograd->saved_data["saved"] =
        c10::IValue::make_capsule(c10::make_intrusive<Saved>(context, options));
    return Attention(context, options, qkv).Forward();
  }

  static variable_list backward(AutogradContext* autograd, variable_list gradients) {
    const auto saved =
        c10::static_intrusive_pointer_cast<Saved>(autograd->saved_data["saved"].toCapsule());
    const Tensor qkv = autograd->get_saved_variables()[0];
    return {Attention(saved->context, saved->options, qkv).Backward(gradients[0]), Tensor(),
            Tensor()};
  }
};

}  // namespace

Tensor AttendInBlocks(const UnitContext& context, const Tensor& qkv,
                      const AttentionOptions& options) {
  TORCH_CHECK(qkv.dim() == 3 && qkv.size(2) % (3 * options.heads) == 0, "AttendInBlocks: qkv is ",
              qkv.sizes(), ", not [samples, T, 3 * ", options.heads, " heads * head size]");
  return AttentionFunction::apply(qkv.contiguous(), context, options);
}

int AttentionSites(int64_t length, int64_t heads) { return Blocks(length, heads).sites(); }

Tensor AttendToSeen(const Tensor& queries, const Tensor& keys, const Tensor& values,
                    const AttentionOptions& options) {
  if (options.fp32_products) {
    AttentionOptions plain = options;
    plain.fp32_products = false;
    const auto wide = [](const Tensor& x) { return x.to(torch::kFloat32); };
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
  Tensor hidden;  // what a query must not see, where there is any
  if (length > 1 || (options.window > 0 && options.window < seen)) {
    hidden =
        torch::ones({length, seen}, queries.options().dtype(torch::kBool)).tril_(seen - length);
    if (options.window > 0) hidden.triu_(seen - length + 1 - options.window);
    hidden.logical_not_();
  }
  const auto join = [](const Tensor& mixed) { return mixed[0].transpose(0, 1).flatten(1); };
  if (!options.fp32_scores || queries.scalar_type() == torch::kFloat32) {
    const std::optional<Tensor> visible =
        hidden.defined() ? std::optional<Tensor>(hidden.logical_not()) : std::nullopt;
    return join(torch::scaled_dot_product_attention(heads(queries, options.heads), shared(keys),
                                                    shared(values), visible, /*dropout_p=*/0,
                                                    /*is_causal=*/false, options.scale));
  }
  Tensor scores = torch::matmul(heads(queries, options.heads).to(torch::kFloat32),
                                shared(keys).to(torch::kFloat32).transpose(2, 3))
                      .mul_(options.scale);
  if (hidden.defined()) {
    scores.masked_fill_(hidden, -std::numeric_limits<double>::infinity());
  }
  return join(torch::matmul(scores.softmax(-1).to(queries.scalar_type()), shared(values)));
}

}  // namespace spillway
