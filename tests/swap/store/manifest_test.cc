#include "swap/store/manifest.h"

#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "io/checksum.h"

namespace spillway {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// Two units over two files, one tile in slot 1.
Manifest Example() {
  Manifest manifest;
  manifest.step = UINT64_MAX;
  manifest.engine_state = "{\"cursor\": 7, \"text\": \"\xc3\xa9\\n\"}";
  manifest.layout =
      StateLayout({{"embedding \"x\"", 4000}, {"head", 100}, {"nothing", 0}},
                  {{Plane::kWeight, 2}, {Plane::kMaster, 4}, {Plane::kMomentum, 4}}, 2, 2048);
  manifest.files = {{"/a/tiles", 2 * 20480}, {"/b/tiles", 4 * 20480}};
  manifest.tiles = {{{0, {0, 20480}, 0, {1, 2, UINT64_MAX}, {0, 0x0123456789abcdef, UINT64_MAX}},
                     {1, {0, 40960}, 1, {4, 5, 6}, {7, 8, 9}}},
                    {{1, {20480, 61440}, 0, {1, 1, 1}, {1, 1, 1}}},
                    {}};
  return manifest;
}

std::string Encode(const Manifest& manifest) {
  auto text = EncodeManifest(manifest);
  EXPECT_TRUE(text.ok()) << text.status();
  return *text;
}

std::string Body(const std::string& text) { return text.substr(text.find('\n') + 1); }

// A header that fits the body.
std::string Seal(const std::string& body) {
  return absl::StrCat("spillway-manifest 1 ",
                      absl::Hex(Checksum(body.data(), body.size()), absl::kZeroPad16), " ",
                      body.size(), "\n", body);
}

TEST(Manifest, RoundTrips) {
  const std::string text = Encode(Example());
  auto decoded = DecodeManifest(text, "m");
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(*decoded, Example());
  EXPECT_EQ(Encode(*decoded), text);
  EXPECT_EQ(Seal(Body(text)), text);
}

TEST(Manifest, OneThatCouldNotBeReadAgainIsRefusedWithTheRemedy) {
  const std::string text = Encode(Example());
  EXPECT_TRUE(EncodeManifest(Example(), text.size()).ok());
  const absl::Status status = EncodeManifest(Example(), text.size() - 1).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr(absl::StrCat(text.size(), " bytes")),
                    HasSubstr(absl::StrCat("above ", text.size() - 1)), HasSubstr("--shard full")));
}

TEST(Manifest, EveryFlippedBitIsNoticed) {
  const std::string text = Encode(Example());
  for (size_t i = 0; i < text.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string wrong = text;
      wrong[i] ^= 1 << bit;
      const absl::Status status = DecodeManifest(wrong, "/run/manifest").status();
      EXPECT_FALSE(status.ok()) << "byte " << i << " bit " << bit;
      EXPECT_THAT(status.message(), HasSubstr("/run/manifest"));
    }
  }
}

TEST(Manifest, EveryTruncationIsNoticed) {
  const std::string text = Encode(Example());
  for (size_t size = 0; size < text.size(); ++size) {
    EXPECT_EQ(DecodeManifest(text.substr(0, size), "m").status().code(),
              absl::StatusCode::kDataLoss);
  }
  EXPECT_EQ(DecodeManifest(text + "\n", "m").status().code(), absl::StatusCode::kDataLoss);
}

TEST(Manifest, AnotherVersionIsNotDamage) {
  const std::string text = Encode(Example());
  for (const char* version : {"6 ", "10 ", "0 ", "01 "}) {
    const std::string other =
        absl::StrReplaceAll(text, {{"manifest 1 ", absl::StrCat("manifest ", version)}});
    const absl::Status status = DecodeManifest(other, "/run/manifest").status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(status.message(), HasSubstr("/run/manifest"));
  }
}

TEST(Manifest, WhatIsFrozenMakesItVersion2) {
  Manifest manifest = Example();
  manifest.layout = StateLayout({{"embedding", 4000}, {"head", 100, /*frozen=*/true}},
                                manifest.layout.planes(), 2, 2048);
  manifest.tiles.pop_back();
  manifest.tiles[1] = {{1, {20480, 20480}, 1, {3}, {7}}};
  const std::string text = Encode(manifest);
  EXPECT_THAT(text, testing::StartsWith("spillway-manifest 2 "));
  EXPECT_THAT(text, HasSubstr("[\"head\",100,\"frozen\"]"));
  const auto decoded = DecodeManifest(text, "m");
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(*decoded, manifest);
  // The version and the units must say the same.
  for (const auto& [from, to] :
       {std::pair{"manifest 2", "manifest 1"}, std::pair{"manifest 1", "manifest 2"}}) {
    const std::string& right = from == std::string("manifest 2") ? text : Encode(Example());
    const auto wrong = DecodeManifest(absl::StrReplaceAll(right, {{from, to}}), "m");
    EXPECT_EQ(wrong.status().code(), absl::StatusCode::kDataLoss) << wrong.status();
  }
  EXPECT_FALSE(
      DecodeManifest(Seal(absl::StrReplaceAll(Body(text), {{"frozen", "cold"}})), "m").ok());
}

