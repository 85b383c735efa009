// What train is told, resolved into what the engine needs: flags win over the DeepSpeed
// file, the file wins over defaults, and every value remembers where it came from.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/options/train_options.h"
#include "engine/ranks/launch_environment.h"
#include "engine/tuning/tuned_io.h"
#include "nlohmann/json.hpp"

namespace spillway {

// Flags as given, unparsed; the field's name is the flag's, with '_' for '-'.
struct TrainFlags {
  using Text = std::optional<std::string>;
  Text model, output, config, tokenizer;
  std::vector<std::string> data, eval_data;
  Text seq_len, micro_batch, accumulate, steps, epochs, seed, order;
  Text dtype, optimizer, lr, betas, eps, weight_decay, decay, momentum, clip, warmup, schedule;
  Text device, threads, device_memory, host_memory;
  Text swap, offload, offload_param, offload_optimizer, offload_activations;
  Text update, update_device, recompute, io_engine;
  Text commit_every, persist, keep;
  Text eval_every, tensorboard, export_dtype;
  Text ranks, shard, shard_group_size, collective_timeout, communication_dtype, hostfile;
  Text trace, trace_steps, max_bytes_written, drive_writes_per_day;
  bool no_commit = false;
  bool resume = false;
  bool overwrite = false;
  bool no_export = false;
  bool launch = false;
  // Hugging Face Trainer's, which train says otherwise (engine/config/trainer_flags.h). The
  // switches are empty where they stand alone.
  Text bf16, fp16, adam_beta1, adam_beta2, warmup_ratio, overwrite_output_dir;
};

// A value of config.resolved.json.
struct ResolvedValue {
  std::string name;  // the flag's name without dashes, or the DeepSpeed key's path
  nlohmann::json value;
  std::string source;  // "--lr", "ds.json:12", "default", "derived"
  // Where a flag won over the config file: what the file says, and where.
  nlohmann::json file_value = nullptr;
  std::string file_source = "";
};

struct RunConfig {
  TrainOptions train;
  IoGiven io_given;

  std::string model;
  std::vector<std::string> data;
  std::vector<std::string> eval_data;
  std::string tokenizer;  // "model", "chars", "bytes", a directory, or "": not said
  int64_t seq_len = 0;    // 0: the model's, at most 1024
  bool no_export = false;
  std::optional<DType> export_dtype;  // none: the input model's

  // One line each, for the log.
  std::vector<std::string> notes;
  std::vector<ResolvedValue> values;
};

// kInvalidArgument names the flag (or FILE:LINE and key), what was given and what is
// accepted; kUnimplemented what this build does not do. Reads the config file, nothing
// else: whether model, data and paths exist is found out where they are used.
// `launch`: how this process was started (ReadLaunch); by default by nobody, and --ranks is a
// number of ranks to reckon with.
absl::StatusOr<RunConfig> ResolveRunConfig(const TrainFlags& flags, const Launch& launch = {});

// --ranks, where it was given.
absl::StatusOr<std::optional<int>> RanksFlag(const TrainFlags& flags);

// {"lr": {"value": 5e-05, "source": "default"},
//  "clip": {"value": 0.5, "source": "--clip",
//           "overrides": {"value": 1.0, "source": "ds.json:3"}}, ...}
nlohmann::json ResolvedConfigJson(const RunConfig& config);

// Sets the run's I/O as tuned, recorded as such ("tune") for config.resolved.json.
void TuneRunConfig(RunConfig* config);

}  // namespace spillway
