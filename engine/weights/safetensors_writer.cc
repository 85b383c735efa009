#include "engine/weights/safetensors_writer.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/weights/safetensors_header.h"
#include "io/base/check.h"
#include "io/base/status.h"
#include "nlohmann/json.hpp"

namespace spillway {
namespace {

constexpr size_t kBufferBytes = 1 << 20;
constexpr float kMostWhole = 9e18f;

// The 8-byte length and the header, padded with spaces so that data is 8-byte aligned.
std::string Header(const std::vector<ExportTensor>& tensors,
                   const std::map<std::string, std::string>& metadata) {
  // Written member by member in the data's order, which a sorted map would lose.
  std::string json = absl::StrCat("{\"__metadata__\":", nlohmann::json(metadata).dump());
  std::set<std::string> names;
  uint64_t begin_bytes = 0;
  for (const ExportTensor& tensor : tensors) {
    SPILLWAY_CHECK(tensor.name != "__metadata__" && names.insert(tensor.name).second);
    const uint64_t end_bytes = begin_bytes + tensor.size_bytes();
    const std::string dtype(tensor.whole ? "I64" : SafetensorsDtypeName(tensor.dtype));
    absl::StrAppend(&json, ",", nlohmann::json(tensor.name).dump(), ":{\"dtype\":\"", dtype,
                    "\",\"shape\":", nlohmann::json(tensor.shape).dump(), ",\"data_offsets\":[",
                    begin_bytes, ",", end_bytes, "]}");
    begin_bytes = end_bytes;
  }
  json += '}';
  json.resize((json.size() + 7) / 8 * 8, ' ');
  SPILLWAY_CHECK(json.size() <= kSafetensorsMaxHeaderBytes);
  const uint64_t length = json.size();
  std::string header(sizeof(length), '\0');
  std::memcpy(header.data(), &length, sizeof(length));
  return header + json;
}

// Converts `count` values to halves; stops at the first finite value that becomes infinite.
template <uint16_t (*kConvert)(float), uint16_t kInfinity>
bool ToHalves(const float* values, uint64_t count, uint16_t* out) {
  for (uint64_t i = 0; i < count; ++i) {
    out[i] = kConvert(values[i]);
    if ((out[i] & 0x7fff) == kInfinity && std::isfinite(values[i])) return false;
  }
  return true;
}

}  // namespace

uint64_t ExportTensor::elements() const {
  uint64_t product = 1;
  for (const uint64_t size : shape) product *= size;
  return product;
}

SafetensorsWriter::SafetensorsWriter(FileSystem& files, std::string path,
                                     std::vector<ExportTensor> tensors)
    : files_(files),
      path_(std::move(path)),
      partial_(absl::StrCat(path_, ".partial")),
      tensors_(std::move(tensors)) {
  buffer_.reserve(kBufferBytes);
}

SafetensorsWriter::~SafetensorsWriter() {
  if (file_ == nullptr) return;
  // Without Finish the file is removed.
  file_ = nullptr;
  files_.Remove(partial_).IgnoreError();
}

absl::StatusOr<std::unique_ptr<SafetensorsWriter>> SafetensorsWriter::Create(
    absl::string_view path, std::vector<ExportTensor> tensors,
    std::map<std::string, std::string> metadata, FileSystem& files) {
  metadata.emplace("format", "pt");
  std::unique_ptr<SafetensorsWriter> writer(
      new SafetensorsWriter(files, std::string(path), std::move(tensors)));
  // Removes the file of a writer that was killed.
  RETURN_IF_ERROR(RemoveIfThere(files, writer->partial_));
  ASSIGN_OR_RETURN(writer->file_, files.Create(writer->partial_, FileAccess::kShared));
  const std::string header = Header(writer->tensors_, metadata);
  RETURN_IF_ERROR(writer->WriteAll(header.data(), header.size()));
  writer->SkipComplete();
  return writer;
}

// Skips tensors that take no (further) elements.
void SafetensorsWriter::SkipComplete() {
  while (current_ < tensors_.size() && written_bytes_ == tensors_[current_].size_bytes()) {
    ++current_;
    written_bytes_ = 0;
  }
}

absl::Status SafetensorsWriter::AppendFp32(const float* values, uint64_t count) {
  if (count == 0) return absl::OkStatus();
  SPILLWAY_CHECK(current_ < tensors_.size());
  const ExportTensor& tensor = tensors_[current_];
  if (tensor.whole) return AppendWhole(values, count);
  if (tensor.dtype == DType::kFloat32) return AppendRaw(values, count * 4);

  std::vector<uint16_t> piece(std::min<uint64_t>(count, kBufferBytes / 2));
  for (uint64_t first = 0; first < count; first += piece.size()) {
    const uint64_t n = std::min<uint64_t>(piece.size(), count - first);
    const bool fits = tensor.dtype == DType::kBFloat16
                          ? ToHalves<BFloat16FromFloat, 0x7f80>(values + first, n, piece.data())
                          : ToHalves<Float16FromFloat, 0x7c00>(values + first, n, piece.data());
    if (!fits) {
      return absl::OutOfRangeError(
          absl::StrCat(path_, ": tensor '", tensor.name, "' has values that are infinite in ",
                       std::string(DTypeName(tensor.dtype)),
                       ": give --export-dtype fp32 (of spillway export: --dtype fp32)"));
    }
    RETURN_IF_ERROR(AppendRaw(piece.data(), n * 2));
  }
  return absl::OkStatus();
}

absl::Status SafetensorsWriter::AppendWhole(const float* values, uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) {
    const bool whole = std::abs(values[i]) < kMostWhole && values[i] == std::trunc(values[i]);
    if (!whole) {
      return absl::OutOfRangeError(absl::StrCat(path_, ": tensor '", tensors_[current_].name,
                                                "' has ", values[i], ", which is no count"));
    }
    const auto number = static_cast<int64_t>(values[i]);
    RETURN_IF_ERROR(AppendRaw(&number, sizeof(number)));
  }
  return absl::OkStatus();
}

absl::Status SafetensorsWriter::AppendRaw(const void* data, uint64_t size_bytes) {
  if (size_bytes == 0) return absl::OkStatus();
  SPILLWAY_CHECK(current_ < tensors_.size());
  SPILLWAY_CHECK(size_bytes <= tensors_[current_].size_bytes() - written_bytes_);
  RETURN_IF_ERROR(WriteAll(data, size_bytes));
  written_bytes_ += size_bytes;
  SkipComplete();
  return absl::OkStatus();
}

absl::Status SafetensorsWriter::WriteAll(const void* data, uint64_t size_bytes) {
  const char* from = static_cast<const char*>(data);
  while (size_bytes > 0) {
    const uint64_t n = std::min<uint64_t>(size_bytes, kBufferBytes - buffer_.size());
    buffer_.append(from, n);
    from += n;
    size_bytes -= n;
    if (buffer_.size() == kBufferBytes) RETURN_IF_ERROR(Flush());
  }
  return absl::OkStatus();
}

absl::Status SafetensorsWriter::Flush() {
  RETURN_IF_ERROR(file_->Append(buffer_));
  buffer_.clear();
  return absl::OkStatus();
}

absl::Status SafetensorsWriter::Finish() {
  SPILLWAY_CHECK(file_ != nullptr && complete());
  RETURN_IF_ERROR(Flush());
  RETURN_IF_ERROR(file_->Sync());
  RETURN_IF_ERROR(file_->Close());
  RETURN_IF_ERROR(files_.Rename(partial_, path_));
  file_ = nullptr;
  return files_.SyncDirectory(ParentPath(path_));
}

}  // namespace spillway
