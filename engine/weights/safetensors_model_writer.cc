#include "engine/weights/safetensors_model_writer.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "engine/weights/safetensors_index.h"
#include "io/base/check.h"
#include "io/base/status.h"
#include "io/file_system.h"

namespace spillway {
namespace {

bool IsShardName(absl::string_view name) {
  absl::ConsumeSuffix(&name, ".partial");
  return name != kSafetensorsName && IsWeightsFile(name);
}

// Removes shards of an earlier export that this one does not replace.
absl::Status RemoveOtherShards(FileSystem& files, const std::string& directory,
                               const std::set<std::string>& keep) {
  ASSIGN_OR_RETURN(const std::vector<std::string> names, files.List(directory));
  for (const std::string& name : names) {
    if (!IsShardName(name) || keep.count(name) > 0) continue;
    RETURN_IF_ERROR(RemoveIfThere(files, absl::StrCat(directory, "/", name)));
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<SafetensorsShard> PlanShards(const std::vector<ExportTensor>& tensors,
                                         uint64_t max_shard_bytes) {
  std::vector<SafetensorsShard> shards;
  const bool named = !tensors.empty() &&
                     std::all_of(tensors.begin(), tensors.end(),
                                 [](const ExportTensor& tensor) { return !tensor.file.empty(); });
  if (named) {
    for (const ExportTensor& tensor : tensors) {
      auto shard = std::find_if(shards.begin(), shards.end(), [&](const SafetensorsShard& one) {
        return one.file_name == tensor.file;
      });
      if (shard == shards.end()) shard = shards.insert(shard, {tensor.file, {}});
      shard->tensors.push_back(tensor);
    }
    if (shards.size() == 1) {
      shards[0].came_from = std::exchange(shards[0].file_name, std::string(kSafetensorsName));
    }
    return shards;
  }
  shards.emplace_back();
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
    absl::string_view directory, const std::vector<ExportTensor>& tensors, uint64_t max_shard_bytes,
    SafetensorsMetadata metadata, FileSystem& files) {
  std::unique_ptr<SafetensorsModelWriter> writer(new SafetensorsModelWriter(files));
  writer->directory_ = std::string(directory);
  writer->metadata_ = std::move(metadata);
  writer->shards_ = PlanShards(tensors, max_shard_bytes);
  const size_t shards = writer->shards_.size();
  writer->writers_.resize(shards);
  writer->closed_.resize(shards);
  std::map<std::string, size_t> shard_of;
  for (size_t i = 0; i < shards; ++i) {
    for (const ExportTensor& tensor : writer->shards_[i].tensors) shard_of[tensor.name] = i;
  }
  for (const ExportTensor& tensor : tensors) {
    writer->places_.push_back({shard_of[tensor.name], tensor.elements()});
  }
  if (shards > 1) {
    // New shards may take the names of old ones, so the old index is removed first. (An old single
    // file remains, and is what readers use, until the new index exists.)
    RETURN_IF_ERROR(RemoveIfThere(files, absl::StrCat(directory, "/", kSafetensorsIndexName)));
    RETURN_IF_ERROR(files.SyncDirectory(directory));
  }
  return writer;
}

absl::Status SafetensorsModelWriter::Open(size_t shard) {
  if (writers_[shard] != nullptr) return absl::OkStatus();
  const SafetensorsShard& opened = shards_[shard];
  const std::string path = absl::StrCat(directory_, "/", opened.file_name);
  const std::string& named = opened.came_from.empty() ? opened.file_name : opened.came_from;
  ASSIGN_OR_RETURN(writers_[shard],
                   SafetensorsWriter::Create(path, opened.tensors, metadata_.files[named], files_));
  return absl::OkStatus();
}

absl::Status SafetensorsModelWriter::Close(size_t shard) {
  closed_[shard] = true;
  return std::exchange(writers_[shard], nullptr)->Finish();
}

absl::Status SafetensorsModelWriter::AppendFp32(const float* values, uint64_t count) {
  while (count > 0) {
    while (next_ < places_.size() && places_[next_].left == 0) ++next_;
    SPILLWAY_CHECK(next_ < places_.size());
    Place& place = places_[next_];
    const uint64_t n = std::min(count, place.left);
    RETURN_IF_ERROR(Open(place.shard));
    RETURN_IF_ERROR(writers_[place.shard]->AppendFp32(values, n));
    values += n;
    count -= n;
    place.left -= n;
    if (writers_[place.shard]->complete()) RETURN_IF_ERROR(Close(place.shard));
  }
  return absl::OkStatus();
}

absl::Status SafetensorsModelWriter::Finish() {
  for (size_t shard = 0; shard < shards_.size(); ++shard) {
    if (closed_[shard]) continue;  // or it has only empty tensors
    RETURN_IF_ERROR(Open(shard));
    RETURN_IF_ERROR(Close(shard));
  }
  std::set<std::string> written;
  const std::string single = absl::StrCat(directory_, "/", kSafetensorsName);
  const std::string index = absl::StrCat(directory_, "/", kSafetensorsIndexName);
  if (shards_.size() == 1) {
    RETURN_IF_ERROR(RemoveIfThere(files_, index));
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
    nlohmann::json metadata = metadata_.index;
    metadata["total_size"] = total_bytes;
    const nlohmann::json document = {{"metadata", metadata}, {"weight_map", weight_map}};
    RETURN_IF_ERROR(
        WriteFileAtomically(files_, index, document.dump(2) + "\n", FileAccess::kShared));
    RETURN_IF_ERROR(RemoveIfThere(files_, single));
  }
  RETURN_IF_ERROR(RemoveOtherShards(files_, directory_, written));
  return files_.SyncDirectory(directory_);
}

}  // namespace spillway
