#include "engine/metrics.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "io/file.h"
#include "io/status.h"

namespace spillway {
namespace {

// JSON has no infinity: null says that there is no number.
nlohmann::json Number(double value) {
  return std::isfinite(value) ? nlohmann::json(value) : nlohmann::json(nullptr);
}

}  // namespace

nlohmann::json BindingJson(const StepForecast& forecast) {
  nlohmann::json binding = nlohmann::json::object();
  for (int i = 0; i < kPhases; ++i) {
    binding[std::string(PhaseName(static_cast<Phase>(i)))] =
        std::string(ResourceName(forecast.phases[i].binding));
  }
  return binding;
}

nlohmann::json ToJson(const StepMetrics& m) {
  nlohmann::json row;
  row["step"] = m.step;
  row["loss"] = Number(m.loss);
  row["grad_norm"] = m.grad_norm ? Number(*m.grad_norm) : nlohmann::json(nullptr);
  row["lr"] = m.learning_rate;
  row["tokens"] = m.tokens;
  row["seconds"] = m.seconds;
  row["tokens_per_second"] = m.seconds > 0 ? m.tokens / m.seconds : 0;
  if (m.loss_scale) row["loss_scale"] = *m.loss_scale;
  row["skipped"] = m.skipped;
  row["update"] = m.deferred ? "deferred" : "immediate";
  row["bytes"] = {{"nvme_read", m.nvme_read_bytes},
                  {"nvme_written", m.nvme_written_bytes},
                  {"to_device", 0},
                  {"to_host", 0},
                  {"collective", 0}};
  row["stall_seconds"] = {{"disk", m.stall_disk_seconds},
                          {"copy", 0.0},
                          {"update", m.stall_update_seconds},
                          {"collective", 0.0}};
  row["busy_seconds"] = {{"disk", m.busy_disk_seconds},
                         {"copy", 0.0},
                         {"update", m.busy_update_seconds},
                         {"collective", 0.0},
                         {"compute", m.busy_compute_seconds}};
  row["commit_seconds"] = m.commit_seconds;
  row["peak_bytes"] = {
      {"device", m.peak_device_bytes}, {"host", m.peak_host_bytes}, {"rss", m.peak_rss_bytes}};
  const nlohmann::json none = nullptr;
  row["binding"] = m.forecast ? BindingJson(*m.forecast) : none;
  row["binding_seconds"] = m.forecast ? nlohmann::json(m.binding_seconds) : none;
  row["predicted_seconds"] = m.forecast ? nlohmann::json(m.forecast->predicted_seconds) : none;
  row["bound_seconds"] = m.forecast ? nlohmann::json(m.forecast->bound_seconds) : none;
  return row;
}

absl::StatusOr<std::unique_ptr<MetricsLog>> MetricsLog::Open(const std::string& path,
                                                             int64_t last_step) {
  std::string kept;
  if (access(path.c_str(), F_OK) == 0) {
    ASSIGN_OR_RETURN(const std::string old, ReadSmallFile(path, uint64_t{1} << 32));
    std::istringstream lines(old);
    std::string line;
    while (std::getline(lines, line)) {
      const auto row = nlohmann::json::parse(line, nullptr, false);
      // A line cut short by a kill is no row.
      if (!row.is_object() || !row.contains("step") || !row["step"].is_number_integer()) continue;
      if (row["step"].get<int64_t>() <= last_step) absl::StrAppend(&kept, line, "\n");
    }
  }
  RETURN_IF_ERROR(WriteFileAtomically(path, kept));
  const int fd = open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return ErrnoStatus(errno, absl::StrCat("open ", path));
  return std::unique_ptr<MetricsLog>(new MetricsLog(path, fd));
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
