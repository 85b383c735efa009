#include "engine/weights/safetensors_model.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/base/model_file.h"
#include "engine/weights/safetensors_index.h"
#include "engine/weights/weight_files.h"
#include "io/base/status.h"
#include "io/checksum.h"
#include "io/file.h"
#include "io/file_system.h"

namespace spillway {
namespace {

// Reads the index of a sharded model.
absl::StatusOr<SafetensorsIndex> ReadIndex(const std::string& directory, const std::string& name) {
  ASSIGN_OR_RETURN(const std::string text,
                   ReadModelFile(directory, name, kSafetensorsMaxHeaderBytes));
  return ParseSafetensorsIndex(text, absl::StrCat(directory, "/", name));
}

}  // namespace

absl::StatusOr<std::unique_ptr<SafetensorsModel>> SafetensorsModel::Open(
    absl::string_view directory) {
  std::unique_ptr<SafetensorsModel> model(new SafetensorsModel);
  ASSIGN_OR_RETURN(const WeightFiles found, FindWeightFiles(std::string(directory)));
  const std::string& index = found.index;
  const std::string index_name = FileName(index);
  const auto missing = [&](const std::string& path, absl::string_view why) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " is missing", why, ": the model is incomplete, fetch it again"));
  };
  const auto check = [&](const std::string& path) {
    const absl::Status checked = CheckModelFile(directory, FileName(path));
    return absl::IsNotFound(checked) ? absl::OkStatus() : checked;  // its name is missing
  };
  if (index.empty()) {
    RETURN_IF_ERROR(check(found.file));
    auto file = SafetensorsFile::Open(found.file);
    if (absl::IsNotFound(file.status())) return missing(found.file, " (a link that leads nowhere)");
    RETURN_IF_ERROR(file.status());
    RETURN_IF_ERROR(model->Add(*std::move(file)));
    return model;
  }

  absl::StatusOr<SafetensorsIndex> parsed = ReadIndex(std::string(directory), index_name);
  if (absl::IsNotFound(parsed.status())) return missing(index, " (a link that leads nowhere)");
  RETURN_IF_ERROR(parsed.status());
  const auto& shard_of = parsed->shard_of;
  std::set<std::string> shards;
  for (const auto& [tensor, shard] : shard_of) shards.insert(shard);
  for (const std::string& shard : shards) {
    const std::string path = absl::StrCat(directory, "/", shard);
    RETURN_IF_ERROR(check(path));
    auto file = SafetensorsFile::Open(path);
    if (absl::IsNotFound(file.status())) {
      return missing(path, absl::StrCat(", though ", index_name, " names it"));
    }
    RETURN_IF_ERROR(file.status());
    for (const SafetensorsTensor& tensor : (*file)->tensors()) {
      const auto entry = shard_of.find(tensor.name);
      if (entry == shard_of.end() || entry->second != shard) {
        return WrongBytesError(
            absl::StrCat(path, ": tensor '", tensor.name, "' is in this file, but ", index_name,
                         entry == shard_of.end() ? " does not name it" : " puts it into ",
                         entry == shard_of.end() ? "" : entry->second));
      }
    }
    RETURN_IF_ERROR(model->Add(*std::move(file)));
  }
  for (const auto& [tensor, shard] : shard_of) {
    if (model->Find(tensor) == nullptr) {
      return WrongBytesError(absl::StrCat(directory, "/", shard, ": tensor '", tensor,
                                          "' is missing, though ", index_name, " puts it there"));
    }
  }
  model->index_metadata_ = std::move(parsed->metadata);
  return model;
}

absl::Status SafetensorsModel::Add(std::unique_ptr<SafetensorsFile> file) {
  for (const SafetensorsTensor& tensor : file->tensors()) {
    const bool added = by_name_.emplace(tensor.name, Place{file.get(), &tensor}).second;
    if (!added) {
      return WrongBytesError(
          absl::StrCat(file->path(), ": tensor '", tensor.name, "' is in another shard too"));
    }
  }
  files_.push_back(std::move(file));
  return absl::OkStatus();
}

std::vector<const SafetensorsFile*> SafetensorsModel::files() const {
  std::vector<const SafetensorsFile*> files;
  for (const auto& file : files_) files.push_back(file.get());
  return files;
}

std::vector<const SafetensorsTensor*> SafetensorsModel::tensors() const {
  std::vector<const SafetensorsTensor*> tensors;
  tensors.reserve(by_name_.size());
  for (const auto& [name, place] : by_name_) tensors.push_back(place.tensor);
  return tensors;
}

const SafetensorsTensor* SafetensorsModel::Find(absl::string_view name) const {
  const auto found = by_name_.find(std::string(name));
  return found == by_name_.end() ? nullptr : found->second.tensor;
}

absl::Status SafetensorsModel::Read(const std::string& name, uint64_t first, uint64_t count,
                                    float* out) {
  const auto found = by_name_.find(name);
  if (found == by_name_.end()) {
    return absl::NotFoundError(absl::StrCat("the model has no tensor '", name, "'"));
  }
  return found->second.file->ReadFp32(name, first, count, out);
}

absl::Status SafetensorsModel::ReadBytes(const std::string& name, uint64_t first, uint64_t count,
                                         void* out) const {
  const auto found = by_name_.find(name);
  if (found == by_name_.end()) {
    return absl::NotFoundError(absl::StrCat("the model has no tensor '", name, "'"));
  }
  return found->second.file->ReadBytes(name, first, count, out);
}

std::optional<StoredTensor> SafetensorsModel::Stored(const std::string& name) const {
  const auto found = by_name_.find(name);
  if (found == by_name_.end()) return std::nullopt;
  const auto& [file, tensor] = found->second;
  const std::optional<DType> dtype = SafetensorsDType(tensor->dtype);
  if (!dtype) return std::nullopt;
  return StoredTensor{file->path(), file->size_bytes(),   tensor->name,
                      *dtype,       tensor->offset_bytes, tensor->size_bytes};
}

absl::StatusOr<std::string> SafetensorsModel::Fingerprint() const {
  std::vector<uint64_t> digests;
  for (const auto& file : files_) {
    ASSIGN_OR_RETURN(const uint64_t digest, file->Fingerprint());
    digests.push_back(digest);
  }
  return absl::StrFormat("%016x", Checksum(digests.data(), digests.size() * sizeof(uint64_t)));
}

std::optional<DType> SafetensorsDType(absl::string_view name) {
  if (name == "BF16") return DType::kBFloat16;
  if (name == "F16") return DType::kFloat16;
  if (name == "F32") return DType::kFloat32;
  return std::nullopt;
}

DType SafetensorsModel::dtype() const {
  for (const SafetensorsTensor* tensor : tensors()) {
    if (const auto dtype = SafetensorsDType(tensor->dtype)) return *dtype;
  }
  return DType::kFloat32;
}

}  // namespace spillway
