#include "engine/layers/transformer.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/layers/activation.h"
#include "engine/layers/attention.h"
#include "engine/layers/classifier.h"
#include "engine/layers/label_loss.h"
#include "engine/layers/language_head.h"
#include "engine/layers/masked_head.h"
#include "engine/layers/relative_bias.h"
#include "engine/layers/rotary.h"
#include "engine/layers/span_head.h"
#include "engine/layers/speech_embedding.h"
#include "engine/layers/transformer_part.h"
#include "engine/torch/text_batch.h"
#include "engine/torch/token_embedding.h"

namespace spillway {
namespace {

using torch::Tensor;
using Role = ParameterRole;

// Dropout sites of a block; attention uses the following ones.
constexpr int kAttentionOutputSite = 0;
constexpr int kMlpOutputSite = 1;
constexpr int kAttentionSite = 2;
constexpr int kCrossOutputSite = 1 << 21;
constexpr int kInnerSite = kCrossOutputSite + 1;
constexpr int kCrossAttentionSite = kCrossOutputSite + 2;

class EmbeddingUnit : public Unit, TransformerPart {
 public:
  // `input`: the field that has the ids; "": the batch's inputs.
  EmbeddingUnit(std::shared_ptr<const TransformerConfig> config, const TransformerUnit& unit,
                std::string input, std::vector<BorrowedParameter> borrowed)
      : TransformerPart(std::move(config), unit),
        name_(unit.name),
        input_(std::move(input)),
        borrowed_(std::move(borrowed)) {}

  std::string name() const override { return name_; }

  std::string input() const override { return input_; }

  std::vector<BorrowedParameter> borrowed() const override { return borrowed_; }

  int looks_up() const override { return borrowed_.empty() ? Position(Role::kTokens) : -1; }

  std::vector<ParameterSpec> parameters() const override { return specs_; }

  Tensor Forward(const UnitContext& context, const Parameters& p,
                 const Tensor& ids) const override {
    const Tensor embedded =
        config_.positions_skip_padding ? EmbedPadded(p, ids) : Embed(context, p, ids, 0);
    return context.Dropout(Complete(context, p, embedded), config_.embedding_dropout, 0);
  }

  int64_t KeptPerPosition() const override { return 0; }

  Tensor ForwardNext(const UnitContext& context, const Parameters& p, const Tensor& ids,
                     const TextPosition& at) const override {
    return Complete(context, p, Embed(context, p, ids, at.first));
  }

 private:
  // Adds the other embeddings, and the norm if the model has one.
  Tensor Complete(const UnitContext& context, const Parameters& p, Tensor sum) const {
    if (Has(Role::kTokenTypes)) {
      sum = sum + TokenEmbedding(context.field(kTokenTypesField), Weight(p, Role::kTokenTypes));
    }
    const bool left = Has(Role::kEmbeddingNorm) && !config_.norm_before_positions;
    return left ? Normalise(p, Role::kEmbeddingNorm, sum) : sum;
  }

  // transformers' create_position_ids_from_input_ids, including the padding's row.
  Tensor EmbedPadded(const Parameters& p, const Tensor& ids) const {
    const Tensor counts = ids.ne(config_.position_offset - 1);
    const Tensor rows = torch::cumsum(counts, 1) * counts + (config_.position_offset - 1);
    return TokenEmbedding(ids, Weight(p, Role::kTokens), {}, config_.padding_token) +
           TokenEmbedding(rows, Weight(p, Role::kPositions), {}, config_.position_offset - 1);
  }

