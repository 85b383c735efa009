#include "engine/model/state_buffer.h"

#include <cmath>
#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace spillway {
namespace {

using testing::HasSubstr;

TEST(StateBuffer, EveryBitComesBack) {
  const std::vector<StateBuffer> buffers = {
      {"mean", {2, 2}, {0.1f, -0.0f, std::numeric_limits<float>::denorm_min(), 3e38f}},
      {"count", {}, {7}, /*whole=*/true},
      {"none", {0, 5}, {}}};
  const auto text = nlohmann::json::parse(ToJson(buffers).dump());
  const auto found = StateBuffersFromJson(text);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(*found, buffers);
  EXPECT_TRUE(std::signbit((*found)[0].values[1]));
  // What JSON has no number for.
  const auto odd =
      StateBuffersFromJson(nlohmann::json::parse(ToJson({{"odd", {2}, {INFINITY, NAN}}}).dump()));
  ASSERT_TRUE(odd.ok()) << odd.status();
  EXPECT_TRUE(std::isinf((*odd)[0].values[0]) && std::isnan((*odd)[0].values[1]));
}

TEST(StateBuffer, AnythingElseIsDamage) {
  for (const char* text :
       {"7", "{}", "[7]", R"([{"name":"a","shape":[2],"bits":[1]}])",
        R"([{"name":"a","shape":[-1],"bits":[1]}])", R"([{"name":"a","shape":[1],"bits":[-1]}])",
        R"([{"name":"a","shape":[1],"bits":[1.5]}])", R"([{"name":"a","shape":[1],"bits":"1"}])",
        R"([{"name":"a","shape":[1],"bits":[4294967296]}])",
        R"([{"name":7,"shape":[],"bits":[1]}])", R"([{"name":"a","bits":[1]}])",
        R"([{"name":"a","shape":[4294967296,4294967296],"bits":[]}])"}) {
    const auto found = StateBuffersFromJson(nlohmann::json::parse(text));
    EXPECT_EQ(found.status().code(), absl::StatusCode::kDataLoss) << text;
    EXPECT_THAT(std::string(found.status().message()), HasSubstr("buffers")) << text;
  }
}

}  // namespace
}  // namespace spillway
