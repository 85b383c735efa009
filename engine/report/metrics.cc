#include "engine/report/metrics.h"

#include <cmath>

#include "absl/strings/str_format.h"

namespace spillway {
namespace {

double PerSecond(int64_t count, double seconds) {
  return seconds > 0 ? static_cast<double>(count) / seconds : 0;
}

// JSON has no infinity: null means that there is no number.
nlohmann::json NumberOrNull(double value) {
  return std::isfinite(value) ? nlohmann::json(value) : nlohmann::json(nullptr);
}

}  // namespace

nlohmann::json ToJson(const StepMetrics& m) {
  nlohmann::json row;
  row["step"] = m.step;
  row["loss"] = NumberOrNull(m.loss);
  row["grad_norm"] = m.grad_norm ? NumberOrNull(*m.grad_norm) : nlohmann::json(nullptr);
  row["lr"] = m.learning_rate;
  row["tokens"] = m.tokens;
  row["labels"] = m.labels;
  row["samples"] = m.samples;
  row["seconds"] = m.seconds;
  row["tokens_per_second"] = PerSecond(m.tokens, m.seconds);
  row["samples_per_second"] = PerSecond(m.samples, m.seconds);
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

nlohmann::json ToJson(const EvaluationMetrics& m) {
  nlohmann::json row = {{"step", m.step},       {"loss", NumberOrNull(m.loss)},
                        {"tokens", m.tokens},   {"labels", m.labels},
                        {"samples", m.samples}, {"seconds", m.seconds},
                        {"best", m.best},       {"best_step", m.best_step}};
  if (m.metric != "loss") row["metric"] = m.metric;
  if (!m.data.empty()) row["data"] = m.data;
  if (m.has_perplexity) row["perplexity"] = NumberOrNull(std::exp(m.loss));
  for (const QualityMeasure& measure : m.quality) row[measure.name] = NumberOrNull(measure.value);
  return row;
}

Throughput ThroughputOf(const StepMetrics& m, const std::string& sample_unit) {
  if (m.tokens > 0 || m.samples == 0) return {PerSecond(m.tokens, m.seconds), "tokens"};
  return {PerSecond(m.samples, m.seconds), sample_unit};
}

nlohmann::json ToJson(int64_t step, const SampleText& sample) {
  return {
      {"step", step}, {"prompt", sample.prompt}, {"text", sample.text}, {"ended", sample.ended}};
}

std::string BesideLossText(double loss, const std::vector<QualityMeasure>& quality) {
  if (!quality.empty()) return ", " + QualityText(quality);
  const double perplexity = std::exp(loss);
  return std::isfinite(perplexity) ? absl::StrFormat(", perplexity %.4g", perplexity) : "";
}

}  // namespace spillway