  // `first`: the position of the first id, if all are of one text.
  Tensor Embed(const UnitContext& context, const Parameters& p, const Tensor& ids,
               int64_t first) const {
    const Tensor tokens = Weight(p, Role::kTokens);
    const bool in_texts = !context.texts().empty();
    std::optional<Tensor> positions;
    if (Has(Role::kPositions) && !in_texts) positions = Weight(p, Role::kPositions);
    first += config_.position_offset;
    if (first > 0 && positions) positions = positions->slice(0, first);
    Tensor wide;
    const double scale = config_.embedding_scale;
    if (!Has(Role::kProjectIn) && scale == 1 && !config_.norm_before_positions) {
      wide = TokenEmbedding(ids, tokens, positions, config_.padding_token);
    } else {
      wide = TokenEmbedding(ids, tokens, {}, config_.padding_token);
      if (Has(Role::kProjectIn)) wide = Project(context, p, Role::kProjectIn, wide);
      if (scale != 1) wide = wide * scale;
      if (config_.norm_before_positions) wide = Normalise(p, Role::kEmbeddingNorm, wide);
      if (positions) wide = wide + positions->narrow(0, 0, ids.size(1));
    }
    if (!in_texts || !Has(Role::kPositions)) return wide;
    // Rows of the matrix, looked up like tokens.
    std::vector<Tensor> rows;
    for (const int64_t text : context.texts()) {
      rows.push_back(torch::arange(first, first + text, ids.options().dtype(torch::kInt64)));
    }
    return wide + TokenEmbedding(torch::cat(rows).view_as(ids), Weight(p, Role::kPositions));
  }

  const std::string name_, input_;
  const std::vector<BorrowedParameter> borrowed_;
};

class BlockUnit : public Unit, TransformerPart {
 public:
  // `reads`: the unit of the stack's biases, then that of the encoder's output, if they exist.
  BlockUnit(std::shared_ptr<const TransformerConfig> config, const TransformerUnit& unit,
            std::vector<int> reads)
      : TransformerPart(std::move(config), unit),
        name_(unit.name),
        layer_(unit.layer),
        reads_(std::move(reads)) {}

  std::string name() const override { return name_; }

  std::string kind() const override {
    return absl::StrCat(config_.causal ? "block" : "encoder's block", ", window ", window());
  }

  std::vector<ParameterSpec> parameters() const override { return specs_; }

  std::vector<int> reads() const override { return reads_; }

  Tensor Forward(const UnitContext& context, const Parameters& p, const Tensor& x) const override {
    AttentionOptions options = OptionsIn(context);
    options.dropout = context.training() ? config_.attention_dropout : 0;
    options.fp32_scores &= x.scalar_type() != torch::kFloat32;
    if (config_.relative_buckets > 0) options.biases = context.values().front();
    const Tensor attended = Attend(context, HeadsOf(context, p, x, 0), options);
    if (config_.encoder == nullptr) return Finish(context, p, x, attended, {});
    return Finish(context, p, x, attended, SeenOf(context, p, context.values().back()));
  }

  // Keys, then values; for a source those that this text attends to.
  int64_t KeptPerPosition() const override {
    if (!config_.causal) return -1;
    return 2 * (config_.encoder ? config_.heads : config_.key_value_heads) * config_.head_size;
  }

  Tensor ForwardNext(const UnitContext& context, const Parameters& p, const Tensor& x,
                     const TextPosition& at) const override {
    const AttentionHeads heads = HeadsOf(context, p, x, at.first);
    const int64_t length = x.size(1);
    Seen seen;
    if (config_.encoder) {
      const Tensor kept = at.kept.narrow(0, 0, at.source);
      if (at.first == 0) {
        seen = SeenOf(context, p, context.values().back());
        Keep(seen.keys, seen.values, kept);
      } else {
        seen = KeptIn(kept, config_.heads);
      }
    }
    Keep(heads.keys, heads.values, at.kept.narrow(0, at.source + at.first, length));
    AttentionOptions options = OptionsIn(context);
    options.fp32_scores &= x.scalar_type() != torch::kFloat32;
    if (config_.relative_buckets > 0) options.biases = context.values().front();
    if (at.first == 0) return Finish(context, p, x, Attend(context, heads, options), seen);
    const Tensor all = at.kept.narrow(0, at.source, at.first + length);
    const int64_t width = heads.keys.size(2) * heads.keys.size(3);
    const Tensor mixed = AttendToSeen(heads.queries[0].flatten(1), all.narrow(1, 0, width),
                                      all.narrow(1, width, width), options);
    return Finish(context, p, x, mixed.unsqueeze(0), seen);
  }

