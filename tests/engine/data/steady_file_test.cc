#include "engine/data/steady_file.h"

#include <sys/stat.h>

#include <filesystem>
#include <random>

#include "absl/strings/str_cat.h"
#include "engine/data/token_source.h"
#include "tests/engine/data/scratch_testing.h"
#include "tests/engine/format_testing.h"

namespace spillway {
namespace {

using absl::StatusCode;

class SteadyFileTest : public testing::Test {
 protected:
  SteadyFileTest() {
    std::mt19937 random(3);
    bytes_.resize(3 * (16 << 10) + 1234);
    for (char& byte : bytes_) byte = static_cast<char>(random());
    WriteFile(path_, bytes_);
  }
  // Read through by pieces of so many bytes.
  std::unique_ptr<SteadyFile> Open(uint64_t piece_bytes = 10'000) {
    auto file = SteadyFile::Open(path_, dir_.path());
    EXPECT_TRUE(file.ok()) << file.status();
    std::string all;
    while (all.size() < bytes_.size()) {
      std::string piece(std::min(piece_bytes, bytes_.size() - all.size()), '\0');
      EXPECT_TRUE((*file)->ReadNext(piece.data(), piece.size()).ok());
      all += piece;
    }
    EXPECT_EQ(all, bytes_);
    EXPECT_TRUE((*file)->EndFirstPass().ok());
    return *std::move(file);
  }
  static absl::StatusOr<std::string> Read(const SteadyFile& file, uint64_t at, uint64_t size) {
    std::string out(size, '\0');
    const absl::Status status = file.Read(at, out.data(), size);
    if (!status.ok()) return status;
    return out;
  }
  // Writes over the file where it is, and puts its times back.
  void WriteWithOldTime(const std::string& bytes) {
    struct stat info;
    ASSERT_EQ(::stat(path_.c_str(), &info), 0);
    WriteFile(path_, bytes);
    const timespec times[2] = {info.st_atim, info.st_mtim};
    ASSERT_EQ(::utimensat(AT_FDCWD, path_.c_str(), times, 0), 0);
  }
  void ExpectChanged(const SteadyFile& file, const std::string& how) {
    ExpectError(Read(file, 20'000, 10).status(), StatusCode::kDataLoss,
                {path_, how, "committed before is good", "--resume"});
  }

  const ScratchDirectory dir_;
  const std::string path_ = dir_ / "data.bin";
  std::string bytes_;
};

TEST_F(SteadyFileTest, AnyRangeIsReadAsItWas) {
  for (const uint64_t piece : {uint64_t{100}, uint64_t{16 << 10}, uint64_t{50'000}}) {
    const auto file = Open(piece);
    std::mt19937 random(5);
    for (int i = 0; i < 50; ++i) {
      const uint64_t at = random() % bytes_.size(), n = random() % (bytes_.size() - at + 1);
      EXPECT_EQ(*Read(*file, at, n), bytes_.substr(at, n));
    }
  }
}

TEST_F(SteadyFileTest, BytesThatChangeInPlaceAreFoundThoughSizeAndTimeAreAsBefore) {
  const auto file = Open();
  std::string other = bytes_;
  other[20'005] ^= 1;
  WriteWithOldTime(other);
  ExpectChanged(*file, "bytes from 16384 on");
  WriteWithOldTime(bytes_);
  EXPECT_TRUE(Read(*file, 20'000, 10).ok());
}

TEST_F(SteadyFileTest, WhatIsWrittenElsewhereInTheFileIsFoundByItsTime) {
  const auto file = Open();
  std::string other = bytes_;
  other.back() ^= 1;  // no block that is read
  WriteFile(path_, other);
  ExpectChanged(*file, "bytes from 49152 on");
}

TEST_F(SteadyFileTest, ALongerShorterMissingOrOtherFileIsNamed) {
  const auto file = Open();
  WriteFile(path_, bytes_ + "x");
  ExpectChanged(*file,
                absl::StrCat("it has ", bytes_.size() + 1, " bytes and had ", bytes_.size()));
  WriteFile(path_, "");
  ExpectChanged(*file, "it has 0 bytes");
  std::filesystem::remove(path_);
  ExpectChanged(*file, "not there any more");
  WriteFile(path_, std::string(bytes_.size(), 'a'));
  ExpectChanged(*file, "bytes from 0 on");
  // A link that leads elsewhere.
  std::filesystem::rename(path_, dir_ / "other");
  std::filesystem::create_symlink(dir_ / "other", path_);
  ExpectChanged(*file, "bytes from 0 on");
}

// A file that a backup wrote anew, or that was only touched.
TEST_F(SteadyFileTest, TheSameBytesAnewAreNoChange) {
  const auto file = Open();
  WriteFile(dir_ / "new", bytes_);
  std::filesystem::rename(dir_ / "new", path_);
  EXPECT_EQ(*Read(*file, 7, 30'000), bytes_.substr(7, 30'000));
  ASSERT_EQ(::utimensat(AT_FDCWD, path_.c_str(), nullptr, 0), 0);
  EXPECT_EQ(*Read(*file, 7, 30'000), bytes_.substr(7, 30'000));
}

TEST_F(SteadyFileTest, ItsChecksumsAreVerifiedThemselves) {
  const auto file = Open();
  ASSERT_EQ(FlipByte(dir_.path(), 1), 1);
  ExpectError(Read(*file, 0, 1).status(), StatusCode::kDataLoss, {"a temporary file in"});
}

TEST_F(SteadyFileTest, TokensOfBinAndNpyAreVerified) {
  for (const bool npy : {false, true}) {
    const std::string path = npy ? dir_ / "t.npy" : path_;
    if (npy) {
      std::string header = "{'descr': '<u2', 'fortran_order': False, 'shape': (20000,), }";
      header.resize(117, ' ');
      WriteFile(path, absl::StrCat(absl::string_view("\x93NUMPY\x01\x00\x76\x00", 10), header, "\n",
                                   bytes_.substr(0, 40'000)));
    }
    const auto source = TokenSource::Open({{path}, nullptr, dir_.path(), 65536, 0});
    ASSERT_TRUE(source.ok()) << source.status();
    std::vector<int64_t> tokens(100);
    ASSERT_TRUE((*source)->Read(9000, 100, tokens.data()).ok());
    for (int i = 0; i < 100; ++i) {
      const auto* at = reinterpret_cast<const unsigned char*>(bytes_.data()) + 2 * (9000 + i);
      ASSERT_EQ(tokens[i], at[0] + 256 * at[1]);
    }
    std::string changed = ReadFile(path);
    changed[18'200] ^= 4;
    WriteFile(path, changed);
    ExpectError((*source)->Read(9000, 100, tokens.data()), StatusCode::kDataLoss, {path});
  }
}

}  // namespace
}  // namespace spillway
