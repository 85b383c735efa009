#include "engine/families/decoder_config.h"

#include "absl/strings/str_cat.h"

namespace spillway {
namespace {

// Gathers the parameters of one unit.
class UnitParameters {
 public:
  UnitParameters(const DecoderConfig& config, std::string prefix)
      : config_(config), prefix_(std::move(prefix)) {}

  void Matrix(DecoderRole role, const std::string& name, std::vector<int64_t> shape) {
    found_.push_back({role, false, prefix_ + name, std::move(shape)});
  }
  void Project(DecoderRole role, const std::string& name, int64_t in, int64_t out, bool bias) {
    if (name.empty()) return;
    if (config_.conv1d) {
      Matrix(role, name + ".weight", {in, out});
    } else {
      Matrix(role, name + ".weight", {out, in});
    }
    if (bias) found_.push_back({role, true, prefix_ + name + ".bias", {out}});
  }
  void Norm(DecoderRole role, const std::string& name, int64_t size) {
    if (name.empty() || !config_.norm_affine) return;
    Matrix(role, name + ".weight", {size});
    if (config_.norm == DecoderConfig::Norm::kLayer) {
      found_.push_back({role, true, prefix_ + name + ".bias", {size}});
    }
  }
  std::vector<DecoderParameter> Take() { return std::move(found_); }

 private:
  const DecoderConfig& config_;
  const std::string prefix_;
  std::vector<DecoderParameter> found_;
};

std::vector<DecoderParameter> EmbeddingParameters(const DecoderConfig& c) {
  UnitParameters unit(c, "");
  unit.Matrix(DecoderRole::kTokens, c.names.tokens, {c.vocabulary, c.embedding_width});
  if (!c.names.positions.empty()) {
    unit.Matrix(DecoderRole::kPositions, c.names.positions,
                {c.positions + c.position_offset, c.hidden});
  }
  if (c.token_types > 0) {
    unit.Matrix(DecoderRole::kTokenTypes, c.names.token_types, {c.token_types, c.hidden});
  }
  unit.Norm(DecoderRole::kEmbeddingNorm, c.names.embedding_norm, c.hidden);
  if (c.embedding_width != c.hidden) {
    unit.Project(DecoderRole::kProjectIn, c.names.project_in, c.embedding_width, c.hidden, false);
  }
  return unit.Take();
}

std::vector<DecoderParameter> LayerParameters(const DecoderConfig& c, int64_t layer) {
  const DecoderNames& names = c.names;
  const int64_t d = c.hidden;
  const int64_t queries = c.heads * c.head_size, keys = c.key_value_heads * c.head_size;
  UnitParameters unit(c, absl::StrCat(names.layer, layer, "."));
  unit.Norm(DecoderRole::kNorm1, names.norm_1, d);
  if (c.fused != DecoderConfig::Fused::kNo) {
    unit.Project(DecoderRole::kQueryKeyValue, names.query_key_value, d, queries + 2 * keys,
                 c.query_bias);
  } else {
    unit.Project(DecoderRole::kQuery, names.query, d, queries, c.query_bias);
    unit.Project(DecoderRole::kKey, names.key, d, keys, c.query_bias);
    unit.Project(DecoderRole::kValue, names.value, d, keys, c.query_bias);
  }
  unit.Project(DecoderRole::kAttentionOutput, names.attention_output, queries, d, c.output_bias);
  unit.Norm(DecoderRole::kQueryNorm, names.query_norm, c.head_size);
  unit.Norm(DecoderRole::kKeyNorm, names.key_norm, c.head_size);
  unit.Norm(DecoderRole::kNorm2, names.norm_2, d);
  if (c.gated) unit.Project(DecoderRole::kGate, names.gate, d, c.intermediate, c.mlp_bias);
  unit.Project(DecoderRole::kUp, names.up, d, c.intermediate, c.mlp_bias);
  unit.Project(DecoderRole::kDown, names.down, c.intermediate, d, c.mlp_bias);
  return unit.Take();
}

std::vector<DecoderParameter> HeadParameters(const DecoderConfig& c) {
  UnitParameters unit(c, "");
  if (c.final_norm) unit.Norm(DecoderRole::kFinalNorm, c.names.final_norm, c.hidden);
  if (c.embedding_width != c.hidden) {
    unit.Project(DecoderRole::kProjectOut, c.names.project_out, c.hidden, c.embedding_width, false);
  }
  if (!c.tied) {
    unit.Matrix(DecoderRole::kLogits, c.names.logits, {c.vocabulary, c.embedding_width});
  }
  return unit.Take();
}

std::vector<DecoderParameter> ClassifierParameters(const DecoderConfig& c) {
  UnitParameters unit(c, "");
  const auto labels = static_cast<int64_t>(c.classifier->labels.size());
  unit.Project(DecoderRole::kPooler, c.names.pooler, c.hidden, c.hidden, true);
  unit.Project(DecoderRole::kClassifier, c.names.classifier, c.hidden, labels, true);
  return unit.Take();
}

std::string NameOfUnit(const DecoderConfig& config, int64_t unit) {
  if (unit == 0) return "embedding";
  if (unit <= config.layers) return absl::StrCat("h.", unit - 1);
  if (!config.classifier) return "head";
  return unit == config.layers + 1 ? "classifier" : "loss";
}

}  // namespace

int64_t DecoderConfig::longest_sequence() const {
  if (rotary.scaling != RotaryConfig::Scaling::kDynamic) return positions;
  return static_cast<int64_t>(static_cast<double>(positions) * rotary.factor);
}

std::vector<std::vector<DecoderParameter>> ParametersOf(const DecoderConfig& config) {
  std::vector<std::vector<DecoderParameter>> units = {EmbeddingParameters(config)};
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    units.push_back(LayerParameters(config, layer));
  }
  if (config.classifier) {
    units.push_back(ClassifierParameters(config));
    units.emplace_back();
  } else {
    units.push_back(HeadParameters(config));
  }
  return units;
}

