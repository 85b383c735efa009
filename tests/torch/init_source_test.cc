#include "engine/torch/init_source.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "engine/layers/transformer.h"
#include "tests/transformer_config.h"

namespace spillway {
namespace {

TEST(InitSource, ThePaddingTokensRowIsZero) {
  TransformerConfig config = SmallGpt2Config(20, 8, 16, 32, 1, 2).transformer;
  config.padding_token = 3;
  const Model model = *BuildTransformer(config);
  const ParameterSpec tokens = model.units[0]->parameters()[0];
  const int64_t width = tokens.shape[1];
  InitSource init(model, 1);
  std::vector<float> values(8 * width);
  // In two parts that meet within the row.
  const int64_t cut = 3 * width + 1;
  ASSERT_TRUE(init.Read(tokens.name, 0, cut, values.data()).ok());
  ASSERT_TRUE(init.Read(tokens.name, cut, values.size() - cut, values.data() + cut).ok());
  for (int64_t row = 0; row < 8; ++row) {
    const auto begin = values.begin() + row * width;
    EXPECT_EQ(std::count(begin, begin + width, 0.0f), row == 3 ? width : 0) << row;
  }
}

}  // namespace
}  // namespace spillway