 private:
  // The encoder's output as a decoder attends to it: [samples, n, heads, size].
  struct Seen {
    Tensor keys, values;
    Tensor visible;  // AttentionOptions::visible
  };
  Seen SeenOf(const UnitContext& context, const Parameters& p, const Tensor& encoded) const {
    const auto split = [&](const Tensor& y) {
      return y.view({y.size(0), y.size(1), config_.heads, -1});
    };
    return {
        split(Project(context, p, Role::kCrossKey, encoded)),
        split(Project(context, p, Role::kCrossValue, encoded)),
        context.batch() == nullptr || config_.hears() ? Tensor() : context.field(kVisibleField)};
  }

  // Stores keys and values [1, n, heads, size] in one row per position, and the reverse.
  static void Keep(const Tensor& keys, const Tensor& values, const Tensor& rows) {
    const int64_t width = keys.size(2) * keys.size(3);
    rows.narrow(1, 0, width).copy_(keys[0].flatten(1));
    rows.narrow(1, width, width).copy_(values[0].flatten(1));
  }
  static Seen KeptIn(const Tensor& rows, int64_t heads) {
    const std::vector<Tensor> halves = rows.unsqueeze(0).chunk(2, 2);
    return {halves[0].unflatten(2, {heads, -1}), halves[1].unflatten(2, {heads, -1}), {}};
  }

  // `first`: the position of x's first row.
  AttentionHeads HeadsOf(const UnitContext& context, const Parameters& p, const Tensor& x,
                         int64_t first) const {
    const Tensor in =
        config_.order == TransformerConfig::Order::kPostNorm ? x : Normalise(p, Role::kNorm1, x);
    const auto split = [&](const Tensor& y, int64_t heads) {
      return y.view({x.size(0), x.size(1), heads, -1});
    };
    AttentionHeads found;
    if (config_.fused == TransformerConfig::Fused::kNo) {
      found.queries = split(Project(context, p, Role::kQuery, in), config_.heads);
      found.keys = split(Project(context, p, Role::kKey, in), config_.key_value_heads);
      found.values = split(Project(context, p, Role::kValue, in), config_.key_value_heads);
    } else {
      const Tensor all = Project(context, p, Role::kQueryKeyValue, in);
      const bool by_head = config_.fused == TransformerConfig::Fused::kByHead;
      const int64_t keys = config_.key_value_heads * config_.head_size;
      const std::vector<Tensor> parts =
          by_head ? split(all, config_.heads).chunk(3, 3)
                  : all.split_with_sizes({config_.heads * config_.head_size, keys, keys}, 2);
      found.queries = by_head ? parts[0] : split(parts[0], config_.heads);
      found.keys = by_head ? parts[1] : split(parts[1], config_.key_value_heads);
      found.values = by_head ? parts[2] : split(parts[2], config_.key_value_heads);
      if (!by_head && config_.rotary.size == 0) found.fused = all;
    }
    if (Has(Role::kQueryNorm)) {
      found.queries = Normalise(p, Role::kQueryNorm, found.queries);
      found.keys = Normalise(p, Role::kKeyNorm, found.keys);
    }
    if (config_.rotary.size > 0) {
      const RotaryAngles angles = AnglesIn(context, x, first);
      found.queries = Rotate(found.queries, angles);
      found.keys = Rotate(found.keys, angles);
    }
    return found;
  }

  // The angles of x's positions.
  RotaryAngles AnglesIn(const UnitContext& context, const Tensor& x, int64_t first) const {
    const std::vector<int64_t>& texts = context.texts();
    if (texts.empty()) return AnglesOf(config_.rotary, first, x.size(1), x.device());
    const RotaryAngles all = AnglesOfTexts(config_.rotary, texts, x.device());
    const std::vector<int64_t> sizes = {x.size(0), x.size(1), -1};
    return {all.cosines.view(sizes), all.sines.view(sizes)};
  }