TEST(Manifest, PlanesOfLessThanTwoBytesMakeItVersion4) {
  Manifest manifest = Example();
  std::vector<PlaneSpec> planes = manifest.layout.planes();
  planes[1] = {Plane::kExpAvg, 1};
  planes[2] = {Plane::kExpAvgScale, 4, 256};
  manifest.layout = StateLayout(manifest.layout.units(), planes, 2, 2048);
  const std::string text = Encode(manifest);
  EXPECT_THAT(text, testing::StartsWith("spillway-manifest 4 "));
  EXPECT_THAT(text, HasSubstr("[[0,2],[3,1],[8,4,256]]"));
  const auto decoded = DecodeManifest(text, "m");
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(*decoded, manifest);
  const auto wrong = DecodeManifest(absl::StrReplaceAll(text, {{"manifest 4", "manifest 3"}}), "m");
  EXPECT_EQ(wrong.status().code(), absl::StatusCode::kDataLoss) << wrong.status();
  for (const char* spec : {"[8,4,0]", "[8,4,1]", "[8,4,3]", "[8,4,4096]", "[8,3,256]", "[7,1]"}) {
    const std::string body = absl::StrReplaceAll(Body(text), {{"[8,4,256]", spec}});
    EXPECT_THAT(std::string(DecodeManifest(Seal(body), "m").status().message()),
                HasSubstr("no plane"))
        << spec;
  }
}

TEST(Manifest, AFileInAFolderBesideItMakesItVersion5) {
  Manifest manifest = Example();
  manifest.files[0].path = "a/tiles";
  const std::string text = Encode(manifest);
  EXPECT_THAT(text, testing::StartsWith("spillway-manifest 5 "));
  const auto decoded = DecodeManifest(text, "m");
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(*decoded, manifest);
  EXPECT_EQ(DecodeManifest(Seal(Body(text)), "m").status().code(), absl::StatusCode::kDataLoss);
  manifest.files[0].path = "tiles";
  EXPECT_THAT(Encode(manifest), testing::StartsWith("spillway-manifest 1 "));
}

TEST(Manifest, TextThatIsNotUtf8IsRefusedWhenWriting) {
  Manifest manifest = Example();
  manifest.engine_state = "\xff";
  EXPECT_EQ(EncodeManifest(manifest).status().code(), absl::StatusCode::kInvalidArgument);
}

struct WrongBody {
  const char* from;
  const char* to;
  const char* message;
};

// A writer that seals nonsense is not believed either.
TEST(Manifest, WrongContentsUnderARightChecksumAreRefused) {
  const std::string body = Body(Encode(Example()));
  const WrongBody kCases[] = {
      {"{\"step\"", "[{\"step\"", "not a JSON object"},
      {"\"step\":18446744073709551615", "\"step\":18446744073709551616", "step"},
      {"\"step\":18446744073709551615", "\"step\":-1", "step"},
      {"\"step\":", "\"stop\":", "step"},
      {"\"engine_state\":", "\"engine\":", "engine_state"},
      {"\"tile_parameters\":2048", "\"tile_parameters\":2047", "tile_parameters"},
      {"\"tile_parameters\":2048", "\"tile_parameters\":0", "tile_parameters"},
      {"\"gradient_bytes_per_parameter\":2", "\"gradient_bytes_per_parameter\":3", "gradient"},
      {"[[0,2],[2,4],[5,4]]", "[]", "planes"},
      {"[[0,2],[2,4],[5,4]]", "[[2,4],[0,2],[5,4]]", "first plane"},
      {"[[0,2],[2,4],[5,4]]", "[[0,2],[2,4],[2,4]]", "repeats"},
      {"[[0,2],[2,4],[5,4]]", "[[0,2],[2,4],[6,4]]", "no plane"},
      {"[[0,2],[2,4],[5,4]]", "[[0,2],[2,4],[5,3]]", "no plane"},
      {"[[0,2],[2,4],[5,4]]", "[[0,2],[2,4]]", "malformed"},
      {"[[0,2],[2,4],[5,4]]", "[[0,8],[2,4],[5,4]]", ""},  // tiles now overlap
      {"\"head\",100", "\"head\",2049", "does not have 2 tiles"},
      {"\"head\",100", "\"head\",17592186044417", "units"},
      {"\"head\",100", "\"head\",17592186044416", "does not have 8589934592 tiles"},
      {"\"head\",100", "\"head\",1e2", "units"},
      {"/a/tiles", "../tiles", "files"},
      {"/a/tiles", "a/../tiles", "files"},
      {"/a/tiles", "a//tiles", "files"},
      {"/a/tiles", "./tiles", "files"},
      {"/a/tiles", "a/", "files"},
      {"/a/tiles", "/b/tiles", "twice"},
      {"/a/tiles", "/a\\u0000/tiles", "files"},
      {"\"/b/tiles\",81920", "\"/b/tiles\",77824", "behind the end of /b/tiles"},
      {"[0,0,20480,0", "[2,0,20480,0", "not listed"},
      {"[0,0,20480,0", "[0,0,20480,2", "malformed"},
      {"[0,0,20480,0", "[0,0,-4096,0", "malformed"},
      {"[0,0,20480,0", "[0,0,20481,0", "not aligned"},
      {"[0,0,20480,0", "[0,0,16384,0", "overlap"},
      {"[0,0,20480,0", "[0,0,4096,0", "overlap"},
      {"[1,20480,61440,0", "[1,0,61440,0", "overlap"},
      {"0123456789abcdef", "0123456789abcde", "malformed"},
      {"0123456789abcdef", "0x23456789abcdef", "malformed"},
      {"0123456789abcdef", "0123456789abcdeg", "malformed"},
      {"0123456789abcdef", "+123456789abcdef", "malformed"},
      {",[4,5,6],", ",[4,5],", "malformed"},
      {"[]]}", "]}", "not a JSON object"},
      {",\n[]]}", "]}", "tiles do not match"},
      {"\n[]]}", "\n[7]]}", "does not have 0 tiles"},
  };
  for (const WrongBody& wrong : kCases) {
    ASSERT_NE(body.find(wrong.from), std::string::npos) << wrong.from;
    const std::string text = Seal(absl::StrReplaceAll(body, {{wrong.from, wrong.to}}));
    const absl::Status status = DecodeManifest(text, "/run/manifest").status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << wrong.from << " -> " << wrong.to;
    EXPECT_THAT(status.message(), HasSubstr(wrong.message)) << wrong.from << " -> " << wrong.to;
    EXPECT_THAT(status.message(), HasSubstr("/run/manifest"));
  }
}

