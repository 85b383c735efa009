#include "engine/torch/unit_graph.h"

#include "gtest/gtest.h"

namespace spillway {
namespace {

using torch::Tensor;

// Saves its weights for backward as they are, as views, and within a product of its own.
class Layered : public Unit {
 public:
  std::string name() const override { return "layered"; }
  std::vector<ParameterSpec> parameters() const override {
    return {{"a", {8, 6}, {}}, {"b", {6}, {}}, {"c", {4, 6}, {}}, {"unused", {3}, {}}};
  }
  Tensor Forward(const UnitContext& context, const std::vector<Tensor>& p,
                 const Tensor& x) const override {
    const Tensor y = torch::layer_norm(torch::addmm(p[1], x, p[0]), {6}, p[1], p[1]);
    return context.Dropout(torch::mm(torch::gelu(y), p[2].t()), 0.2, 0);
  }
};

class UnitGraphTest : public testing::Test {
 protected:
  UnitGraphTest() {
    torch::manual_seed(7);
    for (const ParameterSpec& spec : unit_.parameters()) {
      values_.push_back(torch::randn(spec.shape, torch::kBFloat16));
    }
    x_ = torch::randn({5, 8}, torch::kBFloat16);
    gradient_ = torch::randn({5, 4}, torch::kBFloat16);
  }

  // The weights at an address of their own.
  std::vector<ParameterView> ViewsAt(std::vector<Tensor>& memory) const {
    std::vector<ParameterView> views;
    for (const Tensor& value : values_) {
      memory.push_back(value.clone());
      ParameterView view;
      view.weights = torch::from_blob(memory.back().data_ptr(), value.sizes(), value.options());
      views.push_back(view);
    }
    return views;
  }
  UnitGraph Build(const std::vector<ParameterView>& views, bool input = true) const {
    return UnitGraph(unit_, UnitContext(1, 2, 3, {0, 1, 2, 3, 4}, true), views, x_, {input, {}});
  }

  static void ExpectSame(const UnitGraph::Gradients& a, const UnitGraph::Gradients& b) {
    ASSERT_EQ(a.parameters.size(), b.parameters.size());
    for (size_t i = 0; i < a.parameters.size(); ++i) {
      ASSERT_EQ(a.parameters[i].defined(), b.parameters[i].defined()) << i;
      if (a.parameters[i].defined()) {
        EXPECT_TRUE(torch::equal(a.parameters[i], b.parameters[i])) << i;
      }
    }
    ASSERT_TRUE(a.input.defined() && b.input.defined());
    EXPECT_TRUE(torch::equal(a.input, b.input));
  }

  const Layered unit_;
  std::vector<Tensor> values_;
  Tensor x_, gradient_;
};

TEST_F(UnitGraphTest, WeightsThatMovedInTheMeantimeAreFound) {
  std::vector<Tensor> here, there;
  const auto views = ViewsAt(here), moved = ViewsAt(there);
  UnitGraph plain = Build(views);
  const auto expected = std::move(plain).Differentiate(views, gradient_, 1);

  UnitGraph kept = Build(views);
  const Tensor y = kept.output().clone();
  for (Tensor& memory : here) memory.fill_(1e30);  // another unit's, by now
  const auto found = std::move(kept).Differentiate(moved, gradient_, 1);
  ExpectSame(expected, found);
  EXPECT_TRUE(torch::equal(y, Build(moved).output()));

  // The test can tell: with the overwritten weights it is another gradient.
  UnitGraph stale = Build(moved);
  const auto wrong = std::move(stale).Differentiate(views, gradient_, 1);
  EXPECT_FALSE(torch::equal(expected.input, wrong.input));
}

TEST_F(UnitGraphTest, WhatIsNotUsedOrNotWantedHasNoGradient) {
  std::vector<Tensor> here;
  const auto views = ViewsAt(here);
  UnitGraph graph = Build(views, /*input=*/false);
  const auto found = std::move(graph).Differentiate(views, gradient_, 1);
  ASSERT_EQ(found.parameters.size(), 4u);
  EXPECT_TRUE(found.parameters[0].defined());
  EXPECT_FALSE(found.parameters[3].defined());
  EXPECT_FALSE(found.input.defined());
}

TEST_F(UnitGraphTest, WhatIsFrozenAndReadsNothingTrainedHasNone) {
  std::vector<Tensor> here;
  auto views = ViewsAt(here);
  for (ParameterView& view : views) view.frozen = true;
  UnitGraph graph = Build(views, /*input=*/false);
  const auto found = std::move(graph).Differentiate(views, gradient_, 1);
  for (const Tensor& gradient : found.parameters) EXPECT_FALSE(gradient.defined());
  EXPECT_FALSE(found.input.defined());
}

TEST_F(UnitGraphTest, AnOutputHasNoGraph) {
  std::vector<Tensor> here;
  const auto views = ViewsAt(here);
  EXPECT_FALSE(Build(views).output().requires_grad());
}

}  // namespace
}  // namespace spillway
