#include "io/base/terminal.h"

#include <unistd.h>

#include <map>
#include <string>

#include "absl/strings/str_split.h"
#include "gtest/gtest.h"

namespace spillway {
namespace {

EnvironmentLookup Environment(std::map<std::string, std::string> values) {
  return [values](const char* name) -> const char* {
    const auto found = values.find(name);
    return found == values.end() ? nullptr : found->second.c_str();
  };
}

TEST(Terminal, NoColorSwitchesColoursOffUnlessItIsEmpty) {
  EXPECT_TRUE(UsesColours(true, Environment({})));
  EXPECT_TRUE(UsesColours(true, Environment({{"NO_COLOR", ""}})));
  EXPECT_FALSE(UsesColours(true, Environment({{"NO_COLOR", "0"}})));
  // Never in a file.
  EXPECT_FALSE(UsesColours(false, Environment({})));
}

TEST(Terminal, WhatIsNoTerminalHasTheColumnsOfTheEnvironment) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  EXPECT_EQ(TerminalColumns(ends[1], Environment({})), 80);
  EXPECT_EQ(TerminalColumns(ends[1], Environment({{"COLUMNS", "132"}})), 132);
  EXPECT_EQ(TerminalColumns(ends[1], Environment({{"COLUMNS", "many"}})), 80);
  EXPECT_EQ(TerminalColumns(ends[1], Environment({{"COLUMNS", "-3"}})), 80);
  close(ends[0]);
  close(ends[1]);
}

TEST(Terminal, ColumnsAreNotBytes) {
  EXPECT_EQ(ColumnsOf("step"), 4);
  EXPECT_EQ(ColumnsOf("f\xc3\xbcr"), 3);                  // für
  EXPECT_EQ(ColumnsOf("u\xcc\x88"), 1);                   // u and a combining diaeresis
  EXPECT_EQ(ColumnsOf("\xe6\x97\xa5\xe6\x9c\xac"), 4);    // two characters of two columns
  EXPECT_EQ(ColumnsOf("\xf0\x9f\x98\x80"), 2);            // an emoji
  EXPECT_EQ(ColumnsOf("\xff\xc3"), 2);                    // no UTF-8
  EXPECT_EQ(FirstColumns("f\xc3\xbcr", 2), "f\xc3\xbc");  // between characters
  EXPECT_EQ(FirstColumns("\xe6\x97\xa5\xe6\x9c\xac", 3), "\xe6\x97\xa5");
  EXPECT_EQ(FirstColumns("abc", 0), "");
  EXPECT_EQ(FirstColumns("abc", 9), "abc");
}

TEST(Terminal, ALabelIsAWordBetweenSpaces) {
  EXPECT_EQ(LabelWidth("  traffic    12 MiB read"), 13u);
  EXPECT_EQ(LabelWidth("  weights   12 MiB"), 12u);
  EXPECT_EQ(LabelWidth("  held out   3.9"), 13u);
  for (const char* other : {"", "  ", "plan: 12", "             busy 3%", "  no label here",
                            "  a sentence that goes on  and on"}) {
    EXPECT_EQ(LabelWidth(other), 0u) << other;
  }
}

TEST(Terminal, ARowGoesOnBelowItsValue) {
  EXPECT_EQ(FoldText("  traffic    1 GiB read and 2 GiB written", 28),
            "  traffic    1 GiB read and\n             2 GiB written");
  // Where that leaves too little room, further left.
  EXPECT_EQ(FoldText("  traffic    1 GiB read and 2 GiB written", 24),
            "  traffic    1 GiB read\n  and 2 GiB written");
  EXPECT_EQ(FoldText("one two three\nfour", 9), "one two\n  three\nfour");
}

TEST(Terminal, ACommandStaysInOnePiece) {
  EXPECT_EQ(
      FoldText("state 1 MiB stays in /nvme; free it: spillway clean --output run --remove", 30),
      "state 1 MiB stays in /nvme;\n  free it:\n  spillway clean --output run --remove");
  EXPECT_EQ(FoldText("  export     spillway export --from run --to model", 20),
            "  export     spillway export --from run --to model");
}

TEST(Terminal, NothingFoldedIsWiderThanTheTerminalButWhatHasNoSpace) {
  const std::string text =
      "plan: 85.3M parameters in 14 units\n"
      "  state      12 bytes a parameter: 976 MiB on NVMe; activations in device memory\n"
      "             which goes on here for as long as it takes to be folded once more";
  for (int columns = 16; columns < 90; ++columns) {
    const std::string folded = FoldText(text, columns);
    std::string words, folded_words;
    for (const char* const all : {text.c_str(), folded.c_str()}) {
      std::string& out = all == text.c_str() ? words : folded_words;
      for (const absl::string_view word :
           absl::StrSplit(all, absl::ByAnyChar(" \n"), absl::SkipEmpty())) {
        out.append(std::string(word)).push_back(' ');
      }
    }
    EXPECT_EQ(folded_words, words) << columns;
    for (const absl::string_view line : absl::StrSplit(folded, '\n')) {
      // "  state      12" has a label that its value does not leave.
      EXPECT_LE(ColumnsOf(line), std::max(columns, 24)) << columns;
    }
  }
  EXPECT_EQ(FoldText("report /a/very/long/path", 8), "report\n  /a/very/long/path");
}

TEST(Terminal, NamesCommandNothing) {
  EXPECT_EQ(ShownText("plain \xc3\xa4 \xe4\xb8\xad \xf0\x9f\x98\x80\ttab"),
            "plain \xc3\xa4 \xe4\xb8\xad \xf0\x9f\x98\x80\\ttab");
  EXPECT_EQ(ShownText("\x1b]0;title\a"), "\\x1b]0;title\\x07");
  EXPECT_EQ(ShownText(absl::string_view("a\0b\r\x7f", 5)), "a\\x00b\\x0d\\x7f");
  // CSI of 8 bits, as UTF-8 and as a byte alone, and in more bytes than it needs.
  EXPECT_EQ(ShownText("\xc2\x9b"
                      "2J"),
            "\\u009b2J");
  EXPECT_EQ(ShownText("\x9b"
                      "2J"),
            "\\x9b2J");
  EXPECT_EQ(ShownText("\xe0\x80\x9b"
                      "2J"),
            "\\u001b2J");
  // Latin-1 is no command.
  EXPECT_EQ(ShownText("\xe4"
                      "bc"),
            "\xe4"
            "bc");
  // What turns the direction, isolates, marks it or separates lines.
  EXPECT_EQ(ShownText("a\xe2\x80\xae"
                      "gpj.exe"),
            "a\\u202egpj.exe");
  EXPECT_EQ(ShownText("\xe2\x81\xa6\xe2\x80\x8f\xe2\x80\xa8\xd8\x9c"),
            "\\u2066\\u200f\\u2028\\u061c");
}

TEST(Terminal, NewlinesStayWhereTheyAreLayout) {
  const char text[] = "a\nb\n  c\td\n\ne\n";
  EXPECT_EQ(ShownText(text), "a\\nb\\n  c\\td\\n\\ne\\n");
  EXPECT_EQ(ShownText(text, ShownLines::kRows), "a\\nb\n  c\td\\n\\ne\\n");
  EXPECT_EQ(ShownText(text, ShownLines::kAll), text);
}

}  // namespace
}  // namespace spillway