TEST(Manifest, DeepNestingIsHarmless) {
  const std::string deep(1 << 20, '[');
  EXPECT_FALSE(DecodeManifest(Seal(deep), "m").ok());
  EXPECT_FALSE(DecodeManifest(Seal(deep + std::string(1 << 20, ']')), "m").ok());
  const std::string body = absl::StrReplaceAll(
      Body(Encode(Example())),
      {{"\"step\"", absl::StrCat("\"x\":", deep, std::string(1 << 20, ']'), ",\"step\"")}});
  (void)DecodeManifest(Seal(body), "m");  // returns, whatever it says
}

// Bytes replaced, removed and doubled at random, under a right checksum: never a
// crash, and what is accepted is whole enough to be written again.
TEST(Manifest, NonsenseNeverCrashes) {
  const std::string body = Body(Encode(Example()));
  std::mt19937_64 random(1);
  int accepted = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string wrong = body;
    for (int edits = 1 + random() % 3; edits > 0; --edits) {
      const size_t at = random() % wrong.size();
      const size_t length = 1 + random() % 8;
      constexpr absl::string_view kBytes = "0123456789[]{},:\"-e.\\ \xff";
      switch (random() % 3) {
        case 0:
          wrong[at] = kBytes[random() % kBytes.size()];
          break;
        case 1:
          wrong.erase(at, length);
          break;
        default:
          wrong.insert(random() % wrong.size(), wrong.substr(at, length));
      }
    }
    auto decoded = DecodeManifest(Seal(wrong), "m");
    if (decoded.ok()) {
      ++accepted;
      auto again = DecodeManifest(Encode(*decoded), "m");
      ASSERT_TRUE(again.ok()) << wrong;
      EXPECT_EQ(*again, *decoded);
    }
  }
  EXPECT_GT(accepted, 0);  // a changed digit of a name or checksum is no nonsense
}

// 1.56 billion parameters in 48 blocks: what is written at every commit.
TEST(Manifest, StaysCompact) {
  std::vector<UnitLayout> units = {{"embedding", 82049600}};
  for (int i = 0; i < 48; ++i) units.push_back({absl::StrCat("block.", i), 30740800});
  Manifest manifest;
  manifest.layout = StateLayout(
      units,
      {{Plane::kWeight, 2}, {Plane::kResidual, 2}, {Plane::kExpAvg, 4}, {Plane::kExpAvgSq, 4}}, 2);
  uint64_t end = 0;
  int tiles = 0;
  for (int unit = 0; unit < manifest.layout.num_units(); ++unit) {
    manifest.tiles.emplace_back();
    for (int tile = 0; tile < manifest.layout.NumTiles(unit); ++tile, ++tiles) {
      const uint64_t bytes = manifest.layout.TileBytes(unit, tile);
      manifest.tiles[unit].push_back({0,
                                      {end, end + bytes},
                                      1,
                                      {1000, 1000, 1000, 1000},
                                      {UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX}});
      end += 2 * bytes;
    }
  }
  manifest.files = {{"/nvme/run/tiles", end}};
  const std::string text = Encode(manifest);
  EXPECT_GT(tiles, 5900);
  EXPECT_LT(text.size(), 1 << 20);
  EXPECT_TRUE(DecodeManifest(text, "m").ok());
}

}  // namespace
}  // namespace spillway
