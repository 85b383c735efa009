#include "engine/data/labelled_pictures.h"

#include <filesystem>
#include <fstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/scratch_directory.h"

namespace spillway {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

const fs::path kGoldenPictureFolder = SPILLWAY_SOURCE_DIR "/tests/golden/pictures";

class LabelledPicturesTest : public testing::Test {
 protected:
  // Records whose colours say which they are: record, channel, place.
  std::string WriteCifar(const std::string& name, int64_t count, int64_t label_bytes = 1) {
    std::string bytes;
    for (int64_t i = 0; i < count; ++i) {
      if (label_bytes == 2) bytes += '\x7f';
      bytes += static_cast<char>(i % 10);
      for (int64_t j = 0; j < 3072; ++j)
        bytes += static_cast<char>((j + 40 * (j / 1024) + i) % 251);
    }
    std::ofstream(dir_ / name, std::ios::binary) << bytes;
    return dir_ / name;
  }
  void Copy(const char* name, const std::string& to) {
    fs::create_directories(fs::path(dir_ / to).parent_path());
    fs::copy_file(kGoldenPictureFolder / name, dir_ / to);
  }
  static std::vector<std::string> Digits(int64_t count = 10) {
    std::vector<std::string> labels;
    for (int64_t i = 0; i < count; ++i) labels.push_back(std::to_string(i));
    return labels;
  }
  absl::StatusOr<std::unique_ptr<LabelledPictures>> Open(const std::vector<std::string>& paths,
                                                         std::vector<std::string> labels,
                                                         bool evaluated = false) {
    return LabelledPictures::Open(
        paths,
        {.labels = std::move(labels), .evaluated = evaluated, .scratch_directory = dir_.path()});
  }
  std::string Objection(const std::string& path, std::vector<std::string> labels) {
    const auto found = Open({path}, std::move(labels));
    EXPECT_FALSE(found.ok());
    return std::string(found.status().message());
  }

  const ScratchDirectory dir_;
};

TEST_F(LabelledPicturesTest, CifarsRecordsAreReadPlaneByPlane) {
  const std::string first = WriteCifar("one.bin", 3), second = WriteCifar("two.bin", 12);
  const auto pictures = Open({first, second}, Digits());
  ASSERT_TRUE(pictures.ok()) << pictures.status();
  ASSERT_EQ((*pictures)->size(), 15);
  EXPECT_TRUE((*pictures)->is_cifar());
  EXPECT_EQ((*pictures)->label(2), 2);
  EXPECT_EQ((*pictures)->label(3 + 11), 1);
  const LabelledPictures::Name name = (*pictures)->name(3 + 11);
  EXPECT_EQ(name.file, second);
  EXPECT_EQ(name.record, 11);
  const auto picture = (*pictures)->Read(3 + 11);
  ASSERT_TRUE(picture.ok()) << picture.status();
  ASSERT_EQ(picture->points.size(), 3072u);
  for (int64_t channel = 0; channel < 3; ++channel) {
    const int64_t at = 1024 * channel + 5 * 32 + 7;  // in the file; row 5, column 7
    EXPECT_EQ(picture->points[(5 * 32 + 7) * 3 + channel], (at + 40 * channel + 11) % 251);
  }
}

TEST_F(LabelledPicturesTest, ADirectoryOfCifarsHasFilesToTrainOnAndOthers) {
  for (const char* name : {"data_batch_1.bin", "data_batch_2.bin"}) WriteCifar(name, 4);
  WriteCifar("test_batch.bin", 5);
  EXPECT_EQ((*Open({dir_.path()}, Digits()))->size(), 8);
  EXPECT_EQ((*Open({dir_.path()}, Digits(), true))->size(), 5);
  const auto found = FindPictureLabels({dir_.path()});
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->names.size(), 10u);
  EXPECT_EQ(found->names[9], "truck");
}

TEST_F(LabelledPicturesTest, Cifar100HasTwoLabelsOfWhichTheFineOneCounts) {
  const std::string file = WriteCifar("train.bin", 7, 2);
  const auto pictures = Open({file}, Digits(100));
  ASSERT_TRUE(pictures.ok()) << pictures.status();
  EXPECT_EQ((*pictures)->size(), 7);
  EXPECT_EQ((*pictures)->label(6), 6);
  EXPECT_EQ((*pictures)->Read(6)->points[0], 6);
  EXPECT_EQ(FindPictureLabels({file})->names.size(), 100u);
}

TEST_F(LabelledPicturesTest, FoldersAreClassesByName) {
  Copy("colours.jpg", "birds/b.JPG");
  Copy("grey.png", "birds/a.png");
  Copy("palette.png", "apples/c.png");
  std::ofstream(dir_ / "birds/notes.txt") << "not a picture";
  std::ofstream(dir_ / "readme.md") << "neither";
  const auto found = FindPictureLabels({dir_.path()});
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_TRUE(found->are_classes);
  EXPECT_THAT(found->names, ElementsAre("apples", "birds"));
  // By the names of the model, in whichever order.
  const auto pictures = Open({dir_.path()}, {"birds", "cats", "apples"});
  ASSERT_TRUE(pictures.ok()) << pictures.status();
  ASSERT_EQ((*pictures)->size(), 3);
  EXPECT_THAT(
      (std::vector<int64_t>{(*pictures)->label(0), (*pictures)->label(1), (*pictures)->label(2)}),
      ElementsAre(2, 0, 0));
  EXPECT_THAT((*pictures)->name(1).file, HasSubstr("birds/a.png"));
  EXPECT_EQ((*pictures)->Read(2)->width, 30);
}

