#include "engine/data/normalizers.h"

namespace spillway {
namespace {

std::string Normalized(const std::string& type, const std::string& text) {
  const auto document = ParseStrictJson("{\"type\": \"" + type + "\"}", "f");
  const auto rewrites = ReadNormalizers(JsonPart(&*document));
  EXPECT_TRUE(rewrites.ok()) << rewrites.status();
  return *RewriteAll(*rewrites, text);
}

// Python's unicodedata.normalize.
TEST(Normalizers, FormsAreUnicodes) {
  const std::string text = "s\u0307\u0323 \u1112\u1161\u11ab \u0344 \ufb01";
  EXPECT_EQ(Normalized("NFC", text), "\u1e69 \ud55c \u0308\u0301 \ufb01");
  EXPECT_EQ(Normalized("NFD", text), "s\u0323\u0307 \u1112\u1161\u11ab \u0308\u0301 \ufb01");
  EXPECT_EQ(Normalized("NFKC", text), "\u1e69 \ud55c \u0308\u0301 fi");
  EXPECT_EQ(Normalized("NFKD", text), "s\u0323\u0307 \u1112\u1161\u11ab \u0308\u0301 fi");
}

TEST(Normalizers, YoungCharactersStayAsTheyAre) {
  EXPECT_EQ(Normalized("NFC", "\U00011938"), "\U00011938");
  EXPECT_EQ(Normalized("NFD", "\U00011938"), "\U00011938") << "of 2020; it is two by now";
}

// Only short characters, as people see them, are looked up as a whole.
TEST(Normalizers, CharsmapsAreForWholeCharacters) {
  const auto document = ReadStrictJson(
      SPILLWAY_SOURCE_DIR "/tests/golden/tokenizers/families/t5.json", {.max_depth = 32});
  ASSERT_TRUE(document.ok()) << document.status();
  const auto rewrites = ReadNormalizers(JsonPart(&*document)["normalizer"]);
  ASSERT_TRUE(rewrites.ok()) << rewrites.status();
  EXPECT_EQ(*RewriteAll(*rewrites, "e\u0301 \ufb01\r\n"), "\u00e9 fi ");
  EXPECT_EQ(*RewriteAll(*rewrites, "Qu"), "quu") << "the shorter of two";
  EXPECT_EQ(*RewriteAll(*rewrites, "\U0001f1e9\U0001f1ea\u0344\u0344"),
            "\U0001f1e9\U0001f1ea\u0308\u0301\u0308\u0301");
}

TEST(Normalizers, ManyMarksTakeLittleTime) {
  std::string text = "e";
  for (int i = 0; i < 200000; ++i) text += "\u0315\u05ae";  // classes 232 and 228: out of order
  EXPECT_EQ(Normalized("NFC", text).size(), text.size());
}

}  // namespace
}  // namespace spillway
