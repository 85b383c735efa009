// The model half of engine/weights/safetensors_writer.h: one file, or shards and their index.
#include <dirent.h>
#include <unistd.h>

#include <cerrno>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/weights/safetensors_index.h"
#include "engine/weights/safetensors_writer.h"
#include "io/base/check.h"
#include "io/base/status.h"
#include "io/file.h"
#include "nlohmann/json.hpp"

namespace spillway {
namespace {

absl::Status Remove(const std::string& path) {
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) {
    return ErrnoStatus(errno, absl::StrCat("remove ", path));
  }
  return absl::OkStatus();
}

bool IsShardName(absl::string_view name) {
  return absl::StartsWith(name, "model-") && absl::StrContains(name, "-of-") &&
         (absl::EndsWith(name, ".safetensors") || absl::EndsWith(name, ".safetensors.partial"));
}

// Shards of an earlier export that this one does not replace.
absl::Status RemoveOtherShards(const std::string& directory, const std::set<std::string>& keep) {
  DIR* stream = ::opendir(directory.c_str());
  if (stream == nullptr) return ErrnoStatus(errno, absl::StrCat("list ", directory));
  std::vector<std::string> others;
  while (const dirent* entry = ::readdir(stream)) {
    if (IsShardName(entry->d_name) && keep.count(entry->d_name) == 0) {
      others.push_back(entry->d_name);
    }
  }
  ::closedir(stream);
  for (const std::string& name : others) {
    RETURN_IF_ERROR(Remove(absl::StrCat(directory, "/", name)));
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<SafetensorsShard> PlanShards(const std::vector<ExportTensor>& tensors,
                                         uint64_t max_shard_bytes) {
  std::vector<SafetensorsShard> shards(1);
  uint64_t size_bytes = 0;
  for (const ExportTensor& tensor : tensors) {
    if (!shards.back().tensors.empty() && size_bytes + tensor.size_bytes() > max_shard_bytes) {
      shards.emplace_back();
      size_bytes = 0;
    }
    shards.back().tensors.push_back(tensor);
    size_bytes += tensor.size_bytes();
  }
  if (shards.size() == 1) {
    shards[0].file_name = std::string(kSafetensorsName);
    return shards;
  }
  for (size_t i = 0; i < shards.size(); ++i) {
    shards[i].file_name = absl::StrFormat("model-%05d-of-%05d.safetensors", i + 1, shards.size());
  }
  return shards;
}

absl::StatusOr<std::unique_ptr<SafetensorsModelWriter>> SafetensorsModelWriter::Create(
    absl::string_view directory, const std::vector<ExportTensor>& tensors,
    uint64_t max_shard_bytes) {
  std::unique_ptr<SafetensorsModelWriter> writer(new SafetensorsModelWriter);
  writer->directory_ = std::string(directory);
  writer->shards_ = PlanShards(tensors, max_shard_bytes);
  if (writer->shards_.size() > 1) {
    // New shards may take the names of old ones: the old index goes first. (An old
    // single file stays, and is what readers take, until the new index stands.)
    RETURN_IF_ERROR(Remove(absl::StrCat(directory, "/", kSafetensorsIndexName)));
    RETURN_IF_ERROR(SyncDirectory(directory));
  }
  RETURN_IF_ERROR(writer->OpenShard());
  return writer;
}

absl::Status SafetensorsModelWriter::OpenShard() {
  const SafetensorsShard& shard = shards_[shard_];
  ASSIGN_OR_RETURN(writer_, SafetensorsWriter::Create(
                                absl::StrCat(directory_, "/", shard.file_name), shard.tensors));
  return absl::OkStatus();
}

absl::Status SafetensorsModelWriter::AppendFp32(const float* values, uint64_t count) {
  if (count == 0) return absl::OkStatus();
  while (writer_->complete()) {
    SPILLWAY_CHECK(shard_ + 1 < shards_.size());
    RETURN_IF_ERROR(writer_->Finish());
    ++shard_;
    RETURN_IF_ERROR(OpenShard());
  }
  return writer_->AppendFp32(values, count);
}

absl::Status SafetensorsModelWriter::Finish() {
  RETURN_IF_ERROR(writer_->Finish());
  while (shard_ + 1 < shards_.size()) {  // only shards of empty tensors are left
    ++shard_;
    RETURN_IF_ERROR(OpenShard());
    RETURN_IF_ERROR(writer_->Finish());
  }
  std::set<std::string> written;
  const std::string single = absl::StrCat(directory_, "/", kSafetensorsName);
  const std::string index = absl::StrCat(directory_, "/", kSafetensorsIndexName);
  if (shards_.size() == 1) {
    RETURN_IF_ERROR(Remove(index));
  } else {
    uint64_t total_bytes = 0;
    nlohmann::json weight_map = nlohmann::json::object();
    for (const SafetensorsShard& shard : shards_) {
      written.insert(shard.file_name);
      for (const ExportTensor& tensor : shard.tensors) {
        weight_map[tensor.name] = shard.file_name;
        total_bytes += tensor.size_bytes();
      }
    }
    const nlohmann::json document = {{"metadata", {{"total_size", total_bytes}}},
                                     {"weight_map", weight_map}};
    RETURN_IF_ERROR(WriteFileAtomically(index, document.dump(2) + "\n"));
    RETURN_IF_ERROR(Remove(single));
  }
  RETURN_IF_ERROR(RemoveOtherShards(directory_, written));
  return SyncDirectory(directory_);
}

}  // namespace spillway
