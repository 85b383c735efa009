#include "engine/model/model_description.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace spillway {
namespace {

using testing::HasSubstr;

ModelDescription TwoUnits() {
  return {.units = {{.name = "first", .parameters = {{"first.w", {4, 2}}, {"first.b", {8}}}},
                    {.name = "last", .parameters = {{"last.w", {8}}}}}};
}

// What is said where `change` of the model goes on from a commit of the model.
template <typename Change>
std::string Difference(Change change) {
  ModelDescription now = TwoUnits();
  change(now.units);
  const absl::Status status = CheckSameModel(TwoUnits(), now);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  return std::string(status.message());
}

TEST(ModelDescription, AnotherModelThanTheCommitsIsRefusedByWhatDiffers) {
  using Units = std::vector<UnitDescription>;
  EXPECT_EQ(CheckSameModel(TwoUnits(), TwoUnits()), absl::OkStatus());
  EXPECT_THAT(
      Difference([](Units& units) { std::swap(units[0].parameters[0], units[0].parameters[1]); }),
      HasSubstr("in unit \"first\" parameter 0 was \"first.w\" [4, 2] and is now "
                "\"first.b\" [8]; give the units and parameters of the commit"));
  EXPECT_THAT(Difference([](Units& units) {
                units[0].parameters[0].shape = {2, 4};
              }),
              HasSubstr("was \"first.w\" [4, 2] and is now \"first.w\" [2, 4]"));
  EXPECT_THAT(Difference([](Units& units) { units[0].parameters.pop_back(); }),
              HasSubstr("parameter 1 was \"first.b\" [8] and is now not there"));
  EXPECT_THAT(Difference([](Units& units) { units[1].name = "end"; }),
              HasSubstr("unit 1 was \"last\" and is now \"end\""));
  EXPECT_THAT(Difference([](Units& units) { units[1].frozen = true; }),
              HasSubstr("unit 1 was \"last\" and is now \"last\", frozen"));
  EXPECT_THAT(Difference([](Units& units) { units.pop_back(); }),
              HasSubstr("unit 1 was \"last\" and is now not there"));
  EXPECT_THAT(Difference([](Units& units) { units.push_back({.name = "more"}); }),
              HasSubstr("unit 2 was not there and is now \"more\""));
}

// tests/golden/make_decay.py asked transformers' Trainer.
TEST(Decay, SparesWhatTheTrainerSparesInEveryFamily) {
  const nlohmann::json golden =
      nlohmann::json::parse(std::ifstream(SPILLWAY_SOURCE_DIR "/tests/golden/decay.json"));
  ASSERT_GE(golden.size(), 18);
  for (const auto& [model, sides] : golden.items()) {
    for (const nlohmann::json& name : sides["spared"]) {
      EXPECT_TRUE(IsSparedByTrainer(name)) << model << ": " << name;
    }
    for (const nlohmann::json& name : sides["decayed"]) {
      EXPECT_FALSE(IsSparedByTrainer(name)) << model << ": " << name;
    }
  }
  for (const char* name : {"model.layers.0.self_attn.q_proj.lora_B.weight", "abnormal.weight",
                           "norms.weight", "aln_1.weight"}) {
    EXPECT_FALSE(IsSparedByTrainer(name)) << name;
  }
}

TEST(Decay, RangesLeaveOutWhatIsSpared) {
  ModelDescription model;
  model.units.push_back({.name = "block",
                         .parameters = {{"h.0.ln_1.weight", {4}},
                                        {"h.0.relative_attention_bias.weight", {2, 4}},
                                        {"h.0.scale", {4}},
                                        {"h.0.attn.weight", {4, 4}}}});
  ASSERT_TRUE(LayOutParameters(model).ok());
  using Decay = OptimizerSpec::Decay;
  const auto starts = [&](Decay decay) {
    std::vector<uint64_t> found;
    const auto by_unit = DecayedRanges(model, decay);
    for (const ParameterRange& range : by_unit[0]) found.push_back(range.begin);
    return found;
  };
  const auto& all = model.units[0].parameters;
  EXPECT_EQ(starts(Decay::kAll).size(), 4);
  EXPECT_EQ(starts(Decay::kMatrices), (std::vector<uint64_t>{all[1].offset, all[3].offset}));
  EXPECT_EQ(starts(Decay::kTrainer), (std::vector<uint64_t>{all[2].offset, all[3].offset}));
}

}  // namespace
}  // namespace spillway
