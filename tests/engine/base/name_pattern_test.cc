#include "engine/base/name_pattern.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace spillway {
namespace {

using testing::HasSubstr;

NamePattern PatternOf(const std::string& text) {
  auto pattern = NamePattern::Parse(text);
  EXPECT_TRUE(pattern.ok()) << pattern.status();
  return *std::move(pattern);
}

TEST(NamePattern, FindsAPartOrTheWhole) {
  const NamePattern pattern = PatternOf(R"(h\.\d+\.mlp|bias)");
  EXPECT_TRUE(pattern.FoundIn("transformer.h.12.mlp.c_fc.weight"));
  EXPECT_FALSE(pattern.FoundIn("transformer.hx1.mlp"));
  EXPECT_FALSE(pattern.Matches("transformer.h.12.mlp"));
  EXPECT_TRUE(pattern.Matches("h.12.mlp"));
  EXPECT_TRUE(pattern.Matches("bias"));
  EXPECT_FALSE(PatternOf("").Matches("a"));
  EXPECT_TRUE(PatternOf("").FoundIn("a"));
}

TEST(NamePattern, ItsGroup) {
  const NamePattern pattern = PatternOf(R"(.*\.(\d+)\..*)");
  EXPECT_EQ(pattern.GroupIn("a.3.b"), "3");
  EXPECT_EQ(pattern.GroupIn("a.b"), std::nullopt);
  EXPECT_EQ(PatternOf("a(b)?").GroupIn("a"), std::nullopt);
}

TEST(NamePattern, WhatIsNoneIsSaid) {
  EXPECT_THAT(NamePattern::Parse("(a").status().message(), HasSubstr("(a: that is no regular"));
  EXPECT_THAT(NamePattern::Parse(std::string(2000, '(')).status().message(),
              HasSubstr("2000 bytes"));
  EXPECT_FALSE(NamePattern::Parse(std::string(1000, '(')).ok());
}

TEST(NamePattern, OneThatExplodesIsGivenUp) {
  EXPECT_FALSE(PatternOf("(a+)+b").Matches(std::string(200, 'a')));
}

}  // namespace
}  // namespace spillway
