#include "engine/base/utf8_repair.h"

#include "engine/tokenizers/text_decoder.h"
#include "engine/tokenizers/tokenizer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace spillway {
namespace {

// bytes -> what Python 3.11 gives: print(ascii(b"...".decode(errors="replace"))).
const struct {
  const char* bytes;
  const char* repaired;
  int replaced;
} kRepairCases[] = {
    {"abc \u00e9 \u4f60 \U0001F600", "abc \u00e9 \u4f60 \U0001F600", 0},
    {"\xff", "\ufffd", 1},
    {"\xc0\xaf", "\ufffd\ufffd", 2},
    {"\x80\x80", "\ufffd\ufffd", 2},
    {"\xe2\x82", "\ufffd", 1},
    {"\xe2\x82x", "\ufffdx", 1},
    {"\xf0\x9f\x98", "\ufffd", 1},
    {"\xf0\x9f\x98\xf0\x9f\x98\x80", "\ufffd\U0001F600", 1},
    {"\xed\xa0\x80", "\ufffd\ufffd\ufffd", 3},
    {"\xe0\x80\x80", "\ufffd\ufffd\ufffd", 3},
    {"\xf4\x90\x80\x80", "\ufffd\ufffd\ufffd\ufffd", 4},
    {"\xf5\x80", "\ufffd\ufffd", 2},
    {"\xe1\x80\xe2\xf0\x91\x92\xf1\xbf"
     "A",
     "\ufffd\ufffd\ufffd\ufffd"
     "A",
     4},
    {"\xc3", "\ufffd", 1},
    {"a\xc3(b", "a\ufffd(b", 1},
};

TEST(Utf8Repair, ReplacesAsPythonDoesWhereverPiecesEnd) {
  for (const auto& c : kRepairCases) {
    const std::string text = c.bytes;
    for (size_t cut = 0; cut <= text.size(); ++cut) {
      Utf8Repair repair;
      std::string out(repair.Next(text.substr(0, cut)));
      EXPECT_EQ(ValidUtf8Prefix(out), out.size()) << "only whole characters";
      out += std::string(repair.Next(text.substr(cut)));
      out += std::string(repair.Finish());
      EXPECT_EQ(out, c.repaired);
      EXPECT_EQ(repair.replaced(), static_cast<uint64_t>(c.replaced));
    }
  }
}

TEST(Utf8Repair, SaysWhereTheFirstIs) {
  Utf8Repair repair;
  repair.Next("abc\u00e9\xe2");
  EXPECT_EQ(repair.replaced(), 0u);
  repair.Next("\x82");
  repair.Next("x\xff");
  repair.Finish();
  EXPECT_EQ(repair.replaced(), 2u);
  EXPECT_EQ(repair.first_offset_bytes(), 5u);
}

TEST(TextDecoder, GivesWholeCharacters) {
  const auto bytes = NewByteTokenizer();
  TextDecoder decoder(bytes.get());
  std::string shown;
  for (const char c : std::string("a\u00e9\U0001F600\xff\xe2\x82"
                                  "b")) {
    const auto text = decoder.Next(static_cast<unsigned char>(c));
    ASSERT_TRUE(text.ok());
    EXPECT_EQ(ValidUtf8Prefix(*text), text->size());
    shown += *text;
  }
  EXPECT_EQ(shown,
            "a\u00e9\U0001F600\ufffd\ufffd"
            "b");
  EXPECT_EQ(decoder.Finish(), "");
  ASSERT_TRUE(decoder.Next(0xe2).ok());
  EXPECT_EQ(decoder.Finish(), "\ufffd");
  EXPECT_EQ(decoder.whole(), shown + "\ufffd");
  EXPECT_FALSE(decoder.Next(256).ok());
}

}  // namespace
}  // namespace spillway