TEST_F(LabelledPicturesTest, FingerprintsTellDataApart) {
  const std::string file = WriteCifar("one.bin", 3);
  const std::string before = (*Open({file}, Digits()))->fingerprint();
  EXPECT_EQ((*Open({file}, Digits()))->fingerprint(), before);
  std::fstream(file, std::ios::in | std::ios::out | std::ios::binary).seekp(100) << 'x';
  EXPECT_NE((*Open({file}, Digits()))->fingerprint(), before);
}

TEST_F(LabelledPicturesTest, BadInputIsNamedBeforeTraining) {
  const std::string cut = dir_ / "cut.bin";
  std::ofstream(cut, std::ios::binary) << std::string(3073 * 2 - 5, '\0');
  EXPECT_THAT(Objection(cut, Digits()), HasSubstr("cut.bin has 6141 bytes"));
  std::ofstream(dir_ / "empty.bin") << "";
  EXPECT_THAT(Objection(dir_ / "empty.bin", Digits()), HasSubstr("no whole records"));
  const std::string file = WriteCifar("seven.bin", 7);
  EXPECT_THAT(Objection(file, Digits(6)), HasSubstr("record 6: label 6, but the model has 6"));
  EXPECT_THAT(Objection(dir_ / "none", Digits()), HasSubstr("there is no"));
  EXPECT_THAT(Objection(dir_.path(), {"a"}), HasSubstr("has no pictures"));

  Copy("colours.jpg", "classes/a/1.jpg");
  EXPECT_THAT(Objection(dir_ / "classes", {"b"}), HasSubstr("has no label \"a\""));
  EXPECT_THAT(Objection(dir_ / "classes/a", {"a"}), HasSubstr("has no pictures"));
  fs::create_directories(dir_ / "classes/b");
  EXPECT_THAT(Objection(dir_ / "classes", {"a", "b"}), HasSubstr("classes/b has no .jpg"));
  std::ofstream(dir_ / "classes/b/bad.png") << "text";
  EXPECT_THAT(Objection(dir_ / "classes", {"a", "b"}), HasSubstr("bad.png: this is no picture"));
  fs::remove_all(dir_ / "classes/b");
  Copy("cmyk.jpg", "classes/b/1.jpg");
  EXPECT_THAT(Objection(dir_ / "classes", {"a", "b"}), HasSubstr("CMYK"));
  fs::remove_all(dir_ / "classes/b");
  const auto both = Open({file, dir_ / "classes"}, {"a", "1", "2", "3", "4", "5", "6"});
  EXPECT_THAT(std::string(both.status().message()), HasSubstr("do not go together"));
}

TEST_F(LabelledPicturesTest, WhatIsOnlyAskedAboutNeedsNoClasses) {
  Copy("colours.jpg", "flat/1.jpg");
  Copy("grey.jpg", "flat/inside/2.jpg");
  LabelledPicturesOptions options;
  options.any_pictures = true;
  const auto pictures = LabelledPictures::Open({dir_ / "flat", dir_ / "flat/1.jpg"}, options);
  ASSERT_TRUE(pictures.ok()) << pictures.status();
  EXPECT_EQ((*pictures)->size(), 3);
  EXPECT_EQ((*pictures)->label(1), -1);
}

// A file, and one of CIFAR's batches.
TEST_F(LabelledPicturesTest, PicturesThatChangeAreNamed) {
  Copy("colours.png", "a/1.png");
  Copy("colours.png", "b/2.png");
  const auto pictures = Open({dir_.path()}, {"a", "b"});
  ASSERT_TRUE(pictures.ok()) << pictures.status();
  const auto change = [&](const std::string& path, const std::string& how) {
    const auto got = (*pictures)->Read(path == "a/1.png" ? 0 : 1);
    EXPECT_TRUE(absl::IsDataLoss(got.status())) << got.status();
    EXPECT_THAT(std::string(got.status().message()), HasSubstr(dir_ / path));
    EXPECT_THAT(std::string(got.status().message()), HasSubstr(how));
  };
  // Not read before: another one by its size, or by its time.
  ASSERT_TRUE((*pictures)->Read(0).ok());
  const auto old_time = fs::last_write_time(dir_ / "b/2.png");
  fs::last_write_time(dir_ / "b/2.png", old_time + std::chrono::seconds(5));
  change("b/2.png", "it was written to");
  fs::last_write_time(dir_ / "b/2.png", old_time);
  fs::copy_file(kGoldenPictureFolder / "palette.png", dir_ / "b/2.png",
                fs::copy_options::overwrite_existing);
  change("b/2.png", "bytes and had");
  fs::remove(dir_ / "b/2.png");
  change("b/2.png", "not there any more");
  // Read before: by its bytes, whatever its time.
  fs::last_write_time(dir_ / "a/1.png", old_time + std::chrono::seconds(5));
  EXPECT_TRUE((*pictures)->Read(0).ok());
  std::fstream(dir_ / "a/1.png", std::ios::in | std::ios::out).seekp(40).put('\0').put('\1');
  fs::last_write_time(dir_ / "a/1.png", old_time + std::chrono::seconds(5));
  change("a/1.png", "not those that were read before");

  const std::string cifar = WriteCifar("one.bin", 30);
  const auto batch = Open({cifar}, Digits());
  ASSERT_TRUE((*batch)->Read(20).ok());
  std::fstream(cifar, std::ios::in | std::ios::out).seekp(20 * 3073 + 100).put('\0').put('\1');
  EXPECT_TRUE(absl::IsDataLoss((*batch)->Read(20).status()));
}

}  // namespace
}  // namespace spillway
