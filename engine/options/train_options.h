// Everything a run is told, resolved: flags, then the config file, then defaults
// (engine/config/run_config.h does that). Plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/machine/compute_precision.h"
#include "engine/numeric/dtype.h"
#include "engine/numeric/exchange_format.h"
#include "engine/numeric/loss_scale.h"
#include "engine/numeric/lr_schedule.h"
#include "engine/numeric/optimizer.h"
#include "engine/options/drive_wear.h"
#include "engine/options/freeze_rule.h"
#include "engine/options/trace_options.h"
#include "io/io_engine.h"

namespace spillway {

enum class Offload { kAuto, kNone, kCpu, kNvme };
enum class UpdateChoice { kAuto, kImmediate, kDeferred };
enum class UpdateDevice { kAuto, kCpu, kGpu };
enum class Recompute { kAuto, kAll };
enum class SampleOrder { kShuffle, kSequential };
// What of the state each rank of a shard group keeps a share of, and not the whole (ZeRO's stages
// 0 to 3); hybrid: all of it, in groups of ranks that are copies of each other.
enum class Shard { kNone, kOptimizer, kGradients, kFull, kHybrid };

struct TrainOptions {
  std::string output;  // OUTPUT

  // The shape of the run (part of its identity).
  int64_t micro_batch = 1;
  int64_t accumulate = 1;
  int64_t steps = 0;  // total; resolved from epochs where that was given; 0: epochs decides
  double epochs = 1;
  uint64_t seed = 42;
  SampleOrder order = SampleOrder::kShuffle;
  DType dtype = DType::kBFloat16;
  // In which matrices are multiplied: the dtype or fp32. None: as suits this machine
  // (engine/machine/compute_precision.h).
  std::optional<DType> compute;
  bool layers_in_fp8 = false;  // but those of layers in 8 bits (engine/torch/float8_product.h)
  int threads = 0;             // compute threads; 0: the cores

  OptimizerSpec optimizer;
  ScheduleSpec schedule;
  double clip = 1.0;  // 0: none
  // The part of a label that all classes share, in training and evaluation; of models that make
  // texts.
  double label_smoothing = 0;
  LossScaleSpec loss_scale;

  FreezeRule freeze;  // what is not trained

  // Where things live (never changes the numbers).
  uint64_t device_memory_bytes = 0;  // 0: what the machine has free, less a margin
  uint64_t host_memory_bytes = 0;
  std::vector<std::string> swap_paths;
  Offload offload_param = Offload::kAuto;
  Offload offload_optimizer = Offload::kAuto;
  Offload offload_activations = Offload::kAuto;  // kAuto: as far as device memory needs it
  UpdateChoice update = UpdateChoice::kAuto;
  // On a GPU: who updates state that does not live there. kAuto: the plan's clock decides.
  UpdateDevice update_device = UpdateDevice::kAuto;
  Recompute recompute = Recompute::kAuto;
  // Of immediate updates: the share of units that are updated in the next forward all the
  // same; none: as the plan's clock finds best.
  std::optional<double> deferred_share;
  IoEngineOptions io;
  int update_threads = 0;        // 0: chosen
  uint64_t tile_parameters = 0;  // 0: the default; tests use small tiles

  // Commits.
  int64_t commit_every = 0;  // 0: only at a signal and at the end
  bool no_commit = false;
  bool resume = false;
  bool overwrite = false;  // remove an earlier run of OUTPUT
  std::string persist;
  int keep = 1;

  // Where the model's files are: a commit's that are read in place and are not where they were are
  // looked for here. Empty: nowhere.
  std::string model_directory;

  // What OUTPUT/model/ takes at the end, for the check of free space; 0: there is none.
  uint64_t export_bytes_per_parameter = 0;

  // "cpu", "cuda", or "auto": a GPU where this build and this machine have one for this run.
  std::string device = "cpu";

  // This process among those that train together; micro_batch and accumulate are each rank's.
  int rank = 0;
  int ranks = 1;
  int ranks_here = 1;  // on this machine, whose cores they share
  Shard shard = Shard::kFull;
  // Ranks that keep one whole state between them: `ranks`, or 1 with kNone, or fewer with
  // kHybrid. Divides `ranks`.
  int shard_group_size = 1;
  // In which gradients are exchanged; they are summed in fp32 either way.
  ExchangeFormat communication_format = ExchangeFormat::kFloat32;
  // How long a rank waits for the others, in any exchange, before the run ends.
  double collective_timeout_seconds = 600;

  // Evaluation.
  int64_t eval_every = 0;       // 0: only at the end, when there is evaluation data
  std::string metric = "loss";  // by which one is the best: of MeasureKinds

  std::string tensorboard;  // directory for event files; empty: none

  TraceOptions trace;  // --trace

  // What the run may write to its drives in all its processes; 0: no limit.
  uint64_t max_bytes_written = 0;
  double drive_bytes_per_day = kDriveBytesPerDay;  // what a drive is rated to be written

  // What must be the same on resume, as (name, value): model, data, tokenizer, ...
  // The engine adds its own (dtype, batch shape, seed, optimizer, schedule, threads).
  std::vector<std::pair<std::string, std::string>> identity;

  Products products() const {
    return {compute == DType::kFloat32 && dtype != DType::kFloat32, layers_in_fp8};
  }
  // "bf16": ComputeName.
  std::string compute_name() const {
    return ComputeName(compute.value_or(dtype), dtype, layers_in_fp8);
  }
};

}  // namespace spillway
