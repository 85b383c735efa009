#include "engine/report/report_html.h"

#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace spillway {
namespace {

TEST(ReportHtml, TextIsNeverMarkup) {
  EXPECT_EQ(EscapeHtml("<a href=\"x\" title='y'>&amp;"),
            "&lt;a href=&quot;x&quot; title=&#39;y&#39;&gt;&amp;amp;");
  EXPECT_EQ(EscapeHtml("Käse 🧀\n\ttab"), "Käse 🧀\n\ttab");
  EXPECT_EQ(EscapeHtml(std::string("nul\0esc\x1b[31m", 12)), "nul esc [31m");
}

TEST(ReportHtml, WhatIsNotUtf8IsReplaced) {
  EXPECT_EQ(EscapeHtml("a\xff"
                       "b"),
            "a\xEF\xBF\xBD"
            "b");
  EXPECT_EQ(EscapeHtml("cut \xC3"), "cut \xEF\xBF\xBD");
  // A bad sequence does not swallow the "<" behind it.
  EXPECT_EQ(EscapeHtml("\xE2\x82<b>"), "\xEF\xBF\xBD\xEF\xBF\xBD&lt;b&gt;");
}

TEST(ReportHtml, JsonCannotEndItsScript) {
  const nlohmann::json json = {{"</script><!--", "\xff\xE2\x80\xA8 <b>"}};
  const std::string text = JsonForScript(json);
  EXPECT_EQ(text.find('<'), std::string::npos);
  EXPECT_EQ(nlohmann::json::parse(text).begin().key(), "</script><!--");
  for (const char c : text) EXPECT_LT(static_cast<unsigned char>(c), 0x80);
}

TEST(ReportHtml, NumbersForPeople) {
  EXPECT_EQ(FormatCount(0), "0");
  EXPECT_EQ(FormatCount(999), "999");
  EXPECT_EQ(FormatCount(-1234567), "-1,234,567");
  EXPECT_EQ(FormatCount(-123), "-123");
  EXPECT_EQ(FormatParameters(124439808), "124M");
  EXPECT_EQ(FormatParameters(999999999), "1B");
  EXPECT_EQ(FormatSeconds(0.00125), "1.25 ms");
  EXPECT_EQ(FormatSeconds(3), "3 s");
  EXPECT_EQ(FormatSeconds(200), "3m20s");
  EXPECT_EQ(FormatNumber(25591.4), "25,591");
  EXPECT_EQ(FormatNumber(0.00012346), "0.0001235");
  EXPECT_EQ(FormatNumber(std::numeric_limits<double>::infinity()), "—");
  EXPECT_EQ(FormatTime(0), "1970-01-01 00:00:00 UTC");
}

// Of files that are damaged.
TEST(ReportHtml, NumbersThatAreNone) {
  EXPECT_EQ(FormatTime(-1e308), "—");
  EXPECT_EQ(FormatTime(std::nan("")), "—");
  EXPECT_EQ(FormatSeconds(1e300), "—");
  EXPECT_EQ(FormatByteNumber(12897484.4), "12.3 MiB");
  EXPECT_EQ(FormatByteNumber(-1), FormatByteNumber(0));
  EXPECT_EQ(FormatByteNumber(1e300), FormatByteNumber(1e18));
  EXPECT_EQ(FormatByteNumber(std::nan("")), "—");
  EXPECT_EQ(FormatParameters(-5e300), "-5e+300");
}

TEST(ReportHtml, ATableSaysWhatIsANumber) {
  HtmlTable table({"name", "count"}, {1});
  EXPECT_TRUE(table.empty());
  table.Row({"a", "1"}, "best");
  EXPECT_FALSE(table.empty());
  EXPECT_THAT(
      table.Html(),
      testing::HasSubstr(
          "<tr class=\"best\"><td>a</td><td class=\"number\" data-label=\"count\">1</td></tr>"));
}

}  // namespace
}  // namespace spillway
