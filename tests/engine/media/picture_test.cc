// Decoding, held against Pillow's (tests/golden/make_pictures.py).
#include "engine/media/picture.h"

#include <signal.h>
#include <sys/stat.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "absl/strings/str_format.h"
#include "engine/base/stop_signal.h"
#include "engine/base/work_count.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

// It needs FILE.
#include <jpeglib.h>

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

std::string ScansFile(const std::string& name) {
  return SPILLWAY_SOURCE_DIR "/tests/golden/scans/" + name;
}

std::string PointsDigest(const std::vector<uint8_t>& points) {
  uint64_t value = 0xcbf29ce484222325;
  for (const uint8_t byte : points) value = (value ^ byte) * 0x100000001b3;
  return absl::StrFormat("%016x", value);
}

// Large enough for coefficients to be given back while points are made of them.
TEST(Picture, SeveralPassesMakeWhatPillowMakes) {
  const auto golden =
      nlohmann::json::parse(std::ifstream(SPILLWAY_SOURCE_DIR "/tests/golden/scans.json"));
  ASSERT_EQ(golden.size(), 7u);
  for (const auto& [name, digest] : golden.items()) {
    const auto picture = ReadPicture(ScansFile(name));
    ASSERT_TRUE(picture.ok()) << picture.status();
    EXPECT_EQ(PointsDigest(picture->points), digest) << name;
  }
}

// What libjpeg makes of a file while it keeps the coefficients itself.
std::vector<uint8_t> PlainlyDecoded(const std::string& bytes) {
  jpeg_decompress_struct info;
  jpeg_error_mgr errors;
  info.err = jpeg_std_error(&errors);
  jpeg_create_decompress(&info);
  jpeg_mem_src(&info, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
  jpeg_read_header(&info, TRUE);
  info.out_color_space = JCS_RGB;
  jpeg_start_decompress(&info);
  std::vector<uint8_t> points(size_t{3} * info.output_width * info.output_height);
  while (info.output_scanline < info.output_height) {
    uint8_t* row = &points[size_t{3} * info.output_width * info.output_scanline];
    jpeg_read_scanlines(&info, &row, 1);
  }
  jpeg_finish_decompress(&info);
  jpeg_destroy_decompress(&info);
  return points;
}

// Blocks of which there is the first scan alone are made smooth by those around them, above as
// well.
TEST(Picture, CoefficientsAreThereForAsLongAsTheyAreAskedFor) {
  for (const char* name : {"coarse.jpg", "even.jpg", "wide.jpg", "flat.jpg", "again.jpg"}) {
    EXPECT_TRUE(ReadPicture(ScansFile(name))->points == PlainlyDecoded(BytesOf(ScansFile(name))))
        << name;
  }
}

// The coefficients of a progressive JPEG of many points, or its points, and not both: 2 bytes a
// coefficient and 3 a point, by what the kernel counts.
TEST(Picture, CoefficientsMakeRoomForPoints) {
  const auto peak_kib = [] {
    const std::string status = BytesOf("/proc/self/status");
    return std::atol(status.c_str() + status.find("VmHWM:") + 6);
  };
  const auto now_kib = [] {
    const std::string status = BytesOf("/proc/self/status");
    return std::atol(status.c_str() + status.find("VmRSS:") + 6);
  };
  std::ofstream("/proc/self/clear_refs") << "5";
  const long before = now_kib();
  if (peak_kib() > before + 1024) GTEST_SKIP() << "the peak cannot be set anew";
  const auto picture = ReadPicture(ScansFile("flat.jpg"));
  ASSERT_TRUE(picture.ok()) << picture.status();
  const long coefficients_kib = 2000L * 1600 * 3 * 2 / 1024, points_kib = 2000L * 1600 * 3 / 1024;
  const long taken = peak_kib() - before;
  EXPECT_GT(taken, points_kib);  // it is measured
  EXPECT_LT(taken, coefficients_kib + points_kib / 3);
}

TEST(Picture, WhatWouldTakeMoreMemoryThanTheMostPointsIsRefused) {
  const ScratchDirectory dir;
  const auto sized = [&](const std::string& name, int width, int height) {
    std::string bytes = BytesOf(ScansFile(name));
    const size_t frame = bytes.find("\xff\xc2");
    for (int i = 0; i < 2; ++i) {
      bytes[frame + 5 + i] = static_cast<char>(height >> 8 * (1 - i));
      bytes[frame + 7 + i] = static_cast<char>(width >> 8 * (1 - i));
    }
    std::ofstream(dir / name, std::ios::binary) << bytes;
    return ReadPictureSize(dir / name).status();
  };
  // A photo of 24 million points, colours at half the points of both directions, is taken; one at
  // the points of all is not, nor 33 million at half of one.
  EXPECT_EQ(sized("photo.jpg", 6000, 4000), absl::OkStatus());
  EXPECT_EQ(sized("photo.jpg", 5792, 5792), absl::OkStatus());
  EXPECT_EQ(sized("wide.jpg", 5000, 4800), absl::OkStatus());
  for (const absl::Status& status : {sized("even.jpg", 6000, 4000), sized("even.jpg", 5792, 5792),
                                     sized("wide.jpg", 5792, 5792)}) {
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("it is progressive, of "));
    EXPECT_THAT(std::string(status.message()), HasSubstr("96 MiB are allowed"));
    EXPECT_THAT(std::string(status.message()), HasSubstr("jpegtran FILE > NEW"));
  }
  EXPECT_EQ(sized("even.jpg", 4096, 4096), absl::OkStatus());
  EXPECT_THAT(std::string(sized("photo.jpg", 60000, 60000).message()), HasSubstr("progressive"));
}

