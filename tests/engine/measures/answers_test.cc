#include "engine/measures/answers.h"

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/engine/format_testing.h"

namespace spillway {
namespace {

TEST(Answers, ExactMatchesAndF1AreSquads) {
  const auto golden =
      nlohmann::json::parse(ReadFile(SPILLWAY_SOURCE_DIR "/tests/golden/questions.json"));
  ASSERT_GT(golden["scores"].size(), 10u);
  for (const auto& one : golden["scores"]) {
    SCOPED_TRACE(one.dump());
    const AnswerScore score = ScoreAnswer(one["answer"].get<std::string>(), one["right"]);
    EXPECT_EQ(score.exact, one["exact"].get<double>());
    EXPECT_NEAR(score.f1, one["f1"].get<double>(), 1e-12);
  }
}

TEST(Answers, WithoutARightAnswerTheEmptyOneIsRight) {
  EXPECT_EQ(ScoreAnswer("", {}).exact, 1);
  EXPECT_EQ(ScoreAnswer("", {}).f1, 1);
  EXPECT_EQ(ScoreAnswer("Paris", {}).exact, 0);
  EXPECT_EQ(ScoreAnswer("Paris", {}).f1, 0);
}

// Three tokens behind one that is not of the text "a b c".
ScoredWindow Window(std::vector<float> first, std::vector<float> last) {
  return {std::move(first), std::move(last), {std::nullopt, {{0, 1}}, {{2, 3}}, {{4, 5}}}};
}

TEST(Answers, AnAnswerNeitherEndsBeforeItBeginsNorIsTooLong) {
  const std::vector<ScoredWindow> windows = {Window({9, 5, 0, 4}, {9, 4, 0, 5})};
  FoundAnswer found = FindAnswer(windows, "a b c", {});
  EXPECT_EQ(std::pair(found.begin, found.end), std::pair(int64_t{0}, int64_t{5}));
  EXPECT_EQ(found.score, 10);
  found = FindAnswer(windows, "a b c", {.most_tokens = 2});
  EXPECT_EQ(std::pair(found.begin, found.end), std::pair(int64_t{0}, int64_t{1}));
  EXPECT_EQ(found.score, 9);
}

TEST(Answers, TheEmptyAnswerIsAsLikelyAsTheWindowThatBelievesInItLeast) {
  const std::vector<ScoredWindow> windows = {Window({9, 5, 0, 0}, {9, 4, 0, 0}),
                                             Window({5, 0, 0, 0}, {5, 0, 0, 0})};
  FoundAnswer found = FindAnswer(windows, "a b c", {.null_threshold = 0});
  EXPECT_EQ(std::pair(found.begin, found.end), std::pair(int64_t{0}, int64_t{0}));
  EXPECT_EQ(found.score, 10);
  found = FindAnswer(windows, "a b c", {.null_threshold = 1});
  EXPECT_EQ(std::pair(found.begin, found.end), std::pair(int64_t{0}, int64_t{1}));
}

TEST(Answers, AWindowWithoutTheTextHasNone) {
  ScoredWindow window = {{1, 2}, {1, 2}, {std::nullopt, std::nullopt}};
  EXPECT_EQ(FindAnswer({window}, "a", {}).end, 0);
  EXPECT_EQ(FindAnswer({window}, "a", {.null_threshold = 5}).end, 0);
}

}  // namespace
}  // namespace spillway
