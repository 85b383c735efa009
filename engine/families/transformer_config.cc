#include "engine/families/transformer_config.h"

#include <cmath>

#include "absl/strings/str_cat.h"

namespace spillway {
namespace {

// The standard deviations of transformers' T5PreTrainedModel for a factor of 1.
double DeviationByWidth(const TransformerParameter& parameter, const TransformerConfig& config) {
  switch (parameter.role) {
    case ParameterRole::kTokens:
    case ParameterRole::kLogits:
      return 1;
    case ParameterRole::kRelativeBias:
      return 1 / std::sqrt(static_cast<double>(config.hidden));
    case ParameterRole::kQuery:
    case ParameterRole::kCrossQuery:
      return 1 / std::sqrt(static_cast<double>(config.hidden * config.head_size));
    default:
      return 1 / std::sqrt(static_cast<double>(parameter.shape.back()));
  }
}

Init InitOf(const TransformerParameter& parameter, const TransformerConfig& config) {
  if (parameter.is_bias) return Init::Constant(0);
  if (parameter.frozen) return Init::Waves();
  const bool by_width = config.init_by_width;
  if (parameter.shape.size() == 1) return Init::Constant(by_width ? config.init_std : 1);  // a norm
  if (by_width) return Init::Normal(0, config.init_std * DeviationByWidth(parameter, config));
  // 2 n_layer projections add to the residual stream: "Language Models are Unsupervised Multitask
  // Learners", section 2.3.
  const bool residual =
      parameter.role == ParameterRole::kAttentionOutput || parameter.role == ParameterRole::kDown;
  const double shrink =
      config.init_by_depth && residual ? std::sqrt(2.0 * static_cast<double>(config.layers)) : 1;
  Init init = Init::Normal(0, config.init_std / shrink);
  if (parameter.role == ParameterRole::kTokens) init.zero_row = config.padding_token.value_or(-1);
  if (parameter.role == ParameterRole::kPositions && config.positions_skip_padding) {
    init.zero_row = config.position_offset - 1;
  }
  return init;
}

// How a layer multiplies by it; kNone also for the logits' matrix, whose chunks the loss computes.
LinearWeight LinearFormOf(const TransformerParameter& parameter, const TransformerConfig& config) {
  switch (parameter.role) {
    case ParameterRole::kProjectIn:
    case ParameterRole::kQueryKeyValue:
    case ParameterRole::kQuery:
    case ParameterRole::kKey:
    case ParameterRole::kValue:
    case ParameterRole::kAttentionOutput:
    case ParameterRole::kGateUp:
    case ParameterRole::kGate:
    case ParameterRole::kUp:
    case ParameterRole::kDown:
    case ParameterRole::kProjectOut:
    case ParameterRole::kPooler:
    case ParameterRole::kTransform:
    case ParameterRole::kCrossQuery:
    case ParameterRole::kCrossKey:
    case ParameterRole::kCrossValue:
    case ParameterRole::kCrossOutput:
      if (parameter.is_bias) return LinearWeight::kNone;
      return config.conv1d ? LinearWeight::kInOut : LinearWeight::kOutIn;
    case ParameterRole::kClassifier:  // transformers' Linear in every family
      return parameter.is_bias ? LinearWeight::kNone : LinearWeight::kOutIn;
    default:
      return LinearWeight::kNone;
  }
}

// Gathers the parameters of one unit.
class UnitParameters {
 public:
  UnitParameters(const TransformerConfig& config, std::string prefix)
      : config_(config), prefix_(std::move(prefix)) {}

