#include "engine/torch/describe_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>

#include "tests/torch/small_model.h"

namespace spillway {
namespace {

using testing::HasSubstr;

// What is said of the small model after `change`.
std::string Refusal(const std::function<void(Model&, SmallUnit&, SmallLoss&)>& change) {
  const auto unit = std::make_shared<SmallUnit>();
  const auto loss = std::make_shared<SmallLoss>();
  Model model{{unit}, loss};
  change(model, *unit, *loss);
  const absl::Status status = DescribeModel(model).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  return std::string(status.message());
}

TEST(DescribeModel, AModelThatCannotBeIsRefusedByUnitAndRemedy) {
  EXPECT_TRUE(DescribeModel({{std::make_shared<SmallUnit>()}, std::make_shared<SmallLoss>()}).ok());
  EXPECT_THAT(Refusal([](Model& model, SmallUnit&, SmallLoss&) {
                model.units.insert(model.units.begin(), nullptr);
              }),
              HasSubstr("unit 0 of Model::units is null"));
  EXPECT_THAT(
      Refusal([](Model& model, SmallUnit&, SmallLoss&) { model.units.push_back(model.units[0]); }),
      HasSubstr("two parameters named \"small.w\", in unit \"small\" and in unit \"small\": give "
                "each its own name, or let the later unit borrow it (Unit::borrowed)"));
  EXPECT_THAT(Refusal([](Model&, SmallUnit& unit, SmallLoss& loss) {
                unit.specs.clear();
                loss.specs.clear();
              }),
              HasSubstr("the model has no parameters"));
}

TEST(DescribeModel, WhatIsLookedUpHasRows) {
  const auto refusal = [](int looked_up, std::vector<int64_t> shape) {
    return Refusal([&](Model&, SmallUnit& unit, SmallLoss&) {
      unit.looked_up = looked_up;
      unit.specs[0].shape = shape;
    });
  };
  for (const int looked_up : {-2, 1}) {
    EXPECT_THAT(
        refusal(looked_up, {4, 4}),
        HasSubstr(absl::StrCat("unit \"small\" looks rows up in its parameter ", looked_up)));
  }
  EXPECT_THAT(refusal(0, {}), HasSubstr("has no rows"));
  EXPECT_THAT(refusal(0, {0, 4}), HasSubstr("has no rows"));
}

TEST(DescribeModel, WavesComeInPairs) {
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{}, {4, 1}, {4, 5}, {4, 0}}) {
    EXPECT_THAT(Refusal([&](Model&, SmallUnit& unit, SmallLoss&) {
                  unit.specs[0].shape = shape;
                  unit.specs[0].init = Init::Waves();
                }),
                HasSubstr("parameter \"small.w\" of unit \"small\" starts with Init::Waves"));
  }
}

TEST(DescribeModel, NamesAreUtf8) {
  EXPECT_THAT(Refusal([](Model&, SmallUnit& unit, SmallLoss&) { unit.called = "b\xff"; }),
              HasSubstr("the name of unit \"b\\377\" is no UTF-8"));
  EXPECT_THAT(Refusal([](Model&, SmallUnit& unit, SmallLoss&) { unit.specs[0].name = "\xc3"; }),
              HasSubstr("a parameter of unit \"small\" \"\\303\" is no UTF-8"));
  EXPECT_THAT(Refusal([](Model&, SmallUnit& unit, SmallLoss&) {
                unit.buffer_specs = {{"\xff", {}}};
              }),
              HasSubstr("a buffer of unit \"small\""));
}

}  // namespace
}  // namespace spillway
