// Reads back what was written with a parser of its own. That TensorBoard itself reads it is
// shown in docs/REPORT.md; nothing here needs it.
#include "engine/report/tensorboard_writer.h"

#include <signal.h>
#include <sys/resource.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "engine/report/crc32c.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace spillway {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

// The fields of a message: number -> what stands there, fixed-size ones as their bytes.
std::multimap<int, std::string> Fields(const std::string& message) {
  std::multimap<int, std::string> fields;
  size_t at = 0;
  const auto varint = [&] {
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const unsigned char byte = message.at(at++);
      value |= static_cast<uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) return value;
    }
  };
  while (at < message.size()) {
    const uint64_t key = varint();
    std::string value;
    switch (key & 7) {
      case 0:
        value = absl::StrCat(varint());
        break;
      case 1:
        value = message.substr(at, 8);
        at += 8;
        break;
      case 2: {
        const uint64_t size = varint();
        value = message.substr(at, size);
        at += size;
        break;
      }
      case 5:
        value = message.substr(at, 4);
        at += 4;
        break;
      default:
        ADD_FAILURE() << "wire type " << (key & 7);
        return fields;
    }
    fields.emplace(static_cast<int>(key >> 3), value);
  }
  return fields;
}

template <typename T>
T As(const std::string& bytes) {
  T value = {};
  EXPECT_EQ(bytes.size(), sizeof value);
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

std::string Contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// The records of a file, their checksums verified.
std::vector<std::string> Records(const std::string& path) {
  const std::string bytes = Contents(path);
  std::vector<std::string> records;
  size_t at = 0;
  while (at + 12 <= bytes.size()) {
    const std::string length = bytes.substr(at, 8);
    EXPECT_EQ(As<uint32_t>(bytes.substr(at + 8, 4)), MaskedCrc32c(length));
    const std::string data = bytes.substr(at + 12, As<uint64_t>(length));
    EXPECT_EQ(As<uint32_t>(bytes.substr(at + 12 + data.size(), 4)), MaskedCrc32c(data));
    records.push_back(data);
    at += 16 + data.size();
  }
  EXPECT_EQ(at, bytes.size()) << "a record is cut short";
  return records;
}

class TensorBoardWriterTest : public testing::Test {
 protected:
  std::unique_ptr<TensorBoardWriter> Open(int64_t first_step) {
    auto writer = TensorBoardWriter::Open(folder_, first_step, [this] { return now_; });
    EXPECT_TRUE(writer.ok()) << writer.status();
    return *std::move(writer);
  }

  const std::string folder_ = testing::TempDir() + "/tensorboard/of/a/run";
  double now_ = 1700000000.25;
};

TEST_F(TensorBoardWriterTest, AFileBeginsWithItsVersionAndTheFirstStep) {
  const std::string path = Open(41)->path();
  EXPECT_THAT(std::filesystem::path(path).filename().string(),
              testing::StartsWith("events.out.tfevents.1700000000."));
  const auto records = Records(path);
  ASSERT_EQ(records.size(), 2u);
  const auto version = Fields(records[0]);
  EXPECT_EQ(As<double>(version.find(1)->second), now_);
  EXPECT_EQ(version.find(3)->second, "brain.Event:2");
  const auto start = Fields(records[1]);
  EXPECT_EQ(start.find(2)->second, "41");
  EXPECT_THAT(Fields(start.find(7)->second), ElementsAre(Pair(1, "1")));
}

TEST_F(TensorBoardWriterTest, ScalarsAreThereByTagAndStep) {
  auto writer = Open(1);
  now_ += 2.5;
  ASSERT_EQ(writer->Write(300, {{"train/loss", 3.25},
                                {"train/grad_norm", std::numeric_limits<double>::infinity()},
                                {"train/lr", 0.5}}),
            absl::OkStatus());
  ASSERT_EQ(writer->Write(301, {{"train/loss", std::nan("")}}), absl::OkStatus());
  ASSERT_EQ(writer->Flush(), absl::OkStatus());
  const auto records = Records(writer->path());
  ASSERT_EQ(records.size(), 3u) << "an event without a finite value is none";
  const auto event = Fields(records[2]);
  EXPECT_EQ(As<double>(event.find(1)->second), now_);
  EXPECT_EQ(event.find(2)->second, "300");
  std::vector<std::pair<std::string, float>> scalars;
  for (const auto& [number, value] : Fields(event.find(5)->second)) {
    const auto parts = Fields(value);
    scalars.emplace_back(parts.find(1)->second, As<float>(parts.find(2)->second));
  }
  EXPECT_THAT(scalars, ElementsAre(Pair("train/loss", 3.25f), Pair("train/lr", 0.5f)));
}

TEST_F(TensorBoardWriterTest, WritesOutEveryFewSecondsAndAtTheEnd) {
  auto writer = Open(1);
  ASSERT_EQ(writer->Write(1, {{"a", 1}}), absl::OkStatus());
  EXPECT_EQ(Records(writer->path()).size(), 2u);
  now_ += 6;
  ASSERT_EQ(writer->Write(2, {{"a", 1}}), absl::OkStatus());
  EXPECT_EQ(Records(writer->path()).size(), 4u);
  ASSERT_EQ(writer->Write(3, {{"a", 1}}), absl::OkStatus());
  const std::string path = writer->path();
  writer.reset();
  EXPECT_EQ(Records(path).size(), 5u);
}

TEST_F(TensorBoardWriterTest, ASecondFileInTheSameSecondIsAnother) {
  const auto first = Open(1), second = Open(1);
  EXPECT_NE(first->path(), second->path());
}

TEST_F(TensorBoardWriterTest, AWriteThatFailsIsReportedOnce) {
  auto writer = Open(1);
  // No file may grow beyond this, as on a full disk.
  const auto ignored = signal(SIGXFSZ, SIG_IGN);
  rlimit old = {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old), 0);
  const rlimit small = {64, old.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  now_ += 6;
  const absl::Status failed = writer->Write(1, {{"a", 1}});
  const absl::Status later = writer->Write(2, {{"a", 1}});
  setrlimit(RLIMIT_FSIZE, &old);
  signal(SIGXFSZ, ignored);
  EXPECT_THAT(std::string(failed.message()), HasSubstr(writer->path()));
  EXPECT_EQ(later, absl::OkStatus());
}

TEST_F(TensorBoardWriterTest, ADirectoryThatCannotBeIsNamedWithItsFlag) {
  const std::string file = testing::TempDir() + "/file";
  std::ofstream(file) << "no directory";
  const auto status = TensorBoardWriter::PrepareDirectory(file + "/events");
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("--tensorboard " + file));
}

}  // namespace
}  // namespace spillway
