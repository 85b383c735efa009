// Resizing and normalising, held against Pillow and transformers (tests/golden/make_pictures.py).
#include "engine/media/picture_processor.h"

#include <fstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace spillway {
namespace {

using testing::HasSubstr;

const nlohmann::json& PictureGolden() {
  static const auto& golden = *new nlohmann::json(
      nlohmann::json::parse(std::ifstream(SPILLWAY_SOURCE_DIR "/tests/golden/pictures.json")));
  return golden;
}

Picture GoldenPicture(const std::string& name) {
  return *ReadPicture(SPILLWAY_SOURCE_DIR "/tests/golden/pictures/" + name);
}

absl::StatusOr<PictureProcessing> Parse(const nlohmann::json& keys, int64_t side = 0) {
  return ParsePictureProcessing(*ParseStrictJson(keys.dump(1), "preprocessor_config.json"), side);
}

std::vector<float> Processed(const PictureProcessing& processing, const Picture& picture) {
  const Picture fitted = Fit(processing, picture);
  std::vector<float> values(fitted.points.size());
  Normalise(processing, fitted, values.data());
  return values;
}

TEST(PictureProcessor, ResizesAsPillow) {
  for (const auto& one : PictureGolden()["resized"]) {
    SCOPED_TRACE(one["file"].dump() + one["width"].dump() + "x" + one["height"].dump());
    const Picture found = Resize(GoldenPicture(one["file"]), {one["width"], one["height"]},
                                 static_cast<ResizeFilter>(one["filter"].get<int>()));
    EXPECT_EQ(found.points, one["points"].get<std::vector<uint8_t>>());
  }
}

TEST(PictureProcessor, MakesWhatTransformersProcessorsMake) {
  for (const auto& one : PictureGolden()["processed"]) {
    SCOPED_TRACE(one["config"]["image_processor_type"]);
    const auto processing = Parse(one["config"]);
    ASSERT_TRUE(processing.ok()) << processing.status();
    EXPECT_EQ(one["shape"],
              (std::vector<int64_t>{3, processing->size.height, processing->size.width}));
    const std::vector<float> expected = one["values"];
    const std::vector<float> found = Processed(*processing, GoldenPicture(one["file"]));
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], 2e-6) << i;
  }
}

TEST(PictureProcessor, WhatIsExportedMeansTheSame) {
  const Picture picture = GoldenPicture("colours.jpg");
  PictureProcessing processings[] = {
      PlainProcessing(9),
      MiddleProcessing(14),
      *Parse(PictureGolden()["processed"][0]["config"], 10),
      *Parse(PictureGolden()["processed"][4]["config"], 8),
      *Parse(PictureGolden()["processed"][2]["config"]),
      *Parse(
          {{"size", {{"height", 16}, {"width", 16}}}, {"do_center_crop", true}, {"crop_size", 12}},
          10)};
  for (const PictureProcessing& processing : processings) {
    const nlohmann::json exported = ToJson(processing, 3);
    SCOPED_TRACE(exported.dump());
    const auto again = Parse(exported);
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(Processed(*again, picture), Processed(processing, picture));
    EXPECT_EQ(ToJson(*again, 3), exported);
  }
}

// As DeiTImageProcessor has it.
TEST(PictureProcessor, WholePicturesOfASquareLoseTheirBorder) {
  const Picture picture = GoldenPicture("colours.jpg");
  ASSERT_NE(picture.width, picture.height);
  const nlohmann::json size = {{"height", 16}, {"width", 16}};
  const auto whole = Parse({{"size", size}});
  const auto middle = Parse({{"size", size}, {"do_center_crop", true}, {"crop_size", 12}});
  ASSERT_TRUE(whole.ok() && middle.ok()) << middle.status();
  const Picture resized = Fit(*whole, picture), cut = Fit(*middle, picture);
  ASSERT_EQ(cut.width, 12);
  ASSERT_EQ(cut.height, 12);
  for (int64_t row = 0; row < 12; ++row) {
    for (int64_t i = 0; i < 12 * cut.channels; ++i) {
      ASSERT_EQ(cut.points[row * 12 * cut.channels + i],
                resized.points[((row + 2) * 16 + 2) * cut.channels + i]);
    }
  }
}

TEST(PictureProcessor, ASizeThatIsGivenWinsOverTheFiles) {
  const nlohmann::json convnext = {{"crop_pct", 0.875}, {"size", 224}};
  EXPECT_EQ(Parse(convnext)->shorter_side, 256);
  EXPECT_EQ(Parse(convnext)->size.width, 224);
  EXPECT_EQ(Parse(convnext, 112)->shorter_side, 128);
  EXPECT_EQ(Parse(convnext, 112)->size.height, 112);
  EXPECT_EQ(Parse(convnext, 384)->shorter_side, 0) << "whole from 384 on";
}

TEST(PictureProcessor, WhatMakesNoSenseIsNamedWithItsLine) {
  const auto objection = [](const nlohmann::json& keys) {
    return std::string(Parse(keys).status().message());
  };
  EXPECT_THAT(objection({{"size", {{"shortest_edge", 0}}}}), HasSubstr("config.json:2: size"));
  EXPECT_THAT(objection({{"size", "large"}}), HasSubstr("expected {\"shortest_edge\""));
  EXPECT_THAT(objection({{"resample", 1}}), HasSubstr("bicubic"));
  EXPECT_THAT(objection({{"image_mean", {0.5, 0.5}}}), HasSubstr("1 or 3 numbers"));
  EXPECT_THAT(objection({{"image_std", {0.5, 0.0, 0.5}}}), HasSubstr("above 0"));
  EXPECT_THAT(objection({{"do_resize", false}}), HasSubstr("do_resize"));
  EXPECT_THAT(objection({{"size", {{"shortest_edge", 200}}}, {"do_center_crop", false}}),
              HasSubstr("different sizes"));
  EXPECT_THAT(objection({{"size", {{"shortest_edge", 200}}}, {"crop_size", 224}}),
              HasSubstr("crop_size"));
  EXPECT_THAT(objection({{"crop_pct", 0}, {"size", 224}}), HasSubstr("crop_pct"));
  EXPECT_THAT(objection({{"crop_pct", 0.001}, {"size", 256}}),
              HasSubstr("crop_pct asks for pictures of 256000 points"));
  EXPECT_THAT(
      Parse({{"size", {{"shortest_edge", 4096}}}, {"crop_size", 1}}, 4096).status().message(),
      HasSubstr("crop_size"));
  EXPECT_THAT(objection(nlohmann::json::array()), HasSubstr("not a JSON object"));
}

}  // namespace
}  // namespace spillway
