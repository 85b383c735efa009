#include "engine/model/model_description.h"

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

}  // namespace
}  // namespace spillway
