#include "engine/base/size.h"

#include "tests/engine/format_testing.h"

namespace spillway {
namespace {

TEST(ParseSize, UnderstandsEveryForm) {
  const struct {
    const char* text;
    uint64_t bytes;
  } cases[] = {
      {"0", 0},
      {"4096", 4096},
      {"100B", 100},
      {"512MiB", 512ull << 20},
      {"4GiB", 4ull << 30},
      {"4gib", 4ull << 30},
      {"4G", 4ull << 30},
      {"1M", 1ull << 20},
      {"64k", 64 << 10},
      {"4GB", 4'000'000'000},
      {"1kB", 1000},
      {"2TiB", 2ull << 40},
      {"2TB", 2'000'000'000'000},
      {"1.5GiB", 3ull << 29},
      {"1.5MB", 1'500'000},
      {" 3 GiB ", 3ull << 30},
      {"18446744073709551615", UINT64_MAX},
  };
  for (const auto& c : cases) {
    const absl::StatusOr<uint64_t> size = ParseSize(c.text);
    ASSERT_TRUE(size.ok()) << c.text << ": " << size.status();
    EXPECT_EQ(*size, c.bytes) << c.text;
  }
}

TEST(ParseSize, RefusesWhatIsNotASize) {
  for (const char* text :
       {"", " ", "GiB", "-1", "+1", "4X", "4GiBs", "4Gb/s", "1e9", "0x10", "1.", ".5", "1.5", "inf",
        "nan", "18446744073709551616", "17179869184GiB", "99999999999T", "0.1kB5"}) {
    ExpectError(ParseSize(text).status(), absl::StatusCode::kInvalidArgument,
                {std::string("'") + text + "'", "512MiB"});
  }
}

TEST(ParseCount, IsDecimal) {
  const struct {
    const char* text;
    uint64_t count;
  } cases[] = {{"0", 0},           {"1000", 1000},           {"100M", 100'000'000},
               {"5e8", 500000000}, {"1.5k", 1500},           {"2B", 2'000'000'000},
               {"1E3", 1000},      {"2G", 2'000'000'000},    {"1e+3", 1000},
               {"1.25e2", 125},    {"3T", 3'000'000'000'000}};
  for (const auto& c : cases) {
    const absl::StatusOr<uint64_t> count = ParseCount(c.text);
    ASSERT_TRUE(count.ok()) << c.text << ": " << count.status();
    EXPECT_EQ(*count, c.count) << c.text;
  }
  for (const char* text : {"", "M", "-1", "1.5", "1e-3", "1e99", "1e", "100MB", "1x", "1e3e3"}) {
    EXPECT_FALSE(ParseCount(text).ok()) << text;
  }
}

}  // namespace
}  // namespace spillway
