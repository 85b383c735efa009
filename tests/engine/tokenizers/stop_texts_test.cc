#include "engine/tokenizers/stop_texts.h"

#include "gtest/gtest.h"

namespace spillway {
namespace {

// What is given of a text in pieces of so many bytes.
std::string Stopped(const std::vector<std::string>& stops, const std::string& text, size_t piece,
                    bool* found) {
  StopTexts stop_texts(&stops);
  std::string given;
  for (size_t at = 0; at < text.size(); at += piece)
    given += stop_texts.Next(text.substr(at, piece));
  given += stop_texts.Finish();
  EXPECT_EQ(given, stop_texts.text());
  *found = stop_texts.found();
  return given;
}

TEST(StopTexts, EndATextWhereverPiecesEnd) {
  const struct {
    std::vector<std::string> stops;
    std::string text, given;
    bool found;
  } cases[] = {
      {{"\nUser:"}, "Nobody.\nUser: and", "Nobody.", true},
      {{"\nUser:"}, "Nobody.\nUse", "Nobody.\nUse", false},
      {{"END", "\n"}, "one END\n", "one ", true},
      {{"\n", "END"}, "one\nEND", "one", true},
      {{"aab"}, "aaab", "a", true},
      {{"abab", "ba"}, "xabab", "xa", true},
      {{"x"}, "x", "", true},
      {{"long stop"}, "lo", "lo", false},
      {{}, "as it is", "as it is", false},
  };
  for (const auto& one : cases) {
    for (size_t piece = 1; piece < 6; ++piece) {
      bool found = false;
      EXPECT_EQ(Stopped(one.stops, one.text, piece, &found), one.given) << one.text << piece;
      EXPECT_EQ(found, one.found) << one.text << piece;
    }
  }
}

TEST(StopTexts, NothingIsGivenThatMayBeOne) {
  const std::vector<std::string> stops = {"</answer>"};
  StopTexts stop_texts(&stops);
  EXPECT_EQ(stop_texts.Next("a <"), "a ");
  EXPECT_EQ(stop_texts.Next("/answ"), "");
  EXPECT_EQ(stop_texts.Next("ers </"), "</answers ");
  EXPECT_EQ(stop_texts.Next("answer> more"), "");
  EXPECT_EQ(stop_texts.Next("still more"), "");
  EXPECT_EQ(stop_texts.text(), "a </answers ");
}

}  // namespace
}  // namespace spillway
