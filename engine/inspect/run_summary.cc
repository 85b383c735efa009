#include "engine/inspect/run_summary.h"

#include <algorithm>
#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "engine/report/report_input.h"
#include "engine/report/run_description.h"
#include "engine/run/metrics_log.h"
#include "engine/run/run_directory.h"
#include "engine/weights/model_files.h"
#include "io/file_system.h"

namespace spillway {
namespace {

using nlohmann::json;

// Rows have some hundred bytes, so this end of the file contains the last one.
constexpr std::streamoff kTailBytes = 64 << 10;

json LossOf(const json& row) {
  return {{"step", row["step"]}, {"loss", row.value("loss", json())}};
}

// The first and the last row of metrics.jsonl, in constant time.
json Losses(const std::string& path) {
  json losses = json::array();
  std::ifstream in(path, std::ios::binary);
  std::string line;
  if (!std::getline(in, line)) return losses;
  const json first = ParseRow(line);
  if (first.is_null()) return losses;
  losses.push_back(LossOf(first));
  in.clear();
  in.seekg(0, std::ios::end);
  in.seekg(std::max<std::streamoff>(0, in.tellg() - kTailBytes));
  std::string tail(std::istreambuf_iterator<char>(in), {});
  json last;
  for (const absl::string_view row : absl::StrSplit(tail, '\n')) {
    json parsed = ParseRow(row);
    if (!parsed.is_null()) last = std::move(parsed);
  }
  if (!last.is_null() && last["step"] != first["step"]) losses.push_back(LossOf(last));
  return losses;
}

json HeldOut(const std::string& path) {
  json last;
  const absl::Status read = ReadRows(path, [&](const json& row, int64_t) { last = row; });
  if (!read.ok() || last.is_null()) return nullptr;
  json held_out = LossOf(last);
  if (last.contains("best_step")) held_out["best_step"] = last["best_step"];
  return held_out;
}

// The setting's value as given to the run.
json Given(const json& config, const char* name) {
  const auto found = config.is_object() ? config.find(name) : config.end();
  return found != config.end() && found->is_object() ? found->value("value", json()) : json();
}

}  // namespace

json SummaryOfRun(const std::string& directory) {
  json summary = json::object();
  if (const auto run = ReadRunDescription(directory); run.ok()) {
    summary["steps"] = run->steps;
    summary["optimizer"] = run->optimizer;
    if (!run->parts.empty()) {
      const RunPart& part = run->parts.back();
      const auto glance = GlanceAtRunDirectory(AbsolutePath(directory).value_or(directory));
      const bool gone =
          part.state == "running" && glance.ok() && glance->readable && !glance->in_use;
      summary["state"] = gone ? "killed" : part.state;
      if (!part.message.empty()) summary["message"] = part.message;
      summary["started"] = run->parts.front().started;
    }
  }
  const json config = ReadResolvedConfig(directory);
  for (const char* name : {"model", "data"}) {
    if (json given = Given(config, name); !given.is_null()) summary[name] = std::move(given);
  }
  if (json losses = Losses(directory + "/metrics.jsonl"); !losses.empty()) {
    summary["loss"] = std::move(losses);
  }
  if (json held_out = HeldOut(directory + "/eval.jsonl"); !held_out.is_null()) {
    summary["held_out"] = std::move(held_out);
  }
  for (const auto& [folder, last] :
       {std::pair{"/model", "config.json"}, std::pair{"/adapter", kAdapterConfigName}}) {
    if (Exists(absl::StrCat(directory, folder, "/", last))) {
      summary["exported"] = absl::StrCat(directory, folder);
    }
  }
  return summary;
}

}  // namespace spillway
