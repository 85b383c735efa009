#include "engine/tuning/null_bench.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_format.h"
#include "engine/tuning/null_steps.h"
#include "engine/tuning/tune_choice.h"
#include "io/base/check.h"
#include "io/base/clock.h"
#include "io/base/format_bytes.h"
#include "io/base/status.h"

namespace spillway {
namespace {

constexpr int kNullRounds = 5;

struct Samples {
  std::vector<double> worker, mover, all, mover_seconds_per_tile;

  NullBenchResult::Rates Result() const {
    const auto range = [](const std::vector<double>& values) {
      const auto [least, most] = std::minmax_element(values.begin(), values.end());
      return NullBenchResult::Range{Median(values), *least, *most};
    };
    return {range(worker), range(mover), range(all), Median(mover_seconds_per_tile)};
  }
};

// Runs steps for about `seconds`, and at least one.
absl::StatusOr<NullSteps::Work> Measure(NullSteps& steps, const NullBenchOptions& options,
                                        double seconds, Samples& samples) {
  const NullSteps::Work before = steps.work();
  const double began = MonotonicSeconds();
  do {
    if (options.stopped && options.stopped()) return absl::CancelledError("stopped");
    RETURN_IF_ERROR(steps.Step());
  } while (MonotonicSeconds() - began < seconds);
  RETURN_IF_ERROR(steps.Flush());
  const double passed = MonotonicSeconds() - began;
  const NullSteps::Work work = steps.work().Since(before);
  const double bytes = static_cast<double>(work.moved_bytes);
  samples.worker.push_back(bytes / work.worker_seconds);
  samples.mover.push_back(bytes / work.mover_seconds);
  samples.all.push_back(bytes / passed);
  samples.mover_seconds_per_tile.push_back(work.mover_seconds / static_cast<double>(work.tiles));
  return work;
}

nlohmann::json NullRatesJson(const NullBenchResult::Rates& rates) {
  const auto range = [](const NullBenchResult::Range& r) -> nlohmann::json {
    return {{"median", r.median}, {"least", r.least}, {"most", r.most}};
  };
  return {{"worker", range(rates.worker)},
          {"mover", range(rates.mover)},
          {"all", range(rates.all)},
          {"mover_seconds_per_tile", rates.mover_seconds_per_tile}};
}

}  // namespace

absl::StatusOr<NullBenchResult> RunNullBench(const NullBenchOptions& options) {
  SPILLWAY_CHECK(options.workers > 0 && options.layers > 0 && options.seconds > 0);
  const PlanRequest request = LayersRequest(UpdateMode::kImmediate, options.layers,
                                            options.layer_parameters, options.tile_parameters);
  NullBenchResult result;
  result.options = options;
  result.tile_bytes = request.layout.MaxTileBytes();
  Samples with, without;
  for (const bool checksums : {true, false}) {
    ASSIGN_OR_RETURN(const auto steps, NullSteps::Create(request, {options.workers, checksums}));
    Samples warm_up;
    RETURN_IF_ERROR(Measure(*steps, options, 0, warm_up).status());
    for (int round = 0; round < kNullRounds; ++round) {
      ASSIGN_OR_RETURN(const NullSteps::Work work,
                       Measure(*steps, options, options.seconds / (2 * kNullRounds),
                               checksums ? with : without));
      result.moved_bytes_per_step = work.moved_bytes / work.steps;
    }
  }
  result.with_checksums = with.Result();
  result.without_checksums = without.Result();
  return result;
}

std::string NullBenchText(const NullBenchResult& r) {
  std::string text = absl::StrFormat(
      "a disk that completes at once, tiles of %s, %d layers, %d worker%s;\n"
      "GB/s, read and written (least to most of %d rounds)\n\n",
      FormatBytes(r.tile_bytes), r.options.layers, r.options.workers,
      r.options.workers == 1 ? "" : "s", kNullRounds);
  const auto row = [&](const char* name, const std::string& with, const std::string& without) {
    absl::StrAppendFormat(&text, "%-20s%28s%28s\n", name, with, without);
  };
  const auto range = [](const NullBenchResult::Range& rate) {
    return absl::StrFormat("%.1f (%.1f to %.1f)", rate.median * 1e-9, rate.least * 1e-9,
                           rate.most * 1e-9);
  };
  const auto micros = [](double seconds) { return absl::StrFormat("%.1f", seconds * 1e6); };
  const NullBenchResult::Rates &with = r.with_checksums, &without = r.without_checksums;
  row("", "with checksums", "without");
  row("a worker, busy", range(with.worker), "hands over only");
  row("the mover, busy", range(with.mover), range(without.mover));
  row("all, by the clock", range(with.all), range(without.all));
  row("mover, us a tile", micros(with.mover_seconds_per_tile),
      micros(without.mover_seconds_per_tile));
  absl::StrAppendFormat(&text, "\na step moves %s\n", FormatBytes(r.moved_bytes_per_step));
  return text;
}

nlohmann::json NullBenchJson(const NullBenchResult& r) {
  return {{"engine", "null"},
          {"workers", r.options.workers},
          {"layers", r.options.layers},
          {"tile_bytes", r.tile_bytes},
          {"moved_bytes_per_step", r.moved_bytes_per_step},
          {"unit", "bytes_per_second"},
          {"with_checksums", NullRatesJson(r.with_checksums)},
          {"without_checksums", NullRatesJson(r.without_checksums)}};
}

}  // namespace spillway
