#include "engine/run/metrics_log.h"

#include <algorithm>

#include "engine/base/shallow_json.h"
#include "io/base/status.h"

namespace spillway {
namespace {

constexpr uint64_t kReadBytes = 64 << 10;

}  // namespace

nlohmann::json ParseRow(absl::string_view line) {
  nlohmann::json row = ParseShallowJson(line);
  const auto step = row.is_object() ? row.find("step") : row.end();
  if (step == row.end() || !step->is_number_integer()) return nullptr;
  if (step->is_number_unsigned() && step->get<uint64_t>() > INT64_MAX) return nullptr;
  return row;
}

absl::Status ReadRows(const std::string& path,
                      const std::function<void(const nlohmann::json& row, int64_t end)>& visit,
                      FileSystem& files) {
  ASSIGN_OR_RETURN(const std::unique_ptr<File> file, files.Open(path, {.direct = false}));
  // An active run may append rows; those that exist now are read.
  ASSIGN_OR_RETURN(const uint64_t size_bytes, file->SizeBytes());
  std::string text;          // read, but not parsed yet
  uint64_t taken_bytes = 0;  // bytes of the file before `text`
  for (uint64_t at = 0; at < size_bytes;) {
    const uint64_t count = std::min(kReadBytes, size_bytes - at);
    const size_t before = text.size();
    text.resize(before + count);
    RETURN_IF_ERROR(file->ReadAt(at, text.data() + before, count));
    at += count;
    size_t begin = 0;
    for (size_t end = text.find('\n', before); end != std::string::npos;
         end = text.find('\n', begin)) {
      const nlohmann::json row = ParseRow(absl::string_view(text).substr(begin, end + 1 - begin));
      begin = end + 1;
      if (!row.is_null()) visit(row, static_cast<int64_t>(taken_bytes + begin));
    }
    text.erase(0, begin);
    taken_bytes += begin;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<MetricsLog>> MetricsLog::Open(
    const std::string& path, int64_t last_step,
    const std::function<void(const nlohmann::json& row)>& visit, FileSystem& files) {
  uint64_t kept_bytes = 0;
  int64_t step = -1;
  const auto keep = [&](const nlohmann::json& row, int64_t end) {
    step = row["step"].get<int64_t>();
    if (step > last_step) return;
    kept_bytes = static_cast<uint64_t>(end);
    if (visit) visit(row);
  };
  const absl::Status read = ReadRows(path, keep, files);
  if (!read.ok() && !absl::IsNotFound(read)) return read;
  ASSIGN_OR_RETURN(std::unique_ptr<File> file, OpenInPlace(files, path, FileAccess::kShared));
  // Rows are in the order of their steps, so the removed ones are at the end.
  RETURN_IF_ERROR(file->Preallocate(kept_bytes));
  return std::unique_ptr<MetricsLog>(new MetricsLog(std::move(file), kept_bytes, step));
}

absl::Status MetricsLog::Append(const nlohmann::json& row) {
  const std::string line = row.dump() + "\n";
  // One write per line, so that a concurrent reader sees complete rows.
  RETURN_IF_ERROR(file_->WriteAt(size_bytes_, line.data(), line.size()));
  size_bytes_ += line.size();
  return absl::OkStatus();
}

}  // namespace spillway
