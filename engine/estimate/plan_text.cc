#include "engine/estimate/plan_text.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "engine/base/progress.h"
#include "engine/estimate/run_forecast.h"
#include "io/base/format_bytes.h"
#include "io/base/terminal.h"

namespace spillway {
namespace {

const char* TierWords(Tier tier) {
  switch (tier) {
    case Tier::kDevice:
      return "in device memory";
    case Tier::kHost:
      return "in host memory";
    case Tier::kNvme:
      return "on NVMe";
  }
  return "?";
}

// Returns "400 MiB in host memory", "1 GiB on NVMe".
std::vector<std::string> Places(const uint64_t (&bytes_by_tier)[3]) {
  std::vector<std::string> places;
  for (const Tier tier : {Tier::kDevice, Tier::kHost, Tier::kNvme}) {
    const uint64_t bytes = bytes_by_tier[static_cast<int>(tier)];
    if (bytes > 0) places.push_back(absl::StrCat(FormatBytes(bytes), " ", TierWords(tier)));
  }
  return places;
}

std::string InPlaceText(const PlanFacts& facts) {
  return absl::StrCat(FormatBytes(facts.in_place_bytes), " in the model's files");
}

std::string StateLine(const SwapPlan& plan, const PlanFacts& facts) {
  const PlanResidency kept = plan.Residency();
  uint64_t bytes[3] = {};
  for (int tier = 0; tier < 3; ++tier) bytes[tier] = kept.weights[tier] + kept.optimizer[tier];
  const uint64_t total = std::accumulate(std::begin(bytes), std::end(bytes), uint64_t{0});
  uint64_t& in_store = bytes[static_cast<int>(Tier::kNvme)];
  in_store -= std::min(in_store, facts.in_place_bytes);
  std::string text = "  state      ";
  if (facts.trained_parameters == facts.parameters && plan.layout.TotalPaddedParameters() > 0) {
    absl::StrAppendFormat(
        &text, "%.3g bytes a parameter: ",
        static_cast<double>(total) / static_cast<double>(plan.layout.TotalPaddedParameters()));
  }
  std::vector<std::string> places = Places(bytes);
  if (facts.in_place_bytes > 0) places.push_back(InPlaceText(facts));
  uint64_t spilled[3] = {};
  for (const Tier tier : {Tier::kHost, Tier::kNvme}) {
    spilled[static_cast<int>(tier)] = kept.activations[static_cast<int>(tier)];
  }
  const std::string others = absl::StrJoin(Places(spilled), ", ");
  absl::StrAppend(&text, absl::StrJoin(places, ", "));
  if (!others.empty()) return absl::StrCat(text, "; of activations ", others);
  // If everything is in one memory, the activations are there, too.
  return bytes[static_cast<int>(Tier::kDevice)] == total ? text : text + "; activations in memory";
}

std::string TrafficLine(const StepTraffic& traffic) {
  std::vector<std::string> ways;
  if (traffic.read_bytes + traffic.written_bytes > 0) {
    ways.push_back(absl::StrCat(FormatBytes(traffic.read_bytes), " read from NVMe and ",
                                FormatBytes(traffic.written_bytes), " written to it"));
  }
  if (traffic.to_device_bytes + traffic.to_host_bytes > 0) {
    ways.push_back(absl::StrCat(FormatBytes(traffic.to_device_bytes), " to the device and ",
                                FormatBytes(traffic.to_host_bytes), " back"));
  }
  return absl::StrCat("  traffic    ", ways.empty() ? "none: all of the state stays in memory"
                                                    : absl::StrJoin(ways, ", ") + " each step");
}

std::string BudgetsLine(bool separate_device, const PlanFacts& facts) {
  return absl::StrCat("  budgets    ", FormatBytes(facts.device_limit_bytes), " device memory",
                      separate_device ? "" : " (RAM on a CPU)", ", ",
                      FormatBytes(facts.host_limit_bytes), " host memory");
}

std::string ForecastLine(const StepForecast& forecast, int64_t steps) {
  const std::string whole =
      steps > 0 ? absl::StrCat("; ", SecondsText(forecast.predicted_seconds * steps), " for ",
                               steps, steps == 1 ? " step" : " steps")
                : "";
  return absl::StrCat("  forecast   ", SecondsText(forecast.predicted_seconds),
                      " a step, bound by ", ResourceWords(forecast.binding), whole);
}

std::string CommitsLine(const PlanFacts& facts) {
  return absl::StrCat("\n  commits    ", facts.commits);
}

// Everything that is known, in lines of a label and its value.
std::string WholePlan(const SwapPlan& plan, const GraphPlan& graphs, const PlanFacts& facts) {
  std::string text = absl::StrCat(plan.Summary(), graphs.Summary(), "\n  computing  ",
                                  FormatBytes(facts.computing_bytes), " of device memory at most");
  if (!facts.products.empty()) absl::StrAppend(&text, "\n  products   in ", facts.products);
  if (facts.in_place_bytes > 0) absl::StrAppend(&text, "\n  in place   ", InPlaceText(facts));
  absl::StrAppend(&text, "\n", BudgetsLine(plan.separate_device, facts));
  if (facts.forecast) {
    absl::StrAppend(&text, "\n  forecast   ", DescribeForecast(*facts.forecast));
  }
  if (!facts.commits.empty()) absl::StrAppend(&text, CommitsLine(facts));
  return text;
}

}  // namespace

absl::string_view PlanLineMeaning(absl::string_view label) {
  static constexpr std::pair<const char*, const char*> kMeanings[] = {
      {"weights",
       "The numbers that the model computes with, and where they are kept between their uses: "
       "nvme is the disk of --swap."},
      {"optimizer",
       "What the optimizer keeps for each trained weight: its moments, and in half precision the "
       "rest of the exact weight."},
      {"gradients", "Gradients that wait for their update, and where; others are used at once."},
      {"spilled",
       "Inputs of layers that the backward pass needs again and device memory has no room for."},
      {"updates",
       "When the optimizer changes the weights. Deferred: a value over all gradients, such as the "
       "norm of --clip, must be known before the first of them changes."},
      {"buffers",
       "Host memory that moving state passes through: how large, how many tiles (pieces of state) "
       "move at once, and how many operations ahead weights are fetched."},
      {"traffic", "What a step reads from NVMe and writes to it; writing wears the drive."},
      {"recompute",
       "Layers whose forward pass is computed once more in the backward pass, so that their "
       "activations take no memory in between."},
      {"computing",
       "What computing takes at its peak: activations, gradients and temporary results."},
      {"products", "The dtype that matrices are multiplied in, and why it is not the run's."},
      {"in place", "Frozen weights that are read where they are and never written."},
      {"budgets",
       "The limits that the run keeps to: --device-memory and --host-memory. On a CPU both are "
       "parts of the same RAM."},
      {"forecast",
       "The time of a step, simulated from what this machine's disk, processors and links were "
       "measured to do; what no step can be faster than; and what that time is spent on."},
      {"commits",
       "When the state is made durable, so that --resume can continue from there: --commit-every, "
       "and at the end and at a signal whatever it says."},
  };
  for (const auto& [name, meaning] : kMeanings) {
    if (label == name) return meaning;
  }
  return "";
}

std::string CountText(uint64_t count) {
  constexpr std::pair<double, const char*> kUnits[] = {
      {1e12, "T"}, {1e9, "B"}, {1e6, "M"}, {1e3, "k"}};
  const double value = static_cast<double>(count);
  for (const auto& [size, name] : kUnits) {
    if (value < 0.9995 * size) continue;
    const double shown = value / size;
    return absl::StrFormat("%.*f%s", shown < 9.995 ? 2 : shown < 99.95 ? 1 : 0, shown, name);
  }
  return absl::StrCat(count);
}

std::string PlanText(const SwapPlan& plan, const PlanFacts& facts) {
  std::string text =
      absl::StrCat("plan: ", CountText(facts.parameters), " parameters in ", facts.units, " units");
  if (facts.trained_parameters < facts.parameters) {
    absl::StrAppend(&text, ", ", CountText(facts.trained_parameters), " of them trained");
  }
  absl::StrAppend(&text, "\n", StateLine(plan, facts), "\n", TrafficLine(plan.traffic), "\n",
                  BudgetsLine(plan.separate_device, facts));
  if (facts.forecast) {
    absl::StrAppend(&text, "\n", ForecastLine(*facts.forecast, facts.steps));
  }
  if (!facts.commits.empty()) absl::StrAppend(&text, CommitsLine(facts));
  return FoldText(text, kPageColumns);
}

std::string ExplainedPlan(const SwapPlan& plan, const GraphPlan& graphs, const PlanFacts& facts) {
  std::string text = "the plan, line by line";
  std::string meaning;
  const auto explain = [&] {
    if (!meaning.empty()) absl::StrAppend(&text, "\n             ", std::exchange(meaning, ""));
  };
  for (const absl::string_view line : absl::StrSplit(WholePlan(plan, graphs, facts), '\n')) {
    if (const size_t width = LabelWidth(line); width > 0) {
      explain();
      const absl::string_view label = absl::StripAsciiWhitespace(line.substr(0, width));
      meaning = std::string(PlanLineMeaning(label));
    }
    absl::StrAppend(&text, "\n", line);
  }
  explain();
  return FoldText(text, kPageColumns);
}

}  // namespace spillway
