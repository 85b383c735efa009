// What a run says of itself beside its rows: the plan, the budgets, when it ran and how that
// ended, its commits. Kept as OUTPUT/run.json, from which the report can be made again.
// Plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/model/model_description.h"
#include "engine/options/drive_wear.h"
#include "engine/options/train_options.h"
#include "nlohmann/json.hpp"
#include "swap/plan/swap_plan.h"

namespace spillway {

// What one kind of state takes in a unit, and where it lives between its uses.
struct PlannedState {
  uint64_t bytes = 0;
  std::string tier;  // TierName: "device", "host", "nvme"
};

struct PlannedUnit {
  std::string name;
  uint64_t parameters = 0;
  PlannedState weights, optimizer, gradients;  // gradients: deferred updates only
};

// The machine that a process computes on.
struct RunMachine {
  std::string cpu;            // the processor's name; "": not known
  int cores = 0;              // of the machine; 0: not known, as memory_bytes
  uint64_t memory_bytes = 0;  // of the machine
};

// One process of the run: from its start, or a resume, to its end.
struct RunPart {
  double started = 0;      // seconds since 1970
  double ended = 0;        // 0: it has not said
  int64_t first_step = 1;  // the first it takes
  int64_t last_step = 0;   // the last it took
  std::string state;       // "running", "finished", "stopped", "failed", "killed"
  std::string message;     // the signal's name, or the error
  std::string host;
  RunOrigin origin;  // empty in runs of earlier versions, as machine
  RunMachine machine;
  std::string warning = {};  // what went wrong meanwhile and did not end it
};

struct RunCommit {
  int64_t step = 0;
  double time = 0;  // begun; seconds since 1970; 0: nobody has noted it
};

struct RunDescription {
  uint64_t parameters = 0;
  uint64_t trainable_parameters = 0;
  int64_t steps = 0;                        // in all
  int64_t micro_batch = 0, accumulate = 0;  // of each rank
  int rank = 0, ranks = 1;                  // whose description this is, and of how many
  int threads = 0;
  std::string dtype, compute, optimizer, device, io_engine;
  bool deferred = false;

  uint64_t device_budget_bytes = 0, host_budget_bytes = 0;
  uint64_t computing_bytes = 0;  // of device memory at its peak, as the dry run says
  std::string plan_summary;
  // (name, bytes a parameter) of each plane of the state; the first is the weights.
  std::vector<std::pair<std::string, int>> planes;
  std::vector<PlannedUnit> units;

  double clip = 0;  // gradients' norm is cut to it; 0: it is not
  DatasetSize data, evaluation_data;

  double drive_bytes_per_day = kDriveBytesPerDay;  // that a drive is rated to be written
  uint64_t written_bytes = 0;                      // to the drives, by all processes

  // Of a step of the newest process, once it has ended: what rows have as predicted_seconds, with
  // nothing changed but the disk's rates, as that process found them.
  std::optional<double> predicted_at_observed_rates_seconds;

  std::vector<RunPart> parts;      // the last one is the newest
  std::vector<RunCommit> commits;  // oldest first, of steps that count; thinned out when many
  int64_t commit_count = 0;
  std::vector<RunChange> changes;  // of settings, since the run began
};

int64_t SamplesPerStep(const RunDescription& run);  // of all ranks
// How often so many steps go through the data; 0 where its size is not known.
double Epochs(const RunDescription& run, int64_t steps);
// "0.1.0 (f629393f5039)"; "" where the process did not say.
std::string VersionOf(const RunPart& part);
// " of rank 0", behind what is one rank's in a run of several; "" in a run of one.
std::string OfRank(const RunDescription& run);

// The most commits that are kept in the list.
inline constexpr size_t kMostCommits = 1000;
void AddCommit(RunDescription& run, const RunCommit& commit);

// With one part, which has `options.origin`. Fills in all but `computing_bytes`, `io_engine`,
// `written_bytes`, what is known at the end, the rest of that part, commits and changes.
RunDescription DescribeRun(const TrainOptions& options, const ModelDescription& model,
                           const SwapPlan& plan);

nlohmann::json ToJson(const RunDescription& run);
// kInvalidArgument for what ToJson does not write.
absl::StatusOr<RunDescription> RunDescriptionFromJson(const nlohmann::json& json);

// OUTPUT/run.json. kNotFound names it.
std::string RunDescriptionPath(const std::string& output);
absl::StatusOr<RunDescription> ReadRunDescription(const std::string& output);

}  // namespace spillway
