#include "engine/data/scratch_file.h"

#include <random>

#include "absl/strings/str_cat.h"
#include "engine/data/masked_texts.h"
#include "engine/data/paired_samples.h"
#include "engine/data/sample_rows.h"
#include "tests/engine/data/scratch_testing.h"
#include "tests/engine/data/tokenizer_testing.h"
#include "tests/engine/format_testing.h"

namespace spillway {
namespace {

using absl::StatusCode;

constexpr uint64_t kPayload = ScratchFile::kBlockBytes - 8;

class ScratchFileTest : public testing::Test {
 protected:
  std::string Bytes(uint64_t size) {
    std::string bytes(size, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random_());
    return bytes;
  }
  ScratchFile File(const std::string& bytes, uint64_t piece_bytes = 1000) {
    auto file = ScratchFile::Create(dir_.path());
    EXPECT_TRUE(file.ok()) << file.status();
    for (uint64_t at = 0; at < bytes.size(); at += piece_bytes) {
      const std::string piece = bytes.substr(at, piece_bytes);
      EXPECT_TRUE(file->Append(piece.data(), piece.size()).ok());
    }
    EXPECT_TRUE(file->Flush().ok());
    return *std::move(file);
  }
  static absl::StatusOr<std::string> Read(const ScratchFile& file, uint64_t at, uint64_t size) {
    std::string out(size, '\0');
    const absl::Status status = file.Read(at, out.data(), size);
    if (!status.ok()) return status;
    return out;
  }

