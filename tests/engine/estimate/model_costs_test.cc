#include "engine/estimate/model_costs.h"

#include "engine/families/read_model_shape.h"
#include "engine/numeric/product_blocks.h"
#include "gtest/gtest.h"
#include "io/base/format_bytes.h"

namespace spillway {
namespace {

ModelShape CostsShapeOf(nlohmann::json config) {
  const auto document = ParseStrictJson(config.dump(), "config.json");
  auto shape = ReadModelShape(*document);
  EXPECT_TRUE(shape.ok()) << shape.status();
  return *std::move(shape);
}

const nlohmann::json kSmall = {{"model_type", "gpt2"}, {"vocab_size", 1000}, {"n_positions", 64},
                               {"n_embd", 32},         {"n_layer", 2},       {"n_head", 4}};

TEST(ModelCosts, OperationsOfAStepByHand) {
  const ModelShape shape = CostsShapeOf(kSmall);
  const StepFlops flops = FlopsOf(shape, {2, 3, 16});
  const double tokens = 2 * 3 * 16;
  // A layer's matrices are 12 h^2; a query sees 8 keys on average, twice 2 operations each.
  const double forward = 2 * tokens * (2 * 12 * 32 * 32 + 2 * 2 * 8 * 32);
  EXPECT_DOUBLE_EQ(flops.forward, forward);
  EXPECT_DOUBLE_EQ(flops.backward, 3 * forward + 3 * tokens * 2 * 1000 * 32);
}

TEST(ModelCosts, ALossHasAsManyRowsAsTokensAreMasked) {
  const ModelShape shape = CostsShapeOf({{"model_type", "bert"},
                                         {"architectures", {"BertForMaskedLM"}},
                                         {"vocab_size", 1000},
                                         {"hidden_size", 32},
                                         {"num_hidden_layers", 2},
                                         {"num_attention_heads", 4},
                                         {"intermediate_size", 64},
                                         {"max_position_embeddings", 64}});
  StepShape step = {2, 1, 64};
  const auto head = [&] {
    const StepFlops flops = FlopsOf(shape, step);
    return flops.backward - 3 * flops.forward;
  };
  const auto bytes = [&] {
    return ComputeMemoryOf(shape, shape.model, DType::kFloat32, step, Products()).working_bytes;
  };
  const double few = head();
  const uint64_t few_bytes = bytes();
  step.mask_probability = 0.9;
  EXPECT_DOUBLE_EQ(head(), few / 0.15 * 0.9);
  EXPECT_GT(bytes(), few_bytes);
}

TEST(ModelCosts, OfExpertsATokenPassesAFew) {
  nlohmann::json config = {{"hidden_size", 32},        {"num_hidden_layers", 1},
                           {"num_attention_heads", 4}, {"vocab_size", 1000},
                           {"num_local_experts", 8},   {"num_experts_per_tok", 2}};
  const StepFlops flops = FlopsOf(CostsShapeOf(config), {1, 1, 2});
  const double matrices = 4 * 32 * 32 + 8 * 32 + 2 * 8 * 32 * 32;
  EXPECT_DOUBLE_EQ(flops.forward, 2 * (2 * matrices + 2 * 2 * 1 * 32));
}

TEST(ModelCosts, ActivationsByHand) {
  const ModelShape shape = CostsShapeOf(kSmall);
  // fp32, 16 tokens. A hidden vector of all tokens is 2048 bytes; the head is largest.
  const uint64_t every = 16 * 16 + 4 * 2048;
  const uint64_t head = 2 * 32 * 4 + 3 * 2048 + 16 * 1000 * 4 + 1000 * 32 * 4;
  for (const bool fp32_products : {false, true}) {
    const auto total = [&](const StepShape& step) {
      return ComputeMemoryOf(shape, shape.model, DType::kFloat32, step, {.in_fp32 = fp32_products})
          .total_bytes();
    };
    EXPECT_EQ(total({1, 1, 16}), every + head);
    EXPECT_EQ(total({1, 5, 16}), 5 * every + head);
  }
}

// The head's, of 16 rows: blocks of [16 x 32] and [32 x 256], and their product.
TEST(ModelCosts, ProductsInFp32HaveTheirBlocksBeside) {
  const ModelShape shape = CostsShapeOf(kSmall);
  const auto total = [&](bool fp32_products) {
    return ComputeMemoryOf(shape, shape.model, DType::kBFloat16, {1, 1, 16},
                           {.in_fp32 = fp32_products})
        .total_bytes();
  };
  EXPECT_EQ(total(true) - total(false), (16 * 32 + 32 * 256 + 16 * 256) * 4u);
  // However large a matrix is.
  EXPECT_EQ(ProductBlocks(100000, 50257, 4000).bytes() / kMiB, 11u);
}

TEST(ModelCosts, LogitsOfALargeVocabularyAreCutIntoChunks) {
  nlohmann::json config = kSmall;
  config["vocab_size"] = 1 << 20;
  config["n_positions"] = 4096;
  const ModelShape shape = CostsShapeOf(config);
  const auto total = [&](const StepShape& step) {
    return ComputeMemoryOf(shape, shape.model, DType::kFloat32, step, {}).total_bytes();
  };
  const uint64_t least = total({1, 1, 32});
  const uint64_t most = total({1, 1, 4096});
  // 32 rows in either case: what grows is 4064 tokens' hidden vectors.
  EXPECT_LT(most - least, 4064u * 32 * 4 * 8);
}

}  // namespace
}  // namespace spillway
