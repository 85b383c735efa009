#include "engine/report/metrics.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "io/base/status.h"

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
                  {"to_device", m.to_device_bytes},
                  {"to_host", m.to_host_bytes},
                  {"collective", m.collective_bytes}};
  row["stall_seconds"] = {{"disk", m.stall_disk_seconds},
                          {"copy", m.stall_copy_seconds},
                          {"update", m.stall_update_seconds},
                          {"collective", m.stall_collective_seconds}};
  row["busy_seconds"] = {{"disk", m.busy_disk_seconds},
                         {"copy", m.busy_copy_seconds},
                         {"update", m.busy_update_seconds + m.busy_device_update_seconds},
                         {"collective", m.busy_collective_seconds},
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

nlohmann::json ParseRow(absl::string_view line) {
  auto row = nlohmann::json::parse(line.begin(), line.end(), nullptr, false);
  const auto step = row.is_object() ? row.find("step") : row.end();
  if (step == row.end() || !step->is_number_integer()) return nullptr;
  if (step->is_number_unsigned() && step->get<uint64_t>() > INT64_MAX) return nullptr;
  return row;
}

nlohmann::json ToJson(const EvaluationMetrics& m) {
  return {
      {"step", m.step},          {"loss", Number(m.loss)}, {"perplexity", Number(std::exp(m.loss))},
      {"tokens", m.tokens},      {"seconds", m.seconds},   {"best", m.best},
      {"best_step", m.best_step}};
}

std::string PerplexityText(double loss) {
  const double perplexity = std::exp(loss);
  return std::isfinite(perplexity) ? absl::StrFormat(", perplexity %.4g", perplexity) : "";
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
