#include "engine/model/model_shape.h"

#include <functional>

#include "absl/strings/str_cat.h"

namespace spillway {
namespace {

// Appends parameters to one unit.
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
  while (rows > 16 && rows * vocabulary > int64_t{1} << (rows > 256 ? 24 : 25)) rows /= 2;
  return rows;
}

void DescribeBertUnits(int64_t token_types, ModelShape& shape) {
  const int64_t d = shape.hidden;
  UnitBuilder embedding(shape, "embedding");
  embedding.Add("embeddings.word_embeddings.weight", {shape.vocabulary, d});
  embedding.Add("embeddings.position_embeddings.weight", {shape.positions, d});
  embedding.Add("embeddings.token_type_embeddings.weight", {token_types, d});
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
    // Experts are concatenated in one tensor.
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