  void Matrix(ParameterRole role, const std::string& name, std::vector<int64_t> shape,
              bool frozen = false) {
    Add(role, false, name, std::move(shape), frozen);
  }
  void Project(ParameterRole role, const std::string& name, int64_t in, int64_t out, bool bias) {
    if (name.empty()) return;
    if (config_.conv1d) {
      Matrix(role, name + ".weight", {in, out});
    } else {
      Matrix(role, name + ".weight", {out, in});
    }
    if (bias) Add(role, true, name + ".bias", {out});
  }
  // A convolution over kSpeechKernel positions, with a bias.
  void Convolve(ParameterRole role, const std::string& name, int64_t in, int64_t out) {
    Matrix(role, name + ".weight", {out, in, kSpeechKernel});
    Add(role, true, name + ".bias", {out});
  }
  void Norm(ParameterRole role, const std::string& name, int64_t size) {
    if (name.empty() || !config_.norm_affine) return;
    Matrix(role, name + ".weight", {size});
    if (config_.norm == TransformerConfig::Norm::kLayer) Add(role, true, name + ".bias", {size});
  }
  void Bias(ParameterRole role, const std::string& name, int64_t size) {
    Add(role, true, name, {size});
  }
  std::vector<TransformerParameter> Take() { return std::move(found_); }

 private:
  void Add(ParameterRole role, bool is_bias, const std::string& name, std::vector<int64_t> shape,
           bool frozen = false) {
    TransformerParameter parameter{{prefix_ + name, std::move(shape), {}, frozen}, role, is_bias};
    parameter.init = InitOf(parameter, config_);
    parameter.linear = LinearFormOf(parameter, config_);
    found_.push_back(std::move(parameter));
  }

