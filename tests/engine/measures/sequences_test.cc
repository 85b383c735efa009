#include "engine/measures/sequences.h"

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace spillway {
namespace {

using Words = std::vector<uint32_t>;

// Wagner and Fischer's whole table, of edits or of what is common.
int64_t WholeTable(const Words& a, const Words& b, bool edits) {
  std::vector<std::vector<int64_t>> table(a.size() + 1, std::vector<int64_t>(b.size() + 1, 0));
  for (size_t i = 0; i <= a.size(); ++i) {
    for (size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        table[i][j] = edits ? static_cast<int64_t>(i + j) : 0;
      } else if (edits) {
        table[i][j] = std::min({table[i - 1][j] + 1, table[i][j - 1] + 1,
                                table[i - 1][j - 1] + (a[i - 1] != b[j - 1])});
      } else {
        table[i][j] = a[i - 1] == b[j - 1] ? table[i - 1][j - 1] + 1
                                           : std::max(table[i - 1][j], table[i][j - 1]);
      }
    }
  }
  return table[a.size()][b.size()];
}

TEST(Sequences, OneRowIsTheWholeTable) {
  std::mt19937 random(3);
  for (int i = 0; i < 2000; ++i) {
    Words a(random() % 12), b(random() % 12);
    for (Words* words : {&a, &b}) {
      for (uint32_t& word : *words) word = random() % 3;
    }
    ASSERT_EQ(EditDistance(a, b), WholeTable(a, b, true)) << i;
    ASSERT_EQ(LongestCommonSubsequence(a, b), WholeTable(a, b, false)) << i;
  }
}

TEST(Sequences, CommonNgramsCountEachOnlyAsOftenAsBothHaveIt) {
  const Words a = {1, 1, 1, 2}, b = {1, 1, 2, 2};
  EXPECT_EQ(CommonNgrams(a, b, 1), 3);
  EXPECT_EQ(CommonNgrams(a, b, 2), 2);  // 1 1 and 1 2
  EXPECT_EQ(CommonNgrams(a, b, 3), 1);  // 1 1 2
  EXPECT_EQ(CommonNgrams(a, b, 4), 0);
  EXPECT_EQ(CommonNgrams({}, b, 1), 0);
}

}  // namespace
}  // namespace spillway
