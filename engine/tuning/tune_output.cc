#include "engine/tuning/tune_output.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/tuning/tune.h"
#include "io/base/format_bytes.h"

namespace spillway {
namespace {

using nlohmann::json;

std::string EngineName(const IoEngineOptions& io) {
  return io.kind == IoEngineOptions::Kind::kThreads ? "threads" : "io_uring";
}

// The mode of io_uring as the profile names it.
std::string ModeName(const IoEngineOptions& io) {
  return io.poll ? "iopoll" : io.sqpoll ? "sqpoll" : "";
}

json TunedRatesJson(const DiskRates& rates) {
  return {{"read_bytes_per_second", rates.read_bytes_per_second},
          {"write_bytes_per_second", rates.write_bytes_per_second},
          {"mixed_bytes_per_second", rates.mixed_bytes_per_second}};
}

json CandidateJson(const TuneCandidate& candidate) {
  json value = TunedRatesJson(candidate.rates);
  value["engine"] = EngineName(candidate.io);
  value["mode"] = ModeName(candidate.io);
  value["block_bytes"] = candidate.io.block_bytes;
  value["depth"] = candidate.io.depth;
  if (candidate.io.kind == IoEngineOptions::Kind::kThreads) value["threads"] = candidate.io.threads;
  value["relative"] = candidate.relative;
  value["chosen"] = candidate.chosen;
  return value;
}

// GB/s of reading, writing and both.
std::string RatesText(const DiskRates& rates) {
  return absl::StrFormat("%8.2f %8.2f %8.2f", rates.read_bytes_per_second * 1e-9,
                         rates.write_bytes_per_second * 1e-9, rates.mixed_bytes_per_second * 1e-9);
}

constexpr char kRatesHead[] = "    read    write    mixed";

void AppendEngines(const TuneResult& result, std::string* text) {
  absl::StrAppendFormat(text, "%-16s%s  of the median (GB/s)\n", "engine", kRatesHead);
  for (const TuneCandidate& engine : result.engines) {
    absl::StrAppendFormat(text, "%-16s%s  %5.2f%s\n", engine.name, RatesText(engine.rates),
                          engine.relative, engine.chosen ? "  chosen" : "");
  }
  if (!result.uring_refusal.empty()) {
    absl::StrAppend(text, "io_uring is refused: ", result.uring_refusal, "\n");
  }
}

// Appends a table with a row per block size and a column per depth.
void AppendShapes(const TuneResult& result, std::string* text) {
  std::set<uint32_t> blocks, depths;
  for (const TuneCandidate& shape : result.shapes) {
    blocks.insert(shape.io.block_bytes);
    depths.insert(shape.io.depth);
  }
  absl::StrAppend(text, "\nof the median, by block and depth (* chosen)\n          ");
  for (const uint32_t depth : depths) absl::StrAppendFormat(text, "%8d ", depth);
  text->back() = '\n';
  for (const uint32_t block : blocks) {
    absl::StrAppendFormat(text, "%-10s", FormatBytes(block));
    for (const uint32_t depth : depths) {
      const auto shape =
          std::find_if(result.shapes.begin(), result.shapes.end(), [&](const TuneCandidate& each) {
            return each.io.block_bytes == block && each.io.depth == depth;
          });
      if (shape == result.shapes.end()) {
        absl::StrAppend(text, "       - ");
      } else {
        absl::StrAppendFormat(text, "%8.2f%c", shape->relative, shape->chosen ? '*' : ' ');
      }
    }
    while (text->back() == ' ') text->pop_back();
    text->push_back('\n');
  }
}

void AppendPaths(const TuneResult& result, std::string* text) {
  absl::StrAppendFormat(text, "\n%-16s%s  (GB/s)\n", "disk", kRatesHead);
  for (const TunePath& path : result.paths) {
    const std::string name = path.device.name.empty() ? path.device.number : path.device.name;
    absl::StrAppendFormat(text, "%-16s%s  %s\n", name.substr(0, 15), RatesText(path.rates),
                          path.path);
  }
  if (result.paths.size() > 1) {
    absl::StrAppendFormat(text, "%-16s%s\n", "all together", RatesText(result.together));
  }
}

}  // namespace

std::string TuneText(const TuneResult& result) {
  std::string text;
  AppendEngines(result, &text);
  AppendShapes(result, &text);
  AppendPaths(result, &text);
  const std::string mode = ModeName(result.chosen);
  absl::StrAppendFormat(&text, "\nchosen: %s%s, %d blocks of %s in flight",
                        EngineName(result.chosen), mode.empty() ? "" : " " + mode,
                        result.chosen.depth, FormatBytes(result.chosen.block_bytes));
  absl::StrAppendFormat(&text, "%s (%.0f s)\n",
                        result.chosen.kind == IoEngineOptions::Kind::kThreads
                            ? absl::StrCat(", ", result.threads, " threads")
                            : "",
                        result.seconds);
  return text;
}

json TuneJson(const TuneResult& result) {
  json value = TunedRatesJson(result.together);
  value["engine"] = EngineName(result.chosen);
  value["mode"] = ModeName(result.chosen);
  value["block_bytes"] = result.chosen.block_bytes;
  value["depth"] = result.chosen.depth;
  value["threads"] = result.threads;
  value["seconds"] = result.seconds;
  value["engines"] = value["shapes"] = value["paths"] = json::array();
  for (const TuneCandidate& engine : result.engines) {
    value["engines"].push_back(CandidateJson(engine));
  }
  value["io_uring_refusal"] =
      result.uring_refusal.empty() ? json(nullptr) : json(result.uring_refusal);
  for (const TuneCandidate& shape : result.shapes) {
    value["shapes"].push_back(CandidateJson(shape));
  }
  for (const TunePath& path : result.paths) {
    json each = TunedRatesJson(path.rates);
    each["path"] = path.path;
    each["device"] = path.device.number;
    each["name"] = path.device.name;
    each["model"] = path.device.model;
    each["filesystem"] = path.device.filesystem;
    value["paths"].push_back(each);
  }
  return value;
}

}  // namespace spillway