LinearWeight LinearFormOf(const DecoderParameter& parameter, const DecoderConfig& config) {
  switch (parameter.role) {
    case DecoderRole::kProjectIn:
    case DecoderRole::kQueryKeyValue:
    case DecoderRole::kQuery:
    case DecoderRole::kKey:
    case DecoderRole::kValue:
    case DecoderRole::kAttentionOutput:
    case DecoderRole::kGate:
    case DecoderRole::kUp:
    case DecoderRole::kDown:
    case DecoderRole::kProjectOut:
    case DecoderRole::kPooler:
    case DecoderRole::kClassifier:
      if (parameter.is_bias) return LinearWeight::kNone;
      return config.conv1d ? LinearWeight::kInOut : LinearWeight::kOutIn;
    default:
      return LinearWeight::kNone;
  }
}

ModelShape ShapeOf(const DecoderConfig& config) {
  ModelShape shape;
  shape.model_type = config.model_type;
  shape.exact = true;
  shape.vocabulary = config.vocabulary;
  shape.hidden = config.hidden;
  shape.layers = config.layers;
  shape.heads = config.heads;
  shape.key_value_heads = config.key_value_heads;
  shape.head_size = config.head_size;
  shape.intermediate = config.intermediate;
  shape.positions = config.longest_sequence();
  shape.gated_mlp = config.gated;
  shape.causal = config.causal;
  if (config.classifier)
    shape.classifier = config.names.classifier.substr(0, config.names.classifier.find('.'));
  shape.tied = config.tied;
  const std::vector<std::vector<DecoderParameter>> units = ParametersOf(config);
  for (size_t i = 0; i < units.size(); ++i) {
    UnitDescription& unit = shape.model.units.emplace_back();
    unit.name = NameOfUnit(config, static_cast<int64_t>(i));
    for (const DecoderParameter& parameter : units[i]) {
      ParameterDescription& described = unit.parameters.emplace_back();
      described.name = parameter.name;
      described.shape = parameter.shape;
      described.linear = LinearFormOf(parameter, config);
    }
  }
  if (config.tied) shape.model.units.back().borrows = {0};
  return shape;
}

}  // namespace spillway
