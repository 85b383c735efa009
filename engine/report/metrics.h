// The rows of metrics.jsonl and of eval.jsonl (engine/run/metrics_log.h writes and reads them).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/estimate/step_forecast.h"
#include "engine/measures/sample_text.h"
#include "engine/numeric/quality.h"
#include "nlohmann/json.hpp"
#include "swap/device/device_times.h"

namespace spillway {

// One row of metrics.jsonl; docs/FORMATS.md has the names and meanings.
struct StepMetrics {
  int64_t step = 0;
  double loss = 0;
  std::optional<double> grad_norm;
  double learning_rate = 0;
  // Counts of the global batch: tokens that the model read, without padding (0 if it reads
  // something else), labels that count in the loss, and samples.
  int64_t tokens = 0;
  int64_t labels = 0;
  int64_t samples = 0;
  double seconds = 0;
  std::optional<double> loss_scale;
  bool skipped = false;
  bool deferred = false;
  uint64_t nvme_read_bytes = 0;
  uint64_t to_device_bytes = 0;  // to and from a device with memory of its own
  uint64_t to_host_bytes = 0;
  uint64_t nvme_written_bytes = 0;
  double stall_disk_seconds = 0;
  double stall_update_seconds = 0;
  double busy_disk_seconds = 0;
  double busy_update_seconds = 0;         // of all workers together
  double busy_device_update_seconds = 0;  // rounding and updates on a separate device
  double busy_copy_seconds = 0;           // of a separate device's link, in either direction
  double stall_copy_seconds = 0;
  // With several ranks: bytes sent by this one; exchanges under way; compute waited for other
  // ranks.
  uint64_t collective_bytes = 0;
  double busy_collective_seconds = 0;
  double stall_collective_seconds = 0;
  CopyTime copies_to_device;  // of the mover's copies, each way alone; not in the row
  CopyTime copies_to_host;
  double busy_compute_seconds = 0;
  double commit_seconds = 0;  // waits for the previous commit; not part of `seconds`
  uint64_t peak_device_bytes = 0;
  uint64_t peak_host_bytes = 0;
  uint64_t peak_rss_bytes = 0;
  // The forecast before step 1, the same in every row. None: there is none.
  std::optional<StepForecast> forecast;
  double binding_seconds = 0;  // busy time of each phase's binding resource, in that phase
};

nlohmann::json ToJson(const StepMetrics& metrics);

// The amount processed by a step: tokens, or samples for a model that reads no tokens; those are
// called `sample_unit` ("pictures").
struct Throughput {
  double per_second = 0;
  std::string unit;  // "tokens"
};
Throughput ThroughputOf(const StepMetrics& metrics, const std::string& sample_unit);

// One row of eval.jsonl.
struct EvaluationMetrics {
  int64_t step = 0;  // completed steps; 0: before the first
  double loss = 0;
  // Counts of the held-out data, with the meaning of StepMetrics.
  int64_t tokens = 0;
  int64_t labels = 0;
  int64_t samples = 0;
  double seconds = 0;
  std::string metric = "loss";  // selects the best evaluation: "loss", or one of `quality`
  bool best = false;            // better than all earlier ones
  int64_t best_step = 0;        // of the best so far, including this one
  // Quality of predictions by the model's loss (LossUnit::Quality), or of generated texts
  // (engine/measures/text_measures.h).
  std::vector<QualityMeasure> quality;
  bool has_perplexity = true;  // the loss is per token
  std::string data;  // identifies the held-out data: evaluations of other data are not comparable

  // The value of `metric`.
  double metric_value() const { return metric == "loss" ? loss : ValueOf(quality, metric); }
};

nlohmann::json ToJson(const EvaluationMetrics& metrics);

// One row of samples.jsonl.
nlohmann::json ToJson(int64_t step, const SampleText& sample);

// ", accuracy 0.9100, f1 0.9050" for a log line, or, without measures, ", perplexity 12.34"; "" if
// e to the loss is not finite.
std::string BesideLossText(double loss, const std::vector<QualityMeasure>& quality);

}  // namespace spillway
