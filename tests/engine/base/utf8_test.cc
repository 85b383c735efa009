#include "engine/base/utf8.h"

#include <string>

#include "gtest/gtest.h"

namespace spillway {
namespace {

TEST(AsCleanLine, OrdinaryTextStays) {
  for (const char* text :
       {"", "no room on /nvme: 3 of 7 GiB", "größer als 東京 \xf0\x9f\x99\x82", "a\\nb"}) {
    EXPECT_EQ(AsCleanLine(text), text);
  }
}

TEST(AsCleanLine, OneLineWithoutControls) {
  EXPECT_EQ(AsCleanLine("a\nb\r\nc\td"), "a b  c d");
  EXPECT_EQ(AsCleanLine("\xe2\x80\xa8x\xe2\x80\xa9"), " x ");  // line, paragraph separator
  EXPECT_EQ(AsCleanLine(std::string("\x1b[2J\x07\0\x7f", 7)), "?[2J???");
  EXPECT_EQ(AsCleanLine("\xc2\x9b"
                        "1m\xc2\x80"),
            "?1m?");  // CSI of C1
  EXPECT_EQ(AsCleanLine("\xe2\x80\xae"
                        "evil\xe2\x81\xa6\xd8\x9c"),
            "?evil??");
}

TEST(AsCleanLine, BytesThatAreNoUtf8) {
  EXPECT_EQ(AsCleanLine("\xff\xfe"), "??");
  EXPECT_EQ(AsCleanLine("a\xc3"), "a?");  // cut
  EXPECT_EQ(AsCleanLine("\xe2\x80"), "??");
  EXPECT_EQ(AsCleanLine("\xc0\xaf/"),
            "?"
            "?/");                                // overlong
  EXPECT_EQ(AsCleanLine("\xed\xa0\x80"), "???");  // a surrogate
  EXPECT_EQ(AsCleanLine("\xc3(x"), "?(x");        // what follows a broken one is kept
}

}  // namespace
}  // namespace spillway