  // Computes the rest of the block after attention, whose result is `attended`. `seen`: the
  // encoder's output, if any.
  Tensor Finish(const UnitContext& context, const Parameters& p, const Tensor& x,
                const Tensor& attended, const Seen& seen) const {
    const double drop = config_.residual_dropout;
    const Tensor added =
        context.Dropout(Project(context, p, Role::kAttentionOutput, attended),
                        config_.attention_output_dropout ? drop : 0, kAttentionOutputSite);
    const auto mlp = [&](const Tensor& in) {
      return context.Dropout(Mlp(context, p, in), drop, kMlpOutputSite);
    };
    const auto cross = [&](const Tensor& in) {
      return context.Dropout(AttendToSource(context, p, in, seen), drop, kCrossOutputSite);
    };
    switch (config_.order) {
      case TransformerConfig::Order::kPreNorm: {
        Tensor middle = x + added;
        if (config_.encoder) middle = middle + cross(Normalise(p, Role::kCrossNorm, middle));
        return middle + mlp(Normalise(p, Role::kNorm2, middle));
      }
      case TransformerConfig::Order::kPostNorm: {
        Tensor middle = Normalise(p, Role::kNorm1, x + added);
        if (config_.encoder) middle = Normalise(p, Role::kCrossNorm, middle + cross(middle));
        return Normalise(p, Role::kNorm2, middle + mlp(middle));
      }
      case TransformerConfig::Order::kParallel:
        return mlp(Normalise(p, Role::kNorm2, x)) + added + x;
    }
    TORCH_CHECK(false, "unknown order of a layer");
  }

  // Every position attends to the whole source.
  Tensor AttendToSource(const UnitContext& context, const Parameters& p, const Tensor& x,
                        const Seen& seen) const {
    const Tensor queries =
        Project(context, p, Role::kCrossQuery, x).view({x.size(0), x.size(1), config_.heads, -1});
    AttentionOptions options = OptionsIn(context);
    options.dropout = context.training() ? config_.attention_dropout : 0;
    options.fp32_scores &= x.scalar_type() != torch::kFloat32;
    options.first_site = kCrossAttentionSite;
    options.causal = false;
    options.visible = seen.visible;
    return Project(context, p, Role::kCrossOutput,
                   Attend(context, {queries, seen.keys, seen.values}, options));
  }

  Tensor Mlp(const UnitContext& context, const Parameters& p, const Tensor& x) const {
    Tensor gate, up;
    if (Has(Role::kGateUp)) {
      const std::vector<Tensor> halves = Project(context, p, Role::kGateUp, x).chunk(2, -1);
      gate = halves[0];
      up = halves[1];
    } else {
      up = Project(context, p, Role::kUp, x);
      if (config_.gated) gate = Project(context, p, Role::kGate, x);
    }
    const Tensor inner =
        config_.gated ? Activate(config_.activation, gate) * up : Activate(config_.activation, up);
    return Project(context, p, Role::kDown,
                   context.Dropout(inner, config_.inner_dropout, kInnerSite));
  }

  int64_t window() const { return config_.windows.empty() ? 0 : config_.windows[layer_]; }

  AttentionOptions OptionsIn(const UnitContext& context) const {
    AttentionOptions options;
    options.heads = config_.heads;
    options.key_value_heads = config_.key_value_heads;
    options.window = window();
    options.scale = config_.score_scale;
    if (config_.scale_by_layer) options.scale /= static_cast<double>(layer_ + 1);
    options.first_site = kAttentionSite;
    options.fp32_scores = config_.fp32_scores;
    options.fp32_products = context.fp32_products();
    options.causal = config_.causal;
    if (!config_.causal && !config_.speech) options.visible = context.field(kVisibleField);
    return options;
  }

  const std::string name_;
  const int64_t layer_;
  const std::vector<int> reads_;
};

// The norm after a stack's layers.
class NormUnit : public Unit, TransformerPart {
 public:
  NormUnit(std::shared_ptr<const TransformerConfig> config, const TransformerUnit& unit)
      : TransformerPart(std::move(config), unit), name_(unit.name) {}

