#include "engine/estimate/estimate_output.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/estimate/estimate.h"
#include "engine/estimate/plan_text.h"
#include "engine/estimate/run_forecast.h"
#include "engine/options/drive_wear.h"
#include "engine/ranks/shard_plan.h"
#include "io/base/format_bytes.h"

namespace spillway {
namespace {

using nlohmann::json;

constexpr size_t kColumns = 80;

json Optional(const std::optional<uint64_t>& value) { return value ? json(*value) : json(nullptr); }

json ModelJson(const Estimate& e) {
  const ModelShape& shape = e.input.shape;
  return {{"model_type", shape.model_type},
          {"exact", shape.exact},
          {"parameters", e.input.model.parameter_count()},
          {"trainable_parameters", e.input.model.trained_parameter_count()},
          {"base_parameters", shape.base_parameters},
          {"units", shape.model.units.size()},
          {"hidden_size", shape.hidden},
          {"layers", shape.layers},
          {"heads", shape.heads},
          {"key_value_heads", shape.key_value_heads},
          {"intermediate_size", shape.intermediate},
          {"vocabulary", shape.vocabulary},
          {"tied", shape.tied},
          {"notes", shape.notes}};
}

json DTypesJson(const Estimate& e) {
  json dtypes = json::object();
  for (const DTypeEstimate& row : e.dtypes) {
    dtypes[std::string(DTypeName(row.dtype))] = {
        {"weights", row.weights_bytes},     {"gradients", row.gradients_bytes},
        {"optimizer", row.optimizer_bytes}, {"activations", row.activations_bytes},
        {"staging", row.staging_bytes},     {"whole_units", row.whole_bytes},
        {"total", row.total_bytes()},       {"largest_layer", row.largest_layer_bytes}};
  }
  return dtypes;
}

json TiersJson(const Estimate& e) {
  json tiers = json::object();
  for (Tier tier : {Tier::kDevice, Tier::kHost, Tier::kNvme}) {
    const TierBytes& bytes = e.tiers[static_cast<int>(tier)];
    tiers[std::string(TierName(tier))] = {
        {"weights", bytes.weights},     {"gradients", bytes.gradients},
        {"optimizer", bytes.optimizer}, {"activations", bytes.activations},
        {"staging", bytes.staging},     {"whole_units", bytes.whole}};
  }
  return tiers;
}

json PhasesJson(const StepForecast& forecast) {
  json phases = json::object();
  for (int i = 0; i < kPhases; ++i) {
    const PhaseForecast& phase = forecast.phases[i];
    phases[std::string(PhaseName(static_cast<Phase>(i)))] = {
        {"disk", phase.disk_seconds},
        {"compute", phase.compute_seconds},
        {"update", phase.update_seconds},
        {"copy", phase.copy_seconds},
        {"bound", phase.bound_seconds},
        {"predicted", phase.predicted_seconds},
        {"collective", phase.collective_seconds}};
  }
  return phases;
}

// The rates used for exchanges; null with one rank, or without a forecast.
json CollectiveJson(const Estimate& e) {
  if (!e.forecast || !e.plan.shards) return nullptr;
  const CollectiveRates& rates = e.input.collective;
  return {{"from", e.input.collective_assumed ? "assumption" : "profile"},
          {"gather_bytes_per_second", rates.gather_bytes_per_second},
          {"sum_bytes_per_second", rates.sum_bytes_per_second},
          {"latency_seconds", rates.latency_seconds}};
}

std::string CollectiveText(const Estimate& e) {
  CollectiveRates rates = e.input.collective;
  if (e.collective.gather_bytes == 0) rates.gather_bytes_per_second = 0;  // nothing to be timed
  return absl::StrCat("  exchanges at ", RatesText(rates), ", ",
                      e.input.collective_assumed
                          ? "an assumption: train with as many ranks here measures them"
                          : "as measured here");
}

double DriveDays(const Estimate& e) {
  return spillway::DriveDays(static_cast<double>(e.plan.swaps->traffic.written_bytes),
                             e.input.drive_bytes_per_day);
}

// Tokens of all ranks in a step.
int64_t TokensPerStep(const Estimate& e) {
  return e.input.step.tokens() * e.input.step.accumulate * e.input.options.ranks;
}

std::string ShardText(const TrainOptions& options) {
  std::string text = absl::StrCat("--shard ", ShardName(options.shard));
  if (options.shard == Shard::kHybrid) {
    absl::StrAppend(&text, " in groups of ", options.shard_group_size);
  }
  return text;
}

std::string WithCommas(uint64_t n) {
  const std::string digits = absl::StrCat(n);
  std::string text;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

// Wraps at spaces; further lines are indented.
void AppendWrapped(std::string& text, std::string line, const std::string& indent) {
  while (line.size() > kColumns) {
    const size_t word = line.find_first_not_of(' ');
    size_t at = line.rfind(' ', kColumns);
    if (at == std::string::npos || at < word) at = line.find(' ', word);  // one long word
    if (at == std::string::npos) break;
    absl::StrAppend(&text, line.substr(0, at), "\n");
    line = indent + line.substr(at + 1);
  }
  absl::StrAppend(&text, line, "\n");
}

void AppendRow(std::string& text, absl::string_view name, const std::vector<std::string>& cells) {
  absl::StrAppendFormat(&text, "%-13s", name);
  for (const std::string& cell : cells) absl::StrAppendFormat(&text, " %10s", cell);
  text += '\n';
}

std::string Cell(uint64_t bytes) { return bytes == 0 ? "-" : FormatBytes(bytes); }

// Appends a table: a row for each kind of memory, a column for each dtype, and the tiers of the
// run's dtype.
void AppendTable(std::string& text, const Estimate& e) {
  std::vector<std::string> heads;
  for (const DTypeEstimate& row : e.dtypes) heads.emplace_back(DTypeName(row.dtype));
  for (Tier tier : {Tier::kDevice, Tier::kHost, Tier::kNvme}) heads.emplace_back(TierName(tier));
  AppendRow(text, "", heads);
  std::vector<uint64_t> totals(heads.size());
  const auto kind = [&](const char* name, uint64_t DTypeEstimate::*of_dtype,
                        uint64_t TierBytes::*of_tier) {
    std::vector<uint64_t> bytes;
    for (const DTypeEstimate& row : e.dtypes) bytes.push_back(row.*of_dtype);
    for (const TierBytes& tier : e.tiers) bytes.push_back(tier.*of_tier);
    std::vector<std::string> cells;
    for (size_t i = 0; i < bytes.size(); ++i) {
      totals[i] += bytes[i];
      cells.push_back(Cell(bytes[i]));
    }
    AppendRow(text, name, cells);
  };
  kind("weights", &DTypeEstimate::weights_bytes, &TierBytes::weights);
  kind("gradients", &DTypeEstimate::gradients_bytes, &TierBytes::gradients);
  kind("optimizer", &DTypeEstimate::optimizer_bytes, &TierBytes::optimizer);
  kind("activations", &DTypeEstimate::activations_bytes, &TierBytes::activations);
  kind("staging", &DTypeEstimate::staging_bytes, &TierBytes::staging);
  if (e.plan.shards) kind("whole units", &DTypeEstimate::whole_bytes, &TierBytes::whole);
  std::vector<std::string> cells;
  for (uint64_t total : totals) cells.push_back(Cell(total));
  AppendRow(text, "total", cells);
  cells.clear();
  for (const DTypeEstimate& row : e.dtypes) cells.push_back(Cell(row.largest_layer_bytes));
  AppendRow(text, "largest layer", cells);
}

std::string MinimumText(const char* flag, const std::optional<uint64_t>& bytes, const char* other) {
  if (!bytes) return absl::StrCat("no ", flag, " is enough with this ", other);
  return absl::StrCat(flag, " ", FormatBytesForFlag(*bytes), " with this ", other);
}

}  // namespace

json EstimateJson(const Estimate& e) {
  const EstimateInput& in = e.input;
  const StepTraffic& traffic = e.plan.swaps->traffic;
  json out;
  out["model"] = ModelJson(e);
  out["trainable"] = in.trainable;
  out["dtype"] = std::string(DTypeName(in.options.dtype));
  out["compute"] = in.options.compute_name();
  out["micro_batch"] = in.step.micro_batch;
  out["accumulate"] = in.step.accumulate;
  out["seq_len"] = in.step.seq_len;
  out["tokens_per_step"] = TokensPerStep(e);
  out["ranks"] = in.options.ranks;
  out["shard"] = std::string(ShardName(in.options.shard));
  out["shard_group_size"] = in.options.shard_group_size;
  out["update"] = e.plan.update == UpdateMode::kDeferred ? "deferred" : "immediate";
  out["activations_from"] = in.measured ? "dry run" : "formula";
  out["dtypes"] = DTypesJson(e);
  out["device_memory_bytes"] = in.options.device_memory_bytes;
  out["host_memory_bytes"] = in.options.host_memory_bytes;
  out["fits"] = e.fits;
  out["min_host_bytes"] = Optional(e.minimums.host_bytes);
  out["min_device_bytes"] = Optional(e.minimums.device_bytes);
  out["feasible"] = {{"device_bytes", e.minimums.pair.device_bytes},
                     {"host_bytes", e.minimums.pair.host_bytes}};
  out["plan_budgets"] = {{"device_bytes", e.plan.device_limit_bytes},
                         {"host_bytes", e.plan.host_limit_bytes}};
  out["layers_recomputed"] =
      static_cast<int>(e.plan.graphs.keeps.size()) - 1 - e.plan.graphs.kept();
  out["tiers"] = TiersJson(e);
  out["store_bytes"] = e.store_bytes;
  out["bytes_read_per_step"] = traffic.read_bytes;
  out["bytes_written_per_step"] = traffic.written_bytes;
  out["bytes_to_device_per_step"] = traffic.to_device_bytes;
  out["bytes_to_host_per_step"] = traffic.to_host_bytes;
  out["bytes_collective_per_step"] = e.collective.total_bytes();
  out["bytes_gathered_per_step"] = e.collective.gather_bytes;
  out["bytes_summed_per_step"] = e.collective.sum_bytes;
  out["collective_rates"] = CollectiveJson(e);
  out["drive_bytes_per_day"] = in.drive_bytes_per_day;
  out["drive_days_per_step"] = DriveDays(e);
  out["drive_days"] = in.options.steps > 0 ? json(DriveDays(e) * in.options.steps) : json(nullptr);
  out["predicted_seconds"] = e.forecast ? json(e.forecast->predicted_seconds) : json(nullptr);
  out["bound_seconds"] = e.forecast ? json(e.forecast->bound_seconds) : json(nullptr);
  out["binding"] = e.forecast ? BindingJson(*e.forecast) : json(nullptr);
  out["phases"] = e.forecast ? PhasesJson(*e.forecast) : json(nullptr);
  return out;
}

namespace {

std::string ExplainedPlanOf(const Estimate& e) {
  PlanFacts facts;
  facts.device_limit_bytes = e.plan.device_limit_bytes;
  facts.host_limit_bytes = e.plan.host_limit_bytes;
  facts.computing_bytes = e.plan.computing_bytes();
  facts.forecast = e.forecast;
  return ExplainedPlan(*e.plan.swaps, e.plan.graphs, facts);
}

}  // namespace

std::string EstimateText(const Estimate& e) {
  const EstimateInput& in = e.input;
  const ModelShape& shape = in.shape;
  const RunMinimums& least = e.minimums;
  std::string text;
  // A line that begins with a label is continued below the text after the label.
  const auto line = [&](const std::string& words) {
    AppendWrapped(text, words, std::string(words[0] == ' ' ? 12 : 0, ' '));
  };

  const uint64_t trainable = in.model.trained_parameter_count();
  const std::string trained = trainable == in.model.parameter_count()
                                  ? ""
                                  : absl::StrCat(", ", WithCommas(trainable), " of them trained");
  line(absl::StrCat(shape.model_type.empty() ? "model" : shape.model_type, ": ",
                    WithCommas(in.model.parameter_count()), " parameters in ",
                    in.model.num_computing(), " units", trained,
                    in.trainable ? "" : "; this build can't train it yet"));
  for (const std::string& note : shape.notes) line("  note      " + note);
  const std::string dtype(DTypeName(in.options.dtype));
  line(absl::StrCat(
      in.step.micro_batch,
      shape.vocabulary > 0 ? absl::StrCat(" x ", in.step.seq_len, " tokens, ") : " pictures, ",
      in.step.accumulate, " micro-batch", in.step.accumulate == 1 ? "" : "es", " a step",
      in.options.ranks > 1 ? absl::StrCat(" on each of ", in.options.ranks, " ranks") : "",
      ". Activations of ", dtype,
      in.measured ? " are from a dry run, of the others" : " and the others are",
      shape.vocabulary > 0 ? " from a formula." : " scaled from it."));
  line(absl::StrCat(in.options.ranks > 1
                        ? absl::StrCat("What one rank has, ", ShardText(in.options), ",")
                        : "All of it",
                    " by dtype, and of ", dtype, " what lives where",
                    e.fits ? "" : " with the least memory", ":"));
  text += '\n';
  AppendTable(text, e);
  text += '\n';

  line(absl::StrCat(e.fits ? "It fits" : "It does not fit", " --device-memory ",
                    FormatBytes(in.options.device_memory_bytes), " and --host-memory ",
                    FormatBytes(in.options.host_memory_bytes), " in ", dtype, "."));
  line(absl::StrCat("  at least  --device-memory ", FormatBytesForFlag(least.pair.device_bytes),
                    " and --host-memory ", FormatBytesForFlag(least.pair.host_bytes)));
  line("            " + MinimumText("--host-memory", least.host_bytes, "--device-memory"));
  line("            " + MinimumText("--device-memory", least.device_bytes, "--host-memory"));
  const StepTraffic& traffic = e.plan.swaps->traffic;
  line(absl::StrCat("  time      ", e.forecast ? DescribeForecast(*e.forecast)
                                               : "no forecast: rates of this machine are missing"));
  if (e.forecast && e.forecast->predicted_seconds > 0) {
    line(absl::StrFormat("            %.4g tokens/s",
                         TokensPerStep(e) / e.forecast->predicted_seconds));
  }
  line(e.plan.graphs.Summary());
  line(absl::StrCat("  on NVMe   ", FormatBytes(traffic.read_bytes), " read and ",
                    FormatBytes(traffic.written_bytes), " written a step; files take ",
                    FormatBytes(e.store_bytes)));
  if (traffic.to_device_bytes + traffic.to_host_bytes > 0) {
    line(absl::StrCat("  copied    ", FormatBytes(traffic.to_device_bytes), " to the device and ",
                      FormatBytes(traffic.to_host_bytes), " from it a step"));
  }
  if (e.collective.total_bytes() > 0) {
    line(absl::StrCat("  sent      ", FormatBytes(e.collective.total_bytes()),
                      " a step to other ranks: weights ", FormatBytes(e.collective.gather_bytes),
                      ", gradients ", FormatBytes(e.collective.sum_bytes)));
    if (e.forecast) line(CollectiveText(e));
  }
  if (traffic.written_bytes > 0) {
    std::string days = absl::StrFormat("  wear      %.3g drive days a step", DriveDays(e));
    if (in.options.steps > 0) {
      absl::StrAppendFormat(&days, ", %.3g in %d steps", DriveDays(e) * in.options.steps,
                            in.options.steps);
    }
    absl::StrAppendFormat(&days, " (rated %.4g TB a day)", in.drive_bytes_per_day * 1e-12);
    line(days);
  }
  if (in.options.explain) absl::StrAppend(&text, "\n", ExplainedPlanOf(e), "\n");
  return text;
}

}  // namespace spillway