  const ScratchDirectory dir_;
  std::mt19937 random_{7};
};

TEST_F(ScratchFileTest, GivesBackWhatWasAppendedAtAnyOffset) {
  for (const uint64_t size : {uint64_t{0}, uint64_t{1}, kPayload - 1, kPayload, kPayload + 1,
                              16 * kPayload, 40 * kPayload + 77}) {
    for (const uint64_t piece : {uint64_t{7}, uint64_t{4096}, 3 * kPayload}) {
      const std::string bytes = Bytes(size);
      const ScratchFile file = File(bytes, piece);
      ASSERT_EQ(file.size_bytes(), size);
      EXPECT_EQ(*Read(file, 0, size), bytes);
      for (int i = 0; i < 20 && size > 0; ++i) {
        const uint64_t at = random_() % size, n = random_() % (size - at + 1);
        EXPECT_EQ(*Read(file, at, n), bytes.substr(at, n)) << at << " " << n;
      }
    }
  }
}

TEST_F(ScratchFileTest, AnyChangedByteIsFoundWhereItsBlockIsRead) {
  const ScratchFile file = File(Bytes(3 * kPayload + 100));
  // In a first, a middle and the last block; data, and a checksum itself.
  for (const uint64_t at :
       {uint64_t{0}, ScratchFile::kBlockBytes + 5000, 2 * ScratchFile::kBlockBytes - 1,
        3 * ScratchFile::kBlockBytes + 99, 3 * ScratchFile::kBlockBytes + 103}) {
    ASSERT_EQ(FlipByte(dir_.path(), static_cast<int64_t>(at)), 1);
    const uint64_t block = at / ScratchFile::kBlockBytes;
    ExpectError(Read(file, block * kPayload + 3, 1).status(), StatusCode::kDataLoss,
                {dir_.path(), absl::StrCat("offset ", block * ScratchFile::kBlockBytes),
                 "not those that were written", "--resume"});
    // Others are good.
    EXPECT_TRUE(Read(file, (block + 1) % 4 * kPayload, 1).ok());
    FlipByte(dir_.path(), static_cast<int64_t>(at));
    EXPECT_TRUE(Read(file, 0, file.size_bytes()).ok());
  }
}

TEST_F(ScratchFileTest, BlocksInEachOthersPlaceZeroesAndTheEndAreFound) {
  const ScratchFile file = File(Bytes(4 * kPayload));
  const auto change = [&](const std::function<void(int fd)>& how) {
    ASSERT_EQ(ForEachNamelessFile(dir_.path(), [&](int fd, int64_t) { how(fd); }), 1);
  };
  std::string block(ScratchFile::kBlockBytes, '\0');
  // A write that went elsewhere, one that was lost, and one that was cut.
  change([&](int fd) {
    ASSERT_EQ(::pread(fd, block.data(), block.size(), 0), static_cast<ssize_t>(block.size()));
    ASSERT_GT(::pwrite(fd, block.data(), block.size(), ScratchFile::kBlockBytes), 0);
  });
  EXPECT_EQ(Read(file, kPayload, 8).status().code(), StatusCode::kDataLoss);
  change([&](int fd) {
    block.assign(block.size(), '\0');
    ASSERT_GT(::pwrite(fd, block.data(), block.size(), 2 * ScratchFile::kBlockBytes), 0);
  });
  EXPECT_EQ(Read(file, 2 * kPayload, 8).status().code(), StatusCode::kDataLoss);
  change([&](int fd) { ASSERT_EQ(::ftruncate(fd, 3 * ScratchFile::kBlockBytes + 9), 0); });
  EXPECT_EQ(Read(file, 3 * kPayload, 8).status().code(), StatusCode::kDataLoss);
  EXPECT_TRUE(Read(file, 0, kPayload).ok());
}

TEST_F(ScratchFileTest, ABlockOfAnotherFileIsFound) {
  const std::string bytes = Bytes(kPayload);
  const ScratchFile one = File(bytes), other = File(bytes);
  std::string block(ScratchFile::kBlockBytes, '\0');
  ForEachNamelessFile(dir_.path(), [&](int fd, int64_t) {
    if (block[1] == 0) {
      ASSERT_GT(::pread(fd, block.data(), block.size(), 0), 0);
    } else {
      ASSERT_GT(::pwrite(fd, block.data(), block.size(), 0), 0);
    }
  });
  EXPECT_NE(Read(one, 0, 1).ok(), Read(other, 0, 1).ok());
}

// Each of what a run reads in a step from files of its own.
TEST_F(ScratchFileTest, WhateverIsKeptThereIsVerified) {
  const auto tokenizer = NewByteTokenizer();
  std::string lines;
  for (int i = 0; i < 3; ++i) {
    absl::StrAppend(&lines, "{\"text\": \"some text\", \"a\": \"source\", \"b\": \"target\"}\n");
  }
  WriteFile(dir_ / "d.jsonl", lines);
  WriteFile(dir_ / "d.txt", "some more text");
  const auto breaks = [&](const char* what, const std::function<absl::Status()>& read) {
    EXPECT_TRUE(read().ok()) << what << ": " << read();
    EXPECT_GT(FlipByte(dir_.path(), 3), 0) << what;
    EXPECT_EQ(read().code(), StatusCode::kDataLoss) << what;
  };
  for (const char* name : {"d.txt", "d.jsonl"}) {
    const auto source = TokenSource::Open({{dir_ / name}, tokenizer.get(), dir_.path(), 256, 0});
    ASSERT_TRUE(source.ok()) << source.status();
    int64_t token = 0;
    breaks(name, [&] { return (*source)->Read(1, 1, &token); });
  }
  {
    const auto source =
        TokenSource::Open({{dir_ / "d.jsonl"}, tokenizer.get(), dir_.path(), 256, 0});
    const auto rows = SampleRows::Lay(**source, {32, true, dir_.path()});
    ASSERT_TRUE(rows.ok()) << rows.status();
    breaks("rows", [&] { return (*rows)->Read(0).status(); });
  }
  {
    PairedSamplesOptions options;
    options.tokenizer = tokenizer.get();
    options.keys = {"a", "b", ""};
    options.max_source_length = options.max_target_length = 20;
    options.vocabulary = 256;
    options.scratch_directory = dir_.path();
    const auto pairs = PairedSamples::Read({dir_ / "d.jsonl"}, options);
    ASSERT_TRUE(pairs.ok()) << pairs.status();
    breaks("pairs", [&] { return (*pairs)->Get(2).status(); });
  }
}

}  // namespace
}  // namespace spillway
