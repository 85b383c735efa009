// Facts about a run beside its rows: the plan, the budgets, its times and how it ended, its
// commits. Stored in OUTPUT/run.json, from which the report can be made again. Plain values.
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

// Size of one kind of state in a unit, and its home tier.
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
  double ended = 0;        // 0: not recorded
  int64_t first_step = 1;  // first step of this process
  int64_t last_step = 0;   // last step of this process
  std::string state;       // "running", "finished", "stopped", "failed", "killed"
  std::string message;     // the signal's name, or the error
  std::string host;
  RunOrigin origin;  // empty in runs of earlier versions, like `machine`
  RunMachine machine;
  std::string warning = {};  // a problem that did not end the process
};

struct RunCommit {
  int64_t step = 0;
  double time = 0;  // start, in seconds since 1970; 0: not recorded
};

struct RunDescription {
  uint64_t parameters = 0;
  uint64_t trainable_parameters = 0;
  int64_t steps = 0;                        // of the whole run
  int64_t micro_batch = 0, accumulate = 0;  // per rank
  int rank = 0, ranks = 1;                  // rank of this description, and number of ranks
  int threads = 0;
  std::string dtype, compute, optimizer, device, io_engine;
  bool deferred = false;

  uint64_t device_budget_bytes = 0, host_budget_bytes = 0;
  uint64_t computing_bytes = 0;  // peak of device memory, from the dry run
  std::string plan_summary;
  // (name, bytes a parameter) of each plane of the state; the first is the weights.
  std::vector<std::pair<std::string, int>> planes;
  std::vector<PlannedUnit> units;

  double clip = 0;  // largest norm of gradients; 0: unlimited
  DatasetSize data, evaluation_data;

  double drive_bytes_per_day = kDriveBytesPerDay;  // the drive's rating
  uint64_t written_bytes = 0;                      // to the drives, by all processes

  // Step time of the newest process, set at its end: predicted_seconds of the rows with the disk's
  // rates replaced by those that the process observed.
  std::optional<double> predicted_at_observed_rates_seconds;

  std::vector<RunPart> parts;      // the last one is the newest
  std::vector<RunCommit> commits;  // oldest first, of steps that count; thinned out
  int64_t commit_count = 0;
  std::vector<RunChange> changes;  // changes of settings since the run began
};

int64_t SamplesPerStep(const RunDescription& run);  // over all ranks
// Number of passes of `steps` steps over the data; 0 if its size is not known.
double Epochs(const RunDescription& run, int64_t steps);
// "0.1.0 (f629393f5039)"; "" if the process did not record it.
std::string VersionOf(const RunPart& part);
// " of rank 0", for figures of one rank in a run of several; "" if there is one rank.
std::string OfRank(const RunDescription& run);

// Largest length of the list of commits.
inline constexpr size_t kMostCommits = 1000;
void AddCommit(RunDescription& run, const RunCommit& commit);

// Describes a run with one part, which has `options.origin`. Sets everything except
// `computing_bytes`, `io_engine`, `written_bytes`, values known at the end, the rest of that part,
// commits and changes.
RunDescription DescribeRun(const TrainOptions& options, const ModelDescription& model,
                           const SwapPlan& plan);

nlohmann::json ToJson(const RunDescription& run);
// kInvalidArgument for JSON that ToJson cannot have written.
absl::StatusOr<RunDescription> RunDescriptionFromJson(const nlohmann::json& json);

// Returns OUTPUT/run.json. Reading is kNotFound, naming it, if it is missing.
std::string RunDescriptionPath(const std::string& output);
absl::StatusOr<RunDescription> ReadRunDescription(const std::string& output);

}  // namespace spillway
