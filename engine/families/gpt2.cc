#include "engine/families/gpt2.h"

#include <algorithm>
#include <cmath>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/families/activation.h"
#include "engine/torch/causal_attention.h"
#include "engine/torch/cross_entropy.h"
#include "engine/torch/token_embedding.h"

namespace spillway {
namespace {

using torch::Tensor;
using Parameters = std::vector<Tensor>;

// Dropout sites of a block; attention takes all from its first on.
constexpr int kAttentionOutputSite = 0;
constexpr int kMlpOutputSite = 1;
constexpr int kAttentionSite = 2;

// transformers' Conv1D: x @ W + b with W [in, out].
Tensor Project(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  std::vector<int64_t> shape = x.sizes().vec();
  shape.back() = weight.size(1);
  return torch::addmm(bias, x.reshape({-1, weight.size(0)}), weight).view(shape);
}

Tensor Normalise(const Tensor& x, const Tensor& gain, const Tensor& bias, double epsilon) {
  return torch::layer_norm(x, gain.sizes(), gain, bias, epsilon);
}

// How GPT-2 begins.
Init InitOf(const ParameterDescription& parameter, const Gpt2Config& config) {
  if (absl::EndsWith(parameter.name, ".bias")) return Init::Constant(0);
  if (parameter.shape.size() == 1) return Init::Constant(1);  // of a layer norm
  // 2 n_layer projections add to the residual stream: "Language Models are
  // Unsupervised Multitask Learners", section 2.3.
  const bool residual = absl::EndsWith(parameter.name, ".c_proj.weight");
  return Init::Normal(0,
                      config.initializer_range / (residual ? std::sqrt(2.0 * config.n_layer) : 1));
}

std::vector<ParameterSpec> SpecsOf(const UnitDescription& unit, const Gpt2Config& config) {
  std::vector<ParameterSpec> specs;
  for (const ParameterDescription& parameter : unit.parameters) {
    specs.push_back({parameter.name, parameter.shape, InitOf(parameter, config)});
  }
  return specs;
}

class EmbeddingUnit : public Unit {
 public:
  EmbeddingUnit(const Gpt2Config& config, const UnitDescription& unit)
      : config_(config), parameters_(SpecsOf(unit, config)) {}

  std::string name() const override { return "embedding"; }

  std::vector<ParameterSpec> parameters() const override { return parameters_; }

  Tensor Forward(const UnitContext& context, const Parameters& parameters,
                 const Tensor& ids) const override {
    return context.Dropout(TokenEmbedding(ids, parameters[0], parameters[1]), config_.embd_pdrop,
                           0);
  }

  int64_t KeptPerPosition() const override { return 0; }

  Tensor ForwardNext(const UnitContext&, const Parameters& parameters, const Tensor& ids,
                     const TextPosition& at) const override {
    return TokenEmbedding(ids, parameters[0], parameters[1].slice(0, at.first));
  }

 private:
  const Gpt2Config config_;
  const std::vector<ParameterSpec> parameters_;
};

class BlockUnit : public Unit {
 public:
  BlockUnit(const Gpt2Config& config, int64_t layer, const UnitDescription& unit)
      : config_(config), layer_(layer), parameters_(SpecsOf(unit, config)) {}

  std::string name() const override { return absl::StrCat("h.", layer_); }

  std::vector<ParameterSpec> parameters() const override { return parameters_; }

  Tensor Forward(const UnitContext& context, const Parameters& p, const Tensor& x) const override {
    return Finish(context, p, x, Attend(context, QueriesKeysValues(p, x)));
  }

  int64_t KeptPerPosition() const override { return 2 * config_.n_embd; }

  Tensor ForwardNext(const UnitContext& context, const Parameters& p, const Tensor& x,
                     const TextPosition& at) const override {
    const Tensor qkv = QueriesKeysValues(p, x);
    const int64_t d = config_.n_embd, length = x.size(1);
    at.kept.narrow(0, at.first, length).copy_(qkv[0].narrow(1, d, 2 * d));
    if (at.first == 0) return Finish(context, p, x, Attend(context, qkv));
    const Tensor seen = at.kept.narrow(0, 0, at.first + length);
    const Tensor mixed =
        AttendToSeen(qkv[0].narrow(1, 0, d), seen.narrow(1, 0, d), seen.narrow(1, d, d), Options());
    return Finish(context, p, x, mixed.unsqueeze(0));
  }

 private:
  Tensor QueriesKeysValues(const Parameters& p, const Tensor& x) const {
    return Project(Normalise(x, p[0], p[1], config_.layer_norm_epsilon), p[2], p[3]);
  }