  std::string name() const override { return name_; }

  std::vector<ParameterSpec> parameters() const override { return specs_; }

  Tensor Forward(const UnitContext& context, const Parameters& p, const Tensor& x) const override {
    return context.Dropout(Normalise(p, Role::kFinalNorm, x), config_.final_dropout, 0);
  }

  int64_t KeptPerPosition() const override { return 0; }

  Tensor ForwardNext(const UnitContext& context, const Parameters& p, const Tensor& x,
                     const TextPosition& at) const override {
    return Forward(context, p, x);
  }

 private:
  const std::string name_;
};

}  // namespace

absl::StatusOr<Model> BuildTransformer(const TransformerConfig& config) {
  for (const TransformerConfig* stack = &config; stack != nullptr; stack = stack->encoder.get()) {
    const int64_t smallest =
        std::min({stack->vocabulary, stack->positions, stack->hidden, stack->layers, stack->heads,
                  stack->key_value_heads, stack->head_size, stack->intermediate});
    if (smallest >= 1 && stack->heads % stack->key_value_heads == 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("a decoder's sizes must be positive, and its ", stack->key_value_heads,
                     " key-value heads divide its ", stack->heads, " heads"));
  }
  Model model;
  int tokens_unit = -1, bias_unit = -1, encoder_unit = -1;
  const auto shared = std::make_shared<const TransformerConfig>(config);
  for (const TransformerUnit& unit : UnitsOf(config)) {
    const auto& stack = unit.in_encoder ? shared->encoder : shared;
    const int number = static_cast<int>(model.units.size());
    const char* const ids = config.encoder == nullptr ? ""
                            : unit.in_encoder         ? kSourceField
                                                      : kTargetField;
    std::vector<BorrowedParameter> borrowed;
    if (unit.borrows_tokens) borrowed = {{tokens_unit, 0}};
    switch (unit.kind) {
      case TransformerUnitKind::kRelativeBias:
        bias_unit = number;
        model.units.push_back(NewRelativeBiasUnit(stack, unit, ids));
        break;
      case TransformerUnitKind::kSpeechEmbedding:
        model.units.push_back(NewSpeechEmbeddingUnit(stack, unit));
        break;
      case TransformerUnitKind::kEmbedding:
        if (tokens_unit < 0) tokens_unit = number;
        model.units.push_back(std::make_shared<EmbeddingUnit>(stack, unit, ids, borrowed));
        break;
      case TransformerUnitKind::kLayer: {
        std::vector<int> reads;
        if (stack->relative_buckets > 0) reads.push_back(bias_unit);
        if (stack->encoder) reads.push_back(encoder_unit);
        model.units.push_back(std::make_shared<BlockUnit>(stack, unit, std::move(reads)));
        break;
      }
      case TransformerUnitKind::kNorm:
        model.units.push_back(std::make_shared<NormUnit>(stack, unit));
        break;
      case TransformerUnitKind::kClassifier:
        model.units.push_back(NewClassifierUnit(stack, unit));
        break;
      case TransformerUnitKind::kSpans:
        model.units.push_back(NewSpanUnit(stack, unit));
        break;
      case TransformerUnitKind::kTransform:
        model.units.push_back(NewTransformUnit(stack, unit));
        break;
      case TransformerUnitKind::kHead:
        if (config.masked) {
          model.loss = NewMaskedLoss(stack, unit, borrowed);
        } else {
          model.loss = std::make_shared<LanguageHead>(stack, unit, borrowed);
        }
        break;
      case TransformerUnitKind::kLoss:
        model.loss = config.finds_spans ? NewSpanLoss() : NewLabelLoss(*config.classifier);
        break;
    }
    if (unit.in_encoder) encoder_unit = number;
  }
  model.encoder_units = encoder_unit + 1;
  return model;
}

}  // namespace spillway
