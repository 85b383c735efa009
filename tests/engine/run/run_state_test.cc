#include "engine/run/run_state.h"

#include "engine/run/committed_run.h"
#include "nlohmann/json.hpp"
#include "tests/engine/format_testing.h"

namespace spillway {
namespace {

RunState State() {
  RunState state;
  state.step = 3;
  state.applied_steps = 2;
  state.threads = 2;
  state.identity = {{"seed", "42"}};
  state.parents = {"/nvme"};
  state.model.units = {{.name = "a", .parameters = {{.name = "w", .shape = {4, 8}}}},
                       {.name = "b", .parameters = {{.name = "v", .shape = {3}}}, .borrows = {0}}};
  EXPECT_TRUE(LayOutParameters(state.model).ok());
  return state;
}

// What DecodeRunState makes of the state with one member changed, by its JSON pointer.
absl::Status DecodeWith(const char* pointer, const nlohmann::json& value) {
  nlohmann::json json = nlohmann::json::parse(EncodeRunState(State()));
  json[nlohmann::json::json_pointer(pointer)] = value;
  return DecodeRunState(json.dump()).status();
}

TEST(RunState, ComesBackAsItWas) {
  const std::string text = EncodeRunState(State());
  const auto again = DecodeRunState(text);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(EncodeRunState(*again), text);
  EXPECT_EQ(again->model.units[1].borrows, std::vector<int>{0});
}

TEST(RunState, NumbersThatAreNoCountsAreWrongBytes) {
  for (const char* member : {"/step", "/applied_steps", "/threads", "/store_number",
                             "/loss_scale/iteration", "/loss_scale/hysteresis_left"}) {
    for (const nlohmann::json& value :
         std::vector<nlohmann::json>{1e300, 1.5, -2, 18446744073709551615u, "1", nullptr, true}) {
      const absl::Status status = DecodeWith(member, value);
      EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << member << " " << value << status;
    }
  }
  EXPECT_EQ(DecodeWith("/threads", int64_t{1} << 40).code(), absl::StatusCode::kDataLoss);
  EXPECT_TRUE(DecodeWith("/loss_scale/last_overflow_iteration", -1).ok());
}

TEST(RunState, ShapesAndBorrowsThatCannotBeAreWrongBytes) {
  ExpectError(DecodeWith("/model/0/parameters/0/shape", {1e30}), absl::StatusCode::kDataLoss,
              {"impossible shape"});
  ExpectError(DecodeWith("/model/0/parameters/0/shape", {int64_t{1} << 39, 4}),
              absl::StatusCode::kDataLoss, {"impossible shape"});
  ExpectError(DecodeWith("/model/1/borrows", {2}), absl::StatusCode::kDataLoss, {"borrow"});
  ExpectError(DecodeWith("/model/1/borrows", {-1}), absl::StatusCode::kDataLoss, {"borrow"});
  ExpectError(DecodeWith("/model", "x"), absl::StatusCode::kDataLoss, {"no list"});
}

TEST(RunState, DepthIsBounded) {
  EXPECT_EQ(DecodeRunState("{\"version\":" + std::string(1000000, '[')).status().code(),
            absl::StatusCode::kDataLoss);
  const std::string deep = std::string(5000, '[') + std::string(5000, ']');
  EXPECT_FALSE(DecodeRunState("{\"version\":" + deep + "}").ok());
}

TEST(RunState, AnotherVersionIsNamed) {
  ExpectError(DecodeWith("/version", 7), absl::StatusCode::kInvalidArgument, {"version 7"});
}

// Digests and exports walk the model's parameters and the layout's tiles side by side.
TEST(RunState, AModelOfOtherUnitsThanTheTilesIsWrongBytes) {
  const ModelDescription model = State().model;
  const StateLayout layout = DescribeState(model, {}, DType::kBFloat16, 0);
  EXPECT_TRUE(CheckModelFitsLayout(model, layout).ok());
  ModelDescription longer = model;
  longer.units.push_back({.name = "c"});
  EXPECT_EQ(CheckModelFitsLayout(longer, layout).code(), absl::StatusCode::kDataLoss);
  ModelDescription larger = model;
  larger.units[1].parameters[0].shape = {4};
  ASSERT_TRUE(LayOutParameters(larger).ok());
  EXPECT_EQ(CheckModelFitsLayout(larger, layout).code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace spillway
