#include "engine/model/model_shape.h"

#include <functional>

#include "absl/strings/str_cat.h"

namespace spillway {
namespace {

// Adds to one unit.
class UnitBuilder {
 public:
  UnitBuilder(ModelShape& shape, const std::string& name) {
    shape.model.units.emplace_back().name = name;
    unit_ = &shape.model.units.back();
  }

  void Add(const std::string& name, std::vector<int64_t> dimensions) {
    ParameterDescription parameter;
    parameter.name = name;
    parameter.shape = std::move(dimensions);
    unit_->parameters.push_back(std::move(parameter));
  }
  void Linear(const std::string& name, int64_t out, int64_t in, bool bias) {
    Add(name + ".weight", {out, in});
    if (bias) Add(name + ".bias", {out});
  }
  void Norm(const std::string& name, int64_t size, bool bias = true) {
    Add(name + ".weight", {size});
    if (bias) Add(name + ".bias", {size});
  }
  // The matrix of logits: its own, or the embedding's.
  void Logits(const ModelShape& shape, const std::string& name, int64_t width) {
    if (shape.tied) {
      unit_->borrows = {0};
    } else {
      Add(name, {shape.vocabulary, width});
    }
  }

 private:
  UnitDescription* unit_;
};

void ForLayers(ModelShape& shape,
               const std::function<void(UnitBuilder& unit, const std::string& number)>& add) {
  for (int64_t layer = 0; layer < shape.layers; ++layer) {
    UnitBuilder unit(shape, absl::StrCat("h.", layer));
    add(unit, absl::StrCat(layer));
  }
}

}  // namespace

int64_t LossChunkRows(int64_t vocabulary) {
  int64_t rows = 4096;
  while (rows > 16 && rows * vocabulary > int64_t{1} << 24) rows /= 2;
  return rows;
}

void DescribeGpt2Units(ModelShape& shape) {
  const int64_t d = shape.hidden, inner = shape.intermediate;
  UnitBuilder embedding(shape, "embedding");
  embedding.Add("transformer.wte.weight", {shape.vocabulary, d});
  embedding.Add("transformer.wpe.weight", {shape.positions, d});
  ForLayers(shape, [&](UnitBuilder& unit, const std::string& number) {
    const std::string prefix = absl::StrCat("transformer.h.", number, ".");
    // transformers' Conv1D: [in, out].
    const auto project = [&](const std::string& name, int64_t in, int64_t out) {
      unit.Add(prefix + name + ".weight", {in, out});
      unit.Add(prefix + name + ".bias", {out});
    };
    unit.Norm(prefix + "ln_1", d);
    project("attn.c_attn", d, 3 * d);
    project("attn.c_proj", d, d);
    unit.Norm(prefix + "ln_2", d);
    project("mlp.c_fc", d, inner);
    project("mlp.c_proj", inner, d);
  });
  UnitBuilder head(shape, "head");
  head.Norm("transformer.ln_f", d);
  head.Logits(shape, "lm_head.weight", d);
}

void DescribeLlamaUnits(const FamilyTraits& traits, ModelShape& shape) {
  const int64_t d = shape.hidden, inner = shape.intermediate;
  const int64_t queries = shape.heads * shape.head_size;
  const int64_t keys = shape.key_value_heads * shape.head_size;
  UnitBuilder(shape, "embedding").Add("model.embed_tokens.weight", {shape.vocabulary, d});
  ForLayers(shape, [&](UnitBuilder& unit, const std::string& number) {
    const std::string prefix = absl::StrCat("model.layers.", number, ".");
    const std::string attention = prefix + "self_attn.";
    unit.Linear(attention + "q_proj", queries, d, traits.query_bias);
    unit.Linear(attention + "k_proj", keys, d, traits.query_bias);
    unit.Linear(attention + "v_proj", keys, d, traits.query_bias);
    unit.Linear(attention + "o_proj", d, queries, traits.output_bias);
    if (traits.head_norms) {
      unit.Norm(attention + "q_norm", shape.head_size, false);
      unit.Norm(attention + "k_norm", shape.head_size, false);
    }
    unit.Linear(prefix + "mlp.gate_proj", inner, d, traits.mlp_bias);
    unit.Linear(prefix + "mlp.up_proj", inner, d, traits.mlp_bias);
    unit.Linear(prefix + "mlp.down_proj", d, inner, traits.mlp_bias);
    unit.Norm(prefix + "input_layernorm", d, false);
    unit.Norm(prefix + "post_attention_layernorm", d, false);
  });
  UnitBuilder head(shape, "head");
  head.Norm("model.norm", d, false);
  head.Logits(shape, "lm_head.weight", d);
}

void DescribeBertUnits(const FamilyTraits& traits, ModelShape& shape) {
  const int64_t d = shape.hidden;
  UnitBuilder embedding(shape, "embedding");
  embedding.Add("embeddings.word_embeddings.weight", {shape.vocabulary, d});
  embedding.Add("embeddings.position_embeddings.weight", {shape.positions, d});
  embedding.Add("embeddings.token_type_embeddings.weight", {traits.token_types, d});
  embedding.Norm("embeddings.LayerNorm", d);
  ForLayers(shape, [&](UnitBuilder& unit, const std::string& number) {
    const std::string prefix = absl::StrCat("encoder.layer.", number, ".");
    for (const char* name : {"query", "key", "value"}) {
      unit.Linear(absl::StrCat(prefix, "attention.self.", name), d, d, true);
    }
    unit.Linear(prefix + "attention.output.dense", d, d, true);
    unit.Norm(prefix + "attention.output.LayerNorm", d);
    unit.Linear(prefix + "intermediate.dense", shape.intermediate, d, true);
    unit.Linear(prefix + "output.dense", d, shape.intermediate, true);
    unit.Norm(prefix + "output.LayerNorm", d);
  });
  UnitBuilder(shape, "pooler").Linear("pooler.dense", d, d, true);
}

void DescribeNeoxUnits(const FamilyTraits& traits, ModelShape& shape) {
  const int64_t d = shape.hidden;
  UnitBuilder(shape, "embedding").Add("gpt_neox.embed_in.weight", {shape.vocabulary, d});
  ForLayers(shape, [&](UnitBuilder& unit, const std::string& number) {
    const std::string prefix = absl::StrCat("gpt_neox.layers.", number, ".");
    unit.Norm(prefix + "input_layernorm", d);
    unit.Norm(prefix + "post_attention_layernorm", d);
    unit.Linear(prefix + "attention.query_key_value", 3 * d, d, traits.query_bias);
    unit.Linear(prefix + "attention.dense", d, d, traits.output_bias);
    unit.Linear(prefix + "mlp.dense_h_to_4h", shape.intermediate, d, true);
    unit.Linear(prefix + "mlp.dense_4h_to_h", d, shape.intermediate, true);
  });
  UnitBuilder head(shape, "head");
  head.Norm("gpt_neox.final_layer_norm", d);
  head.Logits(shape, "lm_head.weight", d);
}

void DescribeOptUnits(const FamilyTraits& traits, ModelShape& shape) {
  const int64_t d = shape.hidden, width = traits.embedding_width;
  const std::string decoder = "model.decoder.";
  const auto norm = [&](UnitBuilder& unit, const std::string& name) {
    if (traits.norm_affine) unit.Norm(name, d);
  };
  UnitBuilder embedding(shape, "embedding");
  embedding.Add(decoder + "embed_tokens.weight", {shape.vocabulary, width});
  // Two positions for what fairseq padded with.
  embedding.Add(decoder + "embed_positions.weight", {shape.positions + 2, d});
  if (width != d) embedding.Add(decoder + "project_in.weight", {d, width});
  ForLayers(shape, [&](UnitBuilder& unit, const std::string& number) {
    const std::string prefix = absl::StrCat(decoder, "layers.", number, ".");
    for (const char* name : {"k_proj", "v_proj", "q_proj", "out_proj"}) {
      unit.Linear(absl::StrCat(prefix, "self_attn.", name), d, d, traits.query_bias);
    }
    norm(unit, prefix + "self_attn_layer_norm");
    unit.Linear(prefix + "fc1", shape.intermediate, d, traits.mlp_bias);
    unit.Linear(prefix + "fc2", d, shape.intermediate, traits.mlp_bias);
    norm(unit, prefix + "final_layer_norm");
  });
  UnitBuilder head(shape, "head");
  if (traits.final_norm) norm(head, decoder + "final_layer_norm");
  if (width != d) head.Add(decoder + "project_out.weight", {width, d});
  head.Logits(shape, "lm_head.weight", width);
}

void DescribeOtherUnits(ModelShape& shape) {
  const int64_t d = shape.hidden;
  const int64_t queries = shape.heads * shape.head_size;
  const int64_t keys = shape.key_value_heads * shape.head_size;
  UnitBuilder(shape, "embedding").Add("embedding.weight", {shape.vocabulary, d});
  ForLayers(shape, [&](UnitBuilder& unit, const std::string& number) {
    const std::string prefix = absl::StrCat("h.", number, ".");
    unit.Linear(prefix + "query", queries, d, false);
    unit.Linear(prefix + "key", keys, d, false);
    unit.Linear(prefix + "value", keys, d, false);
    unit.Linear(prefix + "output", d, queries, false);
    if (shape.experts > 1) unit.Linear(prefix + "router", shape.experts, d, false);
    // Experts lie side by side in one tensor.
    const auto matrix = [&](const std::string& name, int64_t out, int64_t in) {
      if (shape.experts == 1) return unit.Linear(prefix + name, out, in, false);
      unit.Add(prefix + name + ".weight", {shape.experts, out, in});
    };
    if (shape.gated_mlp) matrix("mlp.gate", shape.intermediate, d);
    matrix("mlp.up", shape.intermediate, d);
    matrix("mlp.down", d, shape.intermediate);
    unit.Norm(prefix + "norm_1", d, false);
    unit.Norm(prefix + "norm_2", d, false);
  });
  UnitBuilder head(shape, "head");
  head.Norm("norm", d, false);
  head.Logits(shape, "logits.weight", d);
}

}  // namespace spillway