  const TransformerConfig& config_;
  const std::string prefix_;
  std::vector<TransformerParameter> found_;
};

// Whether the stack owns a token embedding, if it reads tokens.
bool HasTokens(const TransformerConfig& c) { return c.encoder == nullptr || c.hears(); }

std::vector<TransformerParameter> SpeechEmbeddingParameters(const TransformerConfig& c) {
  UnitParameters unit(c, "");
  unit.Convolve(ParameterRole::kConvolution1, c.names.convolution_1, c.speech->bands, c.hidden);
  unit.Convolve(ParameterRole::kConvolution2, c.names.convolution_2, c.hidden, c.hidden);
  unit.Matrix(ParameterRole::kPositions, c.names.positions, {c.positions, c.hidden},
              c.fixed_positions);
  return unit.Take();
}

std::vector<TransformerParameter> EmbeddingParameters(const TransformerConfig& c) {
  UnitParameters unit(c, "");
  if (HasTokens(c)) {
    unit.Matrix(ParameterRole::kTokens, c.names.tokens, {c.vocabulary, c.embedding_width});
  }
  if (!c.names.positions.empty()) {
    unit.Matrix(ParameterRole::kPositions, c.names.positions,
                {c.positions + c.position_offset, c.hidden});
  }
  if (c.token_types > 0) {
    unit.Matrix(ParameterRole::kTokenTypes, c.names.token_types, {c.token_types, c.hidden});
  }
  unit.Norm(ParameterRole::kEmbeddingNorm, c.names.embedding_norm, c.hidden);
  if (c.embedding_width != c.hidden) {
    unit.Project(ParameterRole::kProjectIn, c.names.project_in, c.embedding_width, c.hidden, false);
  }
  return unit.Take();
}

std::vector<TransformerParameter> LayerParameters(const TransformerConfig& c, int64_t layer) {
  const TransformerNames& names = c.names;
  const int64_t d = c.hidden;
  const int64_t queries = c.heads * c.head_size, keys = c.key_value_heads * c.head_size;
  UnitParameters unit(c, absl::StrCat(names.layer, layer, "."));
  unit.Norm(ParameterRole::kNorm1, names.norm_1, d);
  if (c.fused != TransformerConfig::Fused::kNo) {
    unit.Project(ParameterRole::kQueryKeyValue, names.query_key_value, d, queries + 2 * keys,
                 c.query_bias);
  } else {
    unit.Project(ParameterRole::kQuery, names.query, d, queries, c.query_bias);
    unit.Project(ParameterRole::kKey, names.key, d, keys, c.query_bias && c.key_bias);
    unit.Project(ParameterRole::kValue, names.value, d, keys, c.query_bias);
  }
  unit.Project(ParameterRole::kAttentionOutput, names.attention_output, queries, d, c.output_bias);
  unit.Norm(ParameterRole::kQueryNorm, names.query_norm, c.head_size);
  unit.Norm(ParameterRole::kKeyNorm, names.key_norm, c.head_size);
  if (c.encoder) {
    const int64_t seen = c.encoder->hidden;
    unit.Norm(ParameterRole::kCrossNorm, names.cross_norm, d);
    unit.Project(ParameterRole::kCrossQuery, names.cross_query, d, queries, c.query_bias);
    unit.Project(ParameterRole::kCrossKey, names.cross_key, seen, queries,
                 c.query_bias && c.key_bias);
    unit.Project(ParameterRole::kCrossValue, names.cross_value, seen, queries, c.query_bias);
    unit.Project(ParameterRole::kCrossOutput, names.cross_output, queries, d, c.output_bias);
  }
  unit.Norm(ParameterRole::kNorm2, names.norm_2, d);
  unit.Project(ParameterRole::kGateUp, names.gate_up, d, 2 * c.intermediate, c.mlp_bias);
  if (c.gated) unit.Project(ParameterRole::kGate, names.gate, d, c.intermediate, c.mlp_bias);
  unit.Project(ParameterRole::kUp, names.up, d, c.intermediate, c.mlp_bias);
  unit.Project(ParameterRole::kDown, names.down, c.intermediate, d, c.mlp_bias);
  return unit.Take();
}

std::vector<TransformerParameter> HeadParameters(const TransformerConfig& c) {
  UnitParameters unit(c, "");
  if (c.final_norm && !c.norm_is_unit)
    unit.Norm(ParameterRole::kFinalNorm, c.names.final_norm, c.hidden);
  if (c.embedding_width != c.hidden) {
    unit.Project(ParameterRole::kProjectOut, c.names.project_out, c.hidden, c.embedding_width,
                 false);
  }
  if (c.masked) unit.Bias(ParameterRole::kLogitsBias, c.names.logits_bias, c.vocabulary);
  if (!c.tied) {
    unit.Matrix(ParameterRole::kLogits, c.names.logits, {c.vocabulary, c.embedding_width});
  }
  return unit.Take();
}

std::vector<TransformerParameter> TransformParameters(const TransformerConfig& c) {
  UnitParameters unit(c, "");
  unit.Project(ParameterRole::kTransform, c.names.transform, c.hidden, c.hidden, true);
  unit.Norm(ParameterRole::kTransformNorm, c.names.transform_norm, c.hidden);
  return unit.Take();
}

std::vector<TransformerParameter> ClassifierParameters(const TransformerConfig& c) {
  UnitParameters unit(c, "");
  const auto labels = static_cast<int64_t>(c.classifier->labels.size());
  if (c.classifier->of_last_token) {
    unit.Norm(ParameterRole::kFinalNorm, c.names.final_norm, c.hidden);
    unit.Matrix(ParameterRole::kClassifier, c.names.classifier + ".weight", {labels, c.hidden});
    return unit.Take();
  }
  unit.Project(ParameterRole::kPooler, c.names.pooler, c.hidden, c.hidden, true);
  unit.Project(ParameterRole::kClassifier, c.names.classifier, c.hidden, labels, true);
  return unit.Take();
}

std::vector<TransformerParameter> SpanParameters(const TransformerConfig& c) {
  UnitParameters unit(c, "");
  unit.Project(ParameterRole::kClassifier, c.names.classifier, c.hidden, 2, true);
  return unit.Take();
}

// Adds the units of a stack without its head. `prefix`: of unit names.
void AddStack(const TransformerConfig& c, const std::string& prefix, bool in_encoder,
              std::vector<TransformerUnit>& units) {
  const auto add = [&](TransformerUnitKind kind, const std::string& name,
                       std::vector<TransformerParameter> parameters, int64_t layer = 0) {
    units.push_back({kind, prefix + name, std::move(parameters), layer, in_encoder});
  };
  if (c.relative_buckets > 0) {
    UnitParameters unit(c, "");
    unit.Matrix(ParameterRole::kRelativeBias, c.names.relative_bias, {c.relative_buckets, c.heads});
    add(TransformerUnitKind::kRelativeBias, "bias", unit.Take());
  }
  add(c.speech ? TransformerUnitKind::kSpeechEmbedding : TransformerUnitKind::kEmbedding,
      "embedding", c.speech ? SpeechEmbeddingParameters(c) : EmbeddingParameters(c));
  units.back().borrows_tokens = !HasTokens(c);
  for (int64_t layer = 0; layer < c.layers; ++layer) {
    add(TransformerUnitKind::kLayer, absl::StrCat("h.", layer), LayerParameters(c, layer), layer);
  }
  if (c.final_norm && c.norm_is_unit) {
    UnitParameters unit(c, "");
    unit.Norm(ParameterRole::kFinalNorm, c.names.final_norm, c.hidden);
    add(TransformerUnitKind::kNorm, "norm", unit.Take());
  }
}

}  // namespace

int64_t TransformerConfig::longest_sequence() const {
  if (rotary.scaling != RotaryConfig::Scaling::kDynamic) return positions;
  return static_cast<int64_t>(static_cast<double>(positions) * rotary.factor);
}

std::vector<TransformerUnit> UnitsOf(const TransformerConfig& config) {
  std::vector<TransformerUnit> units;
  if (config.encoder) AddStack(*config.encoder, "encoder.", true, units);
  AddStack(config, config.encoder ? "decoder." : "", false, units);
  if (config.classifier) {
    units.push_back({TransformerUnitKind::kClassifier, "classifier", ClassifierParameters(config)});
    units.push_back({TransformerUnitKind::kLoss, "loss", {}});
  } else if (config.finds_spans) {
    units.push_back({TransformerUnitKind::kSpans, "spans", SpanParameters(config)});
    units.push_back({TransformerUnitKind::kLoss, "loss", {}});
  } else {
    if (config.masked) {
      units.push_back({TransformerUnitKind::kTransform, "transform", TransformParameters(config)});
    }
    units.push_back({TransformerUnitKind::kHead, "head", HeadParameters(config)});
    units.back().borrows_tokens = config.tied;
  }
  return units;
}

ModelShape ShapeOf(const TransformerConfig& config) {
  ModelShape shape;
  shape.model_type = config.model_type;
  shape.exact = true;
  shape.vocabulary = config.vocabulary;
  shape.hidden = config.hidden;
  shape.has_encoder = config.encoder != nullptr;
  if (config.hears()) shape.heard_positions = config.encoder->positions;
  shape.layers = config.layers + (config.encoder ? config.encoder->layers : 0);
  shape.heads = config.heads;
  shape.key_value_heads = config.key_value_heads;
  shape.head_size = config.head_size;
  shape.intermediate = config.intermediate;
  if (config.relative_buckets == 0) shape.positions = config.longest_sequence();
  shape.gated_mlp = config.gated;
  shape.causal = config.causal;
  shape.masked = config.masked;
  if (config.classifier || config.finds_spans)
    shape.classifier = config.names.classifier.substr(0, config.names.classifier.find('.'));
  shape.labels_tokens = config.classifier && config.classifier->of_tokens;
  shape.finds_spans = config.finds_spans;
  shape.tied = config.tied;
  int tokens = -1;  // the unit with the token embedding: the first that reads tokens
  for (const TransformerUnit& one : UnitsOf(config)) {
    if (tokens < 0 && one.kind == TransformerUnitKind::kEmbedding) {
      tokens = static_cast<int>(shape.model.units.size());
    }
    UnitDescription& unit = shape.model.units.emplace_back();
    unit.name = one.name;
    if (one.borrows_tokens) unit.borrows = {tokens};
    for (const TransformerParameter& parameter : one.parameters) {
      unit.parameters.push_back(Describe(parameter));
      if (parameter.frozen) shape.frozen.insert(parameter.name);
    }
  }
  return shape;
}

}  // namespace spillway