  // What comes after attention, whose result is `attended`.
  Tensor Finish(const UnitContext& context, const Parameters& p, const Tensor& x,
                const Tensor& attended) const {
    const double epsilon = config_.layer_norm_epsilon, drop = config_.resid_pdrop;
    const Tensor middle =
        x + context.Dropout(Project(attended, p[4], p[5]), drop, kAttentionOutputSite);
    const Tensor inner = Project(Normalise(middle, p[6], p[7], epsilon), p[8], p[9]);
    const Tensor mixed = Project(Activate(config_.activation, inner), p[10], p[11]);
    return middle + context.Dropout(mixed, drop, kMlpOutputSite);
  }

  double Scale() const {
    double scale = config_.scale_attn_weights ? 1 / std::sqrt(double(config_.head_size())) : 1;
    if (config_.scale_attn_by_inverse_layer_idx) scale /= static_cast<double>(layer_ + 1);
    return scale;
  }

  AttentionOptions Options() const {
    AttentionOptions options;
    options.heads = config_.n_head;
    options.scale = Scale();
    options.first_site = kAttentionSite;
    options.fp32_scores = config_.reorder_and_upcast_attn;
    return options;
  }

  // qkv [samples, T, 3D] -> [samples, T, D]
  Tensor Attend(const UnitContext& context, const Tensor& qkv) const {
    AttentionOptions options = Options();
    options.dropout = context.training() ? config_.attn_pdrop : 0;
    options.fp32_scores &= qkv.scalar_type() != torch::kFloat32;
    if (options.dropout > 0 || options.fp32_scores) return CausalAttention(context, qkv, options);

    const int64_t samples = qkv.size(0), length = qkv.size(1);
    const auto heads = [&](const Tensor& x) {
      return x.view({samples, length, config_.n_head, -1}).transpose(1, 2);
    };
    const std::vector<Tensor> parts = qkv.split(config_.n_embd, 2);
    const Tensor mixed = torch::scaled_dot_product_attention(
        heads(parts[0]), heads(parts[1]), heads(parts[2]), /*attn_mask=*/{}, /*dropout_p=*/0,
        /*is_causal=*/true, options.scale);
    return mixed.transpose(1, 2).reshape({samples, length, -1});
  }

  const Gpt2Config config_;
  const int64_t layer_;
  const std::vector<ParameterSpec> parameters_;
};

class HeadUnit : public LossUnit {
 public:
  HeadUnit(const Gpt2Config& config, const UnitDescription& unit)
      : config_(config), parameters_(SpecsOf(unit, config)) {}

  std::string name() const override { return "head"; }

  std::vector<ParameterSpec> parameters() const override { return parameters_; }

  std::vector<BorrowedParameter> borrowed() const override {
    if (!config_.tie_word_embeddings) return {};
    return {{/*unit=*/0, /*parameter=*/0}};
  }

  // Own or borrowed, the matrix is parameters[2].
  Tensor LossSum(const UnitContext&, const Parameters& parameters, const Tensor& x,
                 const Tensor& labels) const override {
    return CrossEntropySum(Final(parameters, x), parameters[2], labels);
  }

  Tensor Logits(const UnitContext&, const Parameters& parameters, const Tensor& x) const override {
    return torch::mm(Final(parameters, x), parameters[2].t());
  }

  int64_t ChunkRows() const override { return LossChunkRows(config_.vocab_size); }

 private:
  Tensor Final(const Parameters& parameters, const Tensor& x) const {
    return Normalise(x, parameters[0], parameters[1], config_.layer_norm_epsilon);
  }

  const Gpt2Config config_;
  const std::vector<ParameterSpec> parameters_;
};

}  // namespace

absl::StatusOr<Model> BuildGpt2(const Gpt2Config& config) {
  const int64_t smallest = std::min({config.vocab_size, config.n_positions, config.n_embd,
                                     config.n_layer, config.n_head, config.n_inner});
  if (smallest < 1 || config.n_embd % config.n_head != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("GPT-2 config: sizes must be positive and n_embd (", config.n_embd,
                     ") divisible by n_head (", config.n_head, ")"));
  }
  Model model;
  const std::vector<UnitDescription> units = config.Shape().model.units;
  model.units.push_back(std::make_shared<EmbeddingUnit>(config, units.front()));
  for (int64_t layer = 0; layer < config.n_layer; ++layer) {
    model.units.push_back(std::make_shared<BlockUnit>(config, layer, units[layer + 1]));
  }
  model.loss = std::make_shared<HeadUnit>(config, units.back());
  return model;
}

}  // namespace spillway
