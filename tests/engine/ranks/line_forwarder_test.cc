#include "engine/ranks/line_forwarder.h"

#include "absl/strings/str_cat.h"

namespace spillway {
namespace {

TEST(LineForwarder, PutsTheRankBeforeWholeLines) {
  LineForwarder lines("rank 3: ");
  EXPECT_EQ(lines.Add("one"), "");
  EXPECT_EQ(lines.Add(" line\nand "), "rank 3: one line\n");
  EXPECT_EQ(lines.Add("\n\nlast"), "rank 3: and \nrank 3: \n");
  EXPECT_EQ(lines.Finish(), "rank 3: last\n");
  EXPECT_EQ(lines.Finish(), "");
}

TEST(LineForwarder, ALineThatSaysItsRankKeepsIt) {
  LineForwarder lines("rank 3: ");
  EXPECT_EQ(lines.Add("rank 3: error\nrank 31: x\n"), "rank 3: error\nrank 3: rank 31: x\n");
}

TEST(LineForwarder, CutsWhatNeverEnds) {
  const std::string most(LineForwarder::kMostLineBytes, 'x');
  LineForwarder lines("r: ");
  EXPECT_EQ(lines.Add(most + "yy"), absl::StrCat("r: ", most, "\n"));
  EXPECT_EQ(lines.Add("\n"), "r: yy\n");
  // Exactly full: its end is no empty line.
  EXPECT_EQ(lines.Add(most + "\nz\n"), absl::StrCat("r: ", most, "\nr: z\n"));
  EXPECT_EQ(lines.Add(most), "");
  EXPECT_EQ(lines.Add("\n"), absl::StrCat("r: ", most, "\n"));
}

TEST(LineForwarder, PiecesMakeNoDifference) {
  const std::string text = "a\nbb\n\nccc\n" + std::string(100, 'd') + "\ne";
  LineForwarder whole("r: ");
  std::string expected = whole.Add(text);
  expected += whole.Finish();
  for (size_t piece = 1; piece < 20; ++piece) {
    LineForwarder lines("r: ");
    std::string found;
    for (size_t i = 0; i < text.size(); i += piece) found += lines.Add(text.substr(i, piece));
    EXPECT_EQ(found + lines.Finish(), expected) << piece;
  }
}

}  // namespace
}  // namespace spillway
