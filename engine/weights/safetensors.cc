#include "engine/weights/safetensors.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/weights/read_at.h"
#include "engine/weights/torch_file.h"
#include "io/base/status.h"
#include "io/checksum.h"

namespace spillway {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors is little-endian");

constexpr uint64_t kFingerprintBytes = 4096;

// Beginning of the file that a clone without git-lfs has in place of a large one.
constexpr char kLfsPointer[] = "version https://git-lfs";

template <float (*kConvert)(uint16_t)>
absl::Status ReadHalves(int fd, const std::string& path, uint64_t offset_bytes, uint64_t count,
                        float* out) {
  std::array<uint16_t, 16 << 10> piece;
  for (uint64_t first = 0; first < count; first += piece.size()) {
    const uint64_t n = std::min<uint64_t>(piece.size(), count - first);
    RETURN_IF_ERROR(ReadAt(fd, path, offset_bytes + 2 * first, piece.data(), 2 * n));
    for (uint64_t i = 0; i < n; ++i) out[first + i] = kConvert(piece[i]);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<SafetensorsFile>> SafetensorsFile::Open(absl::string_view path) {
  std::unique_ptr<SafetensorsFile> file(new SafetensorsFile);
  file->path_ = std::string(path);
  // Non-blocking, so that a pipe under this name is an error instead of a wait.
  file->fd_ = UniqueFd(RetryOnSignal(
      [&] { return ::open(file->path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK); }));
  if (!file->fd_.valid()) return ErrnoStatus(errno, absl::StrCat("open ", path));
  struct stat info;
  if (::fstat(file->fd_.get(), &info) != 0) return ErrnoStatus(errno, absl::StrCat("stat ", path));
  if (!S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(path, " is not a plain file"));
  }
  file->size_bytes_ = static_cast<uint64_t>(info.st_size);

  std::array<char, 8> begin = {};
  const uint64_t begin_bytes = std::min<uint64_t>(begin.size(), file->size_bytes_);
  RETURN_IF_ERROR(ReadAt(file->fd_.get(), file->path_, 0, begin.data(), begin_bytes));
  if (!absl::EndsWith(path, ".safetensors") &&
      BeginsAsTorchFile(absl::string_view(begin.data(), begin_bytes))) {
    ASSIGN_OR_RETURN(file->header_,
                     ReadTorchFileHeader(file->fd_.get(), file->path_, file->size_bytes_));
    file->IndexTensors();
    return file;
  }
  const auto broken = [&](absl::string_view rule) {
    return WrongBytesError(absl::StrCat(path, " is not a valid safetensors file: ", rule));
  };
  if (file->size_bytes_ < 8) return broken("it is shorter than the 8 bytes of a header's length");
  uint64_t header_bytes = 0;
  RETURN_IF_ERROR(ReadAt(file->fd_.get(), file->path_, 0, &header_bytes, 8));
  if (std::memcmp(&header_bytes, kLfsPointer, 8) == 0) {
    return broken("it is git-lfs's pointer to one: fetch the file itself (git lfs pull)");
  }
  if (header_bytes > kSafetensorsMaxHeaderBytes) {
    return broken(absl::StrCat("a header of ", header_bytes, " bytes; at most ",
                               kSafetensorsMaxHeaderBytes, " are allowed"));
  }
  if (header_bytes > file->size_bytes_ - 8) {
    return broken(absl::StrCat("a header of ", header_bytes, " bytes in a file of ",
                               file->size_bytes_, ": it is cut short"));
  }
  std::string json(header_bytes, '\0');
  RETURN_IF_ERROR(ReadAt(file->fd_.get(), file->path_, 8, json.data(), header_bytes));
  absl::StatusOr<SafetensorsHeader> header = ParseSafetensorsHeader(json, file->size_bytes_);
  if (!header.ok()) return broken(header.status().message());
  file->header_ = *std::move(header);
  file->IndexTensors();
  file->header_digest_ = Checksum(json.data(), json.size());
  return file;
}

void SafetensorsFile::IndexTensors() {
  std::string described;
  for (size_t i = 0; i < header_.tensors.size(); ++i) {
    const SafetensorsTensor& tensor = header_.tensors[i];
    by_name_[tensor.name] = i;
    absl::StrAppend(&described, tensor.name, " ", tensor.dtype, " ",
                    absl::StrJoin(tensor.shape, ","), " ", tensor.offset_bytes, "\n");
  }
  header_digest_ = Checksum(described.data(), described.size());
}

const SafetensorsTensor* SafetensorsFile::Find(absl::string_view name) const {
  const auto found = by_name_.find(std::string(name));
  return found == by_name_.end() ? nullptr : &header_.tensors[found->second];
}

absl::Status SafetensorsFile::ReadFp32(absl::string_view name, uint64_t first, uint64_t count,
                                       float* out) const {
  const SafetensorsTensor* tensor = Find(name);
  if (tensor == nullptr) {
    return absl::NotFoundError(absl::StrCat(path_, " has no tensor '", name, "'"));
  }
  if (first > tensor->elements || count > tensor->elements - first) {
    return absl::OutOfRangeError(absl::StrCat(path_, ": elements ", first, " to ", first + count,
                                              " of '", name, "', which has ", tensor->elements));
  }
  const int fd = fd_.get();
  if (tensor->dtype == "F32") {
    return ReadAt(fd, path_, tensor->offset_bytes + 4 * first, out, 4 * count);
  }
  if (tensor->dtype == "I64") {
    std::vector<int64_t> numbers(count);
    RETURN_IF_ERROR(ReadAt(fd, path_, tensor->offset_bytes + 8 * first, numbers.data(), 8 * count));
    std::copy(numbers.begin(), numbers.end(), out);
    return absl::OkStatus();
  }
  const uint64_t offset_bytes = tensor->offset_bytes + 2 * first;
  if (tensor->dtype == "BF16") {
    return ReadHalves<FloatFromBFloat16>(fd, path_, offset_bytes, count, out);
  }
  if (tensor->dtype == "F16") {
    return ReadHalves<FloatFromFloat16>(fd, path_, offset_bytes, count, out);
  }
  return absl::InvalidArgumentError(
      absl::StrCat(path_, ": tensor '", name, "' is ", tensor->dtype,
                   "; weights are read from F32, BF16 and F16: save the model in one of these"));
}

absl::Status SafetensorsFile::ReadBytes(absl::string_view name, uint64_t first, uint64_t count,
                                        void* out) const {
  const SafetensorsTensor* tensor = Find(name);
  if (tensor == nullptr) {
    return absl::NotFoundError(absl::StrCat(path_, " has no tensor '", name, "'"));
  }
  if (first > tensor->size_bytes || count > tensor->size_bytes - first) {
    return absl::OutOfRangeError(absl::StrCat(path_, ": bytes ", first, " to ", first + count,
                                              " of '", name, "', which has ", tensor->size_bytes));
  }
  return ReadAt(fd_.get(), path_, tensor->offset_bytes + first, out, count);
}

absl::StatusOr<uint64_t> SafetensorsFile::Fingerprint() const {
  uint64_t digest = header_digest_;
  std::array<char, kFingerprintBytes> piece;
  const auto add = [&](const void* data, size_t size_bytes) {
    const uint64_t pair[2] = {digest, Checksum(data, size_bytes)};
    digest = Checksum(pair, sizeof(pair));
  };
  add(&size_bytes_, sizeof(size_bytes_));
  for (const SafetensorsTensor& tensor : header_.tensors) {
    const uint64_t n = std::min(tensor.size_bytes, kFingerprintBytes);
    RETURN_IF_ERROR(ReadAt(fd_.get(), path_, tensor.offset_bytes, piece.data(), n));
    add(piece.data(), n);
  }
  return digest;
}

}  // namespace spillway
