#include "engine/metrics.h"

#include "tests/engine/format_testing.h"

namespace spillway {
namespace {

TEST(RowsUpTo, KeepsStepsThatAResumedRunHasBehindIt) {
  const std::string rows = "{\"step\":1}\n{\"step\":2,\"loss\":null}\n{\"step\":3}\n";
  EXPECT_EQ(RowsUpTo(rows, 2), "{\"step\":1}\n{\"step\":2,\"loss\":null}\n");
  EXPECT_EQ(RowsUpTo(rows, 0), "");
  EXPECT_EQ(RowsUpTo(rows, 9), rows);
}

TEST(RowsUpTo, DropsWhatIsNoRow) {
  EXPECT_EQ(RowsUpTo("{\"step\":1}\n{\"step\":2,\"lo", 9), "{\"step\":1}\n");
  EXPECT_EQ(RowsUpTo("\n[]\n7\n{}\n{\"step\":\"1\"}\n{\"step\":1.0}\n\xff\n", 9), "");
  EXPECT_EQ(RowsUpTo("{\"step\":18446744073709551615}\n", 9), "") << "beyond any step";
}

TEST(RowsUpTo, EndsALastLineThatIsWhole) {
  EXPECT_EQ(RowsUpTo("{\"step\":1}", 9), "{\"step\":1}\n");
}

}  // namespace
}  // namespace spillway
