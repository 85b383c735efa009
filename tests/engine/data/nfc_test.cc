#include "engine/data/nfc.h"

#include "gtest/gtest.h"

namespace spillway {
namespace {

// Python's unicodedata.normalize("NFC", ...).
const struct {
  const char* text;
  const char* normal;
} kCases[] = {
    {"", ""},
    {"plain", "plain"},
    {"e\u0301", "\u00e9"},
    {"e\u0301s", "\u00e9s"},
    {"\u0301", "\u0301"},
    {"s\u0307\u0323", "\u1e69"},
    {"q\u0307\u0323", "q\u0323\u0307"},
    {"\u1e0b\u0323", "\u1e0d\u0307"},
    {"\u212b", "\u00c5"},
    {"\u2126\u0387", "\u03a9\u00b7"},
    {"\u0344", "\u0308\u0301"},
    {"\u1112\u1161\u11ab", "\ud55c"},
    {"\u1112\u1161", "\ud558"},
    {"\ud558\u11ab", "\ud55c"},
    {"\uac00\u11a8\u11a8", "\uac01\u11a8"},
    {"\u0958", "\u0915\u093c"},
    {"\u09c7\u09be", "\u09cb"},
    {"\u0b47\u0b56", "\u0b48"},
    {"\u0dd9\u0dcf\u0dca", "\u0ddd"},
    {"\uf900", "\u8c48"},
    {"\u4f60\u597d\u3002", "\u4f60\u597d\u3002"},
    {"\u30ab\u3099", "\u30ac"},
    {"\U0001d15e", "\U0001d157\U0001d165"},
    {"\U00011131\U00011127", "\U0001112e"},
    {"\ufb01", "\ufb01"},
    {"a\u0315\u0300\u05ae\u0300b", "\u00e0\u05ae\u0300\u0315b"},
};

// Takes what a stage hands on.
class Collect : public TextStage {
 public:
  absl::Status Text(absl::string_view piece) override {
    text += std::string(piece);
    return absl::OkStatus();
  }
  absl::Status EndSegment() override {
    text += "|";
    return absl::OkStatus();
  }
  absl::Status Token(uint32_t) override { return absl::OkStatus(); }
  void Reset() override {}
  std::string text;
};

TEST(Nfc, ComposesAsUnicodeSays) {
  const NfcTable table;
  std::string all, all_normal;
  for (const auto& c : kCases) {
    EXPECT_EQ(NormalizeNfc(table, c.text), c.normal) << c.text;
    EXPECT_EQ(NormalizeNfc(table, c.normal), c.normal) << "a normal form stays";
    all += std::string("-") + c.text;
    all_normal += std::string("-") + c.normal;
  }
  EXPECT_EQ(NormalizeNfc(table, all), all_normal);
}

TEST(Nfc, PiecesMayEndBetweenAnyCharacters) {
  const NfcTable table;
  for (const auto& c : kCases) {
    const std::string text = std::string("-") + c.text + "y";
    for (size_t cut = 0; cut <= text.size(); ++cut) {
      if (cut < text.size() && (text[cut] & 0xc0) == 0x80) continue;
      Collect collect;
      NfcStage stage(&table, &collect);
      ASSERT_TRUE(stage.Text(text.substr(0, cut)).ok());
      ASSERT_TRUE(stage.Text(text.substr(cut)).ok());
      ASSERT_TRUE(stage.EndSegment().ok());
      EXPECT_EQ(collect.text, std::string("-") + c.normal + "y|");
    }
  }
}

TEST(Nfc, SegmentsDoNotMix) {
  const NfcTable table;
  Collect collect;
  NfcStage stage(&table, &collect);
  ASSERT_TRUE(stage.Text("e").ok());
  ASSERT_TRUE(stage.EndSegment().ok());
  ASSERT_TRUE(stage.Text("\u0301").ok());
  ASSERT_TRUE(stage.EndSegment().ok());
  EXPECT_EQ(collect.text, "e|\u0301|");
}

TEST(Nfc, ManyMarksTakeLittleTime) {
  const NfcTable table;
  std::string text = "e", normal = "e";
  for (int i = 0; i < 200000; ++i) text += "\u0315\u05ae";  // classes 232 and 228
  for (int i = 0; i < 200000; ++i) normal += "\u05ae";
  for (int i = 0; i < 200000; ++i) normal += "\u0315";
  EXPECT_EQ(NormalizeNfc(table, text), normal);
}

}  // namespace
}  // namespace spillway