TEST(Picture, ScansAreCounted) {
  const ScratchDirectory dir;
  for (const char* name : {"photo.jpg", "wide.jpg", "coarse.jpg"}) {
    SCOPED_TRACE(name);
    const std::string whole = BytesOf(ScansFile(name));
    const size_t first = whole.find("\xff\xc4");  // the scan's tables
    size_t end = whole.find("\xff\xda") + 2;
    while (whole[end] != '\xff' || whole[end + 1] == '\0') ++end;
    const auto with = [&](int more) {
      std::string bytes = whole.substr(0, whole.size() - 2);
      for (int i = 0; i < more; ++i) bytes += whole.substr(first, end - first);
      std::ofstream(dir / name, std::ios::binary) << bytes << "\xff\xd9";
      return ReadPicture(dir / name).status();
    };
    EXPECT_EQ(with(80), absl::OkStatus());
    const uint64_t began = WorkCount::now();
    const absl::Status many = with(4000);
    EXPECT_THAT(std::string(many.message()), HasSubstr("it has more than 100 scans"));
    const uint64_t pass = 264 * (520 / 8 + 2);
    EXPECT_LE(WorkCount::now() - began,
              102 * pass + whole.size() + 110 * (end - first) + (128 << 10));
  }
}

// 99 KB of a picture that inflate to 96 MiB are left alone.
TEST(Picture, WhatAPngCarriesBesideIsNotInflated) {
  const auto picture = ReadPicture(ScansFile("profile.png"));
  ASSERT_TRUE(picture.ok()) << picture.status();
  EXPECT_EQ(picture->width, 19);
}

TEST(Picture, OnlyPlainFilesAreRead) {
  const ScratchDirectory dir;
  ASSERT_EQ(mkfifo(std::string(dir / "pipe.jpg").c_str(), 0600), 0);
  std::filesystem::create_directory(std::string(dir / "folder.png"));
  std::filesystem::create_symlink("/dev/zero", std::string(dir / "zero.png"));
  for (const char* name : {"pipe.jpg", "folder.png", "zero.png"}) {
    EXPECT_THAT(PictureRefusal(dir / name), HasSubstr("is not a plain file"));
  }
  EXPECT_THAT(PictureRefusal(dir / "folder.png"),
              HasSubstr("folder.png is not a plain file but a folder"));
  std::ofstream(dir / "long.jpg") << "\xff\xd8\xff";
  std::filesystem::resize_file(std::string(dir / "long.jpg"), uint64_t{1} << 40);
  EXPECT_THAT(PictureRefusal(dir / "long.jpg"), HasSubstr("1 TiB"));
}

TEST(Picture, ASignalEndsWhatTakesLong) {
  const StopSignal handled;
  StopSignal::Receive(SIGTERM);
  // What is over at once is finished all the same.
  EXPECT_TRUE(ReadPicture(ScansFile("photo.jpg")).ok());
  StopPatience::seconds = 0;
  for (const char* name : {"photo.jpg", "interlaced.png"}) {
    const absl::Status status = ReadPicture(ScansFile(name)).status();
    EXPECT_TRUE(absl::IsCancelled(status)) << status;
    EXPECT_EQ(status.message(), "stopped by SIGTERM");
  }
  StopPatience::seconds = 0.7;
}

TEST(Picture, NamesTellWhatIsTakenForOne) {
  EXPECT_TRUE(IsPictureName("a/b.JPG") && IsPictureName("b.jpeg") && IsPictureName("c.Png"));
  EXPECT_FALSE(IsPictureName("jpg") || IsPictureName("a.gif") || IsPictureName("a.jpg.txt"));
}

}  // namespace
}  // namespace spillway
