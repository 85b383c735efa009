#include "engine/run/metrics_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "io/base/status.h"

namespace spillway {

nlohmann::json ParseRow(absl::string_view line) {
  auto row = nlohmann::json::parse(line.begin(), line.end(), nullptr, false);
  const auto step = row.is_object() ? row.find("step") : row.end();
  if (step == row.end() || !step->is_number_integer()) return nullptr;
  if (step->is_number_unsigned() && step->get<uint64_t>() > INT64_MAX) return nullptr;
  return row;
}

absl::Status ReadRows(const std::string& path,
                      const std::function<void(const nlohmann::json& row, int64_t end)>& visit) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "re"),
                                                             &std::fclose);
  if (!file) return ErrnoStatus(errno, absl::StrCat("open ", path));
  char* line = nullptr;
  size_t capacity = 0;
  int64_t end = 0;
  ssize_t size;
  while ((size = getline(&line, &capacity, file.get())) > 0) {
    end += size;
    if (line[size - 1] != '\n') break;
    const nlohmann::json row = ParseRow({line, static_cast<size_t>(size)});
    if (!row.is_null()) visit(row, end);
  }
  std::free(line);
  if (std::ferror(file.get())) return ErrnoStatus(errno, absl::StrCat("read ", path));
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<MetricsLog>> MetricsLog::Open(
    const std::string& path, int64_t last_step,
    const std::function<void(const nlohmann::json& row)>& visit) {
  int64_t kept = 0;
  const absl::Status read = ReadRows(path, [&](const nlohmann::json& row, int64_t end) {
    if (row["step"].get<int64_t>() > last_step) return;
    kept = end;
    if (visit) visit(row);
  });
  if (!read.ok() && !absl::IsNotFound(read)) return read;
  const int fd = open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return ErrnoStatus(errno, absl::StrCat("open ", path));
  auto log = std::unique_ptr<MetricsLog>(new MetricsLog(path, fd));
  // Rows are in the order of their steps, so what goes is the end.
  if (ftruncate(fd, kept) != 0) return ErrnoStatus(errno, absl::StrCat("shorten ", path));
  return log;
}

MetricsLog::~MetricsLog() { close(fd_); }

absl::Status MetricsLog::Append(const nlohmann::json& row) {
  const std::string line = row.dump() + "\n";
  // One write a line: a reader beside us sees whole rows.
  const ssize_t written = write(fd_, line.data(), line.size());
  if (written != static_cast<ssize_t>(line.size())) {
    return ErrnoStatus(written < 0 ? errno : ENOSPC, absl::StrCat("write ", path_));
  }
  return absl::OkStatus();
}

absl::Status MetricsLog::Sync() {
  if (fdatasync(fd_) == 0) return absl::OkStatus();
  return ErrnoStatus(errno, absl::StrCat("sync ", path_));
}

}  // namespace spillway
