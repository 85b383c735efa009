#include "engine/measures/text_measures.h"

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <string>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace spillway {
namespace {

using nlohmann::json;

// Made by tests/golden/make_text_measures.py, which says what else may be asked for here.
json GoldenTexts() {
  const char* const other = std::getenv("SPILLWAY_TEXT_MEASURES");
  std::ifstream in(other != nullptr ? other
                                    : SPILLWAY_SOURCE_DIR "/tests/golden/text_measures.json");
  return json::parse(in);
}

TextMeasures MeasuresOf(const json& answers, const json& targets) {
  TextMeasures measures;
  for (size_t i = 0; i < answers.size(); ++i) {
    measures.Add(
        CompareTexts(answers[i].get_ref<const std::string&>(), targets[i].get<std::string>()));
  }
  return measures;
}

double ValueOf(const TextMeasures& measures, const std::string& name) {
  for (const QualityMeasure& one : measures.Values()) {
    if (one.name == name) return one.value;
  }
  ADD_FAILURE() << "no " << name;
  return 0;
}

TEST(TextMeasures, AreSacrebleusRougeScoresAndJiwers) {
  const json golden = GoldenTexts();
  ASSERT_GE(golden.size(), 80);
  double farthest = 0;
  for (const json& one : golden) {
    SCOPED_TRACE(one.dump());
    const std::vector<QualityMeasure> found = MeasuresOf(one[0], one[1]).Values();
    ASSERT_EQ(found.size(), one[2].size());
    for (const QualityMeasure& measure : found) {
      const double expected = one[2][measure.name].get<double>();
      EXPECT_NEAR(measure.value, expected, 1e-6) << measure.name;
      farthest = std::max(farthest, std::abs(measure.value - expected));
    }
  }
  RecordProperty("cases", static_cast<int>(golden.size()));
  RecordProperty("farthest", std::to_string(farthest * 1e9) + "e-9");
}

TEST(TextMeasures, OfEqualTextsAreTheBest) {
  const json texts = {"the cat sat on the mat", "3.14 is not 3"};
  const TextMeasures same = MeasuresOf(texts, texts);
  EXPECT_EQ(same.texts(), 2);
  EXPECT_NEAR(ValueOf(same, "bleu"), 100, 1e-9);
  EXPECT_EQ(ValueOf(same, "rouge1"), 1);
  EXPECT_EQ(ValueOf(same, "rouge2"), 1);
  EXPECT_EQ(ValueOf(same, "rougeL"), 1);
  EXPECT_EQ(ValueOf(same, "wer"), 0);
  EXPECT_EQ(ValueOf(same, "cer"), 0);
}

TEST(TextMeasures, OfNoTextAreNoNumbers) {
  for (const QualityMeasure& measure : TextMeasures().Values()) {
    EXPECT_TRUE(std::isnan(measure.value)) << measure.name;
  }
}

TEST(TextMeasures, OfEmptyTargetsCountWhatWasMade) {
  const TextMeasures measures = MeasuresOf({"two words"}, {""});
  EXPECT_EQ(ValueOf(measures, "wer"), 2);
  EXPECT_EQ(ValueOf(measures, "cer"), 9);
  EXPECT_EQ(ValueOf(measures, "bleu"), 0);
}

TEST(BleuWords, StopsStandApartButWithinNumbers) {
  const std::vector<std::string> expected = {"It", "cost", "$", "1,000.50", ",", "he", "said", ":",
                                             "2",  "-",    "3", "of",       "a", ".",  "b"};
  EXPECT_EQ(BleuWords("It cost $1,000.50, he said:  2-3\nof a.b"), expected);
}

TEST(RougeWords, AreSmallLettersAndDigitsOfAscii) {
  const std::vector<std::string> expected = {"na", "ve", "k9", "i", "stanbul"};
  EXPECT_EQ(RougeWords("na\u00efve \u212a9, \u0130stanbul"), expected);
}

TEST(ErrorRateWords, ASingleTabSeparatesNone) {
  const std::vector<std::string> expected = {"a\tb", "c", "d"};
  EXPECT_EQ(ErrorRateWords("\ta\tb\t c d\n"), expected);
}

}  // namespace
}  // namespace spillway
