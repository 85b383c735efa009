// Decoding, held against Pillow's (tests/golden/make_pictures.py).
#include "engine/data/picture.h"

#include <fstream>
#include <iterator>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/scratch_directory.h"

namespace spillway {
namespace {

using testing::HasSubstr;

const std::string kPictureFolder = SPILLWAY_SOURCE_DIR "/tests/golden/pictures/";

std::string BytesOf(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string PictureRefusal(const std::string& path) {
  const auto size = ReadPictureSize(path);
  const auto picture = ReadPicture(path);
  EXPECT_EQ(picture.status().code(), absl::StatusCode::kInvalidArgument) << picture.status();
  EXPECT_THAT(std::string(picture.status().message()), HasSubstr(path));
  if (!size.ok()) {
    EXPECT_EQ(size.status(), picture.status());
  }
  return std::string(picture.status().message());
}

TEST(Picture, JpegAndPngAreDecodedAsPillowDoesIt) {
  const auto golden =
      nlohmann::json::parse(std::ifstream(SPILLWAY_SOURCE_DIR "/tests/golden/pictures.json"));
  ASSERT_EQ(golden["files"].size(), 7u);
  for (const auto& [name, expected] : golden["files"].items()) {
    SCOPED_TRACE(name);
    const auto picture = ReadPicture(kPictureFolder + name);
    ASSERT_TRUE(picture.ok()) << picture.status();
    EXPECT_EQ(picture->width, expected["width"]);
    EXPECT_EQ(picture->height, expected["height"]);
    EXPECT_EQ(picture->channels, 3);
    EXPECT_EQ(picture->points, expected["points"].get<std::vector<uint8_t>>());
    EXPECT_EQ(ToGrey(*picture).points, expected["grey"].get<std::vector<uint8_t>>());
    const auto size = ReadPictureSize(kPictureFolder + name);
    ASSERT_TRUE(size.ok()) << size.status();
    EXPECT_EQ(size->width, picture->width);
    EXPECT_EQ(size->height, picture->height);
  }
}

TEST(Picture, WhatIsNoneIsNamedWithTheRemedy) {
  const ScratchDirectory dir;
  const auto write = [&](const std::string& name, const std::string& bytes) {
    std::ofstream(dir / name, std::ios::binary) << bytes;
    return std::string(dir / name);
  };
  EXPECT_THAT(PictureRefusal(kPictureFolder + "cmyk.jpg"), HasSubstr("CMYK: save it as an RGB"));
  EXPECT_THAT(PictureRefusal(kPictureFolder + "deep.png"), HasSubstr("16 bits a channel"));
  EXPECT_THAT(PictureRefusal(write("empty.jpg", "")), HasSubstr("it is empty"));
  EXPECT_THAT(PictureRefusal(write("text.png", "once upon a time")),
              HasSubstr("neither a JPEG nor a PNG"));
  for (const char* name : {"colours.jpg", "progressive.jpg", "colours.png", "palette.png"}) {
    const std::string whole = BytesOf(kPictureFolder + name);
    for (const size_t part : {whole.size() / 6, whole.size() / 2, whole.size() - 20}) {
      SCOPED_TRACE(part);
      const std::string text =
          PictureRefusal(write(std::string("cut-") + name, whole.substr(0, part)));
      EXPECT_THAT(text, HasSubstr("cut short: fetch it again"));
    }
  }
  // A wrong byte of a PNG is found by its checksum.
  std::string damaged = BytesOf(kPictureFolder + "colours.png");
  damaged[damaged.size() / 2] ^= 1;
  EXPECT_THAT(PictureRefusal(write("damaged.png", damaged)),
              HasSubstr("no picture that can be read"));
  // One of 60000 x 60000 points, by its header.
  std::string huge = BytesOf(kPictureFolder + "colours.jpg");
  const size_t frame = huge.find("\xff\xc0");
  ASSERT_NE(frame, std::string::npos);
  for (size_t i = 5; i < 9; ++i) huge[frame + i] = '\xea';
  EXPECT_THAT(PictureRefusal(write("huge.jpg", huge)), HasSubstr("scale it down"));
  EXPECT_EQ(ReadPicture(dir / "none.jpg").status().code(), absl::StatusCode::kNotFound);
}

TEST(Picture, HeadersBehindMuchElseAreFound) {
  const ScratchDirectory dir;
  const std::string picture = BytesOf(kPictureFolder + "colours.jpg");
  std::string segment("\xff\xe1\xff\xff", 4);  // 65533 bytes that an application put there
  segment += std::string(65533, 'x');
  std::ofstream(dir / "behind.jpg", std::ios::binary)
      << picture.substr(0, 2) << segment << segment << picture.substr(2);
  const auto size = ReadPictureSize(dir / "behind.jpg");
  ASSERT_TRUE(size.ok()) << size.status();
  EXPECT_EQ(size->width, 30);
  EXPECT_EQ(size->height, 21);
}

TEST(Picture, NamesTellWhatIsTakenForOne) {
  EXPECT_TRUE(IsPictureName("a/b.JPG") && IsPictureName("b.jpeg") && IsPictureName("c.Png"));
  EXPECT_FALSE(IsPictureName("jpg") || IsPictureName("a.gif") || IsPictureName("a.jpg.txt"));
}

}  // namespace
}  // namespace spillway
