#include "engine/report/tensorboard_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/report/crc32c.h"
#include "io/base/status.h"
#include "io/base/unique_fd.h"
#include "io/file_system.h"

namespace spillway {
namespace {

constexpr double kFlushSeconds = 5;
constexpr size_t kFlushBytes = 256 << 10;

// Field numbers of TensorFlow's event.proto and summary.proto.
constexpr int kEventWallTime = 1;
constexpr int kEventStep = 2;
constexpr int kEventFileVersion = 3;
constexpr int kEventSummary = 5;
constexpr int kEventSessionLog = 7;
constexpr int kSummaryValue = 1;
constexpr int kValueTag = 1;
constexpr int kValueSimpleValue = 2;
constexpr int kSessionLogStatus = 1;
constexpr uint64_t kSessionStart = 1;

// A minimal encoder of protocol buffers.
class Message {
 public:
  void Varint(int field, uint64_t value) {
    Key(field, 0);
    Raw(value);
  }
  void Double(int field, double value) {
    Key(field, 1);
    LittleEndian(std::bit_cast<uint64_t>(value), 8);
  }
  void Bytes(int field, absl::string_view value) {
    Key(field, 2);
    Raw(value.size());
    absl::StrAppend(&bytes_, value);
  }
  void Float(int field, float value) {
    Key(field, 5);
    LittleEndian(std::bit_cast<uint32_t>(value), 4);
  }
  const std::string& bytes() const { return bytes_; }

 private:
  void Key(int field, int wire_type) { Raw(static_cast<uint64_t>(field) << 3 | wire_type); }
  void Raw(uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_.push_back(static_cast<char>(value | 0x80));
    bytes_.push_back(static_cast<char>(value));
  }
  void LittleEndian(uint64_t value, int count) {
    for (int i = 0; i < count; ++i) bytes_.push_back(static_cast<char>(value >> (8 * i)));
  }

  std::string bytes_;
};

void AppendLittleEndian(uint64_t value, int count, std::string& out) {
  for (int i = 0; i < count; ++i) out.push_back(static_cast<char>(value >> (8 * i)));
}

std::string HostOfEvents() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 && name[0] != 0 ? name : "localhost";
}

}  // namespace

TensorBoardWriter::Clock TensorBoardWriter::SystemClock() {
  return [] {
    return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch())
        .count();
  };
}

absl::Status TensorBoardWriter::PrepareDirectory(const std::string& directory) {
  int error = CreateSharedDirectories(directory);
  if (error == 0 && access(directory.c_str(), W_OK | X_OK) != 0) error = errno;
  if (error == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "--tensorboard ", directory,
      ": no event files can be written there: ", std::system_category().message(error)));
}

absl::StatusOr<std::unique_ptr<TensorBoardWriter>> TensorBoardWriter::Open(
    const std::string& directory, int64_t first_step, Clock clock) {
  RETURN_IF_ERROR(PrepareDirectory(directory));
  const double now = clock();
  // TensorBoard reads a directory's files in the order of their names.
  const std::string stem =
      absl::StrFormat("%s/events.out.tfevents.%010d.%s.%d", directory, static_cast<int64_t>(now),
                      HostOfEvents(), static_cast<int>(getpid()));
  std::string path;
  int fd = -1;
  for (int number = 0; fd < 0; ++number) {
    path = absl::StrCat(stem, ".", number);
    fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0 && errno != EEXIST) return ErrnoStatus(errno, absl::StrCat("create ", path));
  }
  std::unique_ptr<TensorBoardWriter> writer(
      new TensorBoardWriter(std::move(path), fd, std::move(clock)));
  Message version;
  version.Double(kEventWallTime, now);
  version.Bytes(kEventFileVersion, "brain.Event:2");
  writer->AddEvent(version.bytes());
  Message session, start;
  session.Varint(kSessionLogStatus, kSessionStart);
  start.Double(kEventWallTime, now);
  start.Varint(kEventStep, static_cast<uint64_t>(first_step));
  start.Bytes(kEventSessionLog, session.bytes());
  writer->AddEvent(start.bytes());
  RETURN_IF_ERROR(writer->Flush());
  return writer;
}

TensorBoardWriter::~TensorBoardWriter() {
  (void)Flush();
  close(fd_);
}

void TensorBoardWriter::AddEvent(const std::string& event) {
  std::string length;
  AppendLittleEndian(event.size(), 8, length);
  buffer_ += length;
  AppendLittleEndian(MaskedCrc32c(length), 4, buffer_);
  buffer_ += event;
  AppendLittleEndian(MaskedCrc32c(event), 4, buffer_);
}

absl::Status TensorBoardWriter::Write(int64_t step, const Scalars& scalars) {
  Message summary;
  for (const auto& [tag, scalar] : scalars) {
    if (!std::isfinite(scalar)) continue;
    Message value;
    value.Bytes(kValueTag, tag);
    value.Float(kValueSimpleValue, static_cast<float>(scalar));
    summary.Bytes(kSummaryValue, value.bytes());
  }
  if (summary.bytes().empty() || failed_) return absl::OkStatus();
  const double now = clock_();
  Message event;
  event.Double(kEventWallTime, now);
  event.Varint(kEventStep, static_cast<uint64_t>(step));
  event.Bytes(kEventSummary, summary.bytes());
  AddEvent(event.bytes());
  if (now - flushed_ < kFlushSeconds && buffer_.size() < kFlushBytes) return absl::OkStatus();
  return Flush();
}

absl::Status TensorBoardWriter::Flush() {
  if (failed_) return absl::OkStatus();
  flushed_ = clock_();
  const int error = WriteAll(fd_, buffer_.data(), buffer_.size());
  failed_ = error != 0;
  if (failed_) return ErrnoStatus(error, absl::StrCat("write ", path_));
  buffer_.clear();
  return absl::OkStatus();
}

}  // namespace spillway
