// spillway train: from a model directory and data to a trained model.
#include "engine/torch/train.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/base/progress.h"
#include "engine/base/stop_signal.h"
#include "engine/config/run_config.h"
#include "engine/config/trainer_flags.h"
#include "engine/data/load_tokenizer.h"
#include "engine/data/token_source.h"
#include "engine/data/tokenizer.h"
#include "engine/estimate/run_forecast.h"
#include "engine/families/gpt2.h"
#include "engine/families/gpt2_weights.h"
#include "engine/machine/memory_limits.h"
#include "engine/report/metrics.h"
#include "engine/torch/token_dataset.h"
#include "engine/tuning/tuned_io.h"
#include "engine/weights/model_files.h"
#include "engine/weights/safetensors_model.h"
#include "io/base/format_bytes.h"
#include "io/base/log.h"
#include "io/base/status.h"
#include "io/checksum.h"
#include "io/file_system.h"
#include "tools/commands.h"
#include "tools/device_flag.h"
#include "tools/ranks.h"

namespace spillway {
namespace {

namespace fs = std::filesystem;

// Everything that was checked before OUTPUT is touched.
struct Inputs {
  RunConfig config;
  Gpt2Config model_config;
  Model model;
  std::unique_ptr<SafetensorsModel> weights_files;
  std::unique_ptr<WeightSource> weights;  // null: initialised
  std::unique_ptr<Tokenizer> tokenizer;
  std::unique_ptr<TokenSource> tokens, evaluation_tokens;
  std::unique_ptr<TokenDataset> data, evaluation_data;
};

// Where temporary token files go: the nearest folder above OUTPUT that exists.
std::string ScratchDirectory(const std::string& output) {
  std::error_code error;
  fs::path path = fs::weakly_canonical(fs::absolute(output), error);
  while (!path.empty() && path.has_relative_path() && !fs::is_directory(path, error)) {
    path = path.parent_path();
  }
  return path.empty() ? "." : path.string();
}

absl::StatusOr<std::unique_ptr<TokenSource>> OpenTokens(const Inputs& inputs,
                                                        const std::vector<std::string>& files,
                                                        int64_t seq_len) {
  TokenSourceOptions options;
  options.files = files;
  options.tokenizer = inputs.tokenizer.get();
  options.scratch_directory = ScratchDirectory(inputs.config.train.output);
  options.vocabulary = inputs.model_config.vocab_size;
  options.window_tokens = seq_len;
  return TokenSource::Open(options);
}

absl::Status ReadInputs(const TrainFlags& flags, const Launch& launch, Inputs& in) {
  ASSIGN_OR_RETURN(in.config, ResolveForRanks(flags, launch));
  TuneRunConfig(&in.config);
  RunConfig& config = in.config;
  std::error_code error;
  if (fs::equivalent(config.model, config.train.output + "/model", error)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--model ", config.model,
        " is where this run's --output puts its trained model: give another --output"));
  }
  for (const std::string& note : config.notes) LogInfo(note);
  RETURN_IF_ERROR(ResolveDevice(&config).status());
  ASSIGN_OR_RETURN(in.model_config, ReadGpt2Config(config.model));
  for (const std::string& warning : in.model_config.warnings) LogWarning(warning);
  ASSIGN_OR_RETURN(in.model, BuildGpt2(in.model_config));

  const int64_t positions = in.model_config.n_positions;
  if (config.seq_len == 0) config.seq_len = std::min<int64_t>(positions, 1024);
  if (config.seq_len > positions) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--seq-len ", config.seq_len, " is more than the ", positions, " positions of the model"));
  }

  std::string weights_identity = "initialised";
  auto files = SafetensorsModel::Open(config.model);
  if (files.ok()) {
    in.weights_files = *std::move(files);
    ASSIGN_OR_RETURN(in.weights, OpenGpt2Weights(in.model_config, in.weights_files.get()));
    ASSIGN_OR_RETURN(weights_identity, in.weights_files->Fingerprint());
  } else if (absl::IsNotFound(files.status())) {
    LogInfo(absl::StrCat("no weights in ", config.model,
                         ": starting from the architecture's "
                         "initial values, seed ",
                         config.train.seed));
  } else {
    return files.status();
  }

  ASSIGN_OR_RETURN(in.tokenizer, MakeTokenizer(config.tokenizer, config.model, config.data));
  ASSIGN_OR_RETURN(in.tokens, OpenTokens(in, config.data, config.seq_len));
  in.data = std::make_unique<TokenDataset>(in.tokens.get(), config.seq_len);
  if (!config.eval_data.empty()) {
    ASSIGN_OR_RETURN(in.evaluation_tokens, OpenTokens(in, config.eval_data, config.seq_len));
    in.evaluation_data = std::make_unique<TokenDataset>(in.evaluation_tokens.get(), config.seq_len);
  }
  const std::string description = in.model_config.original.dump();
  config.train.identity = {
      {"model",
       absl::StrFormat("%016x, weights %s", Checksum(description.data(), description.size()),
                       weights_identity)},
      {"tokenizer", in.tokenizer ? in.tokenizer->fingerprint() : "none"},
      {"seq-len", absl::StrCat(config.seq_len)},
  };
  return absl::OkStatus();
}

// The dtype of an export: as told, or that of the weights the run started from.
DType ExportDType(const Inputs& in) {
  if (in.config.export_dtype) return *in.config.export_dtype;
  return in.weights_files ? in.weights_files->dtype() : DType::kFloat32;
}

// What OUTPUT says of the run beside its state, before the first step.
absl::Status WriteDescription(const Inputs& in) {
  const RunConfig& config = in.config;
  // An export of fewer steps (this run goes on) is no longer whole.
  std::error_code error;
  fs::remove(config.train.output + "/model/config.json", error);
  if (error) return ErrnoStatus(error.value(), "remove the export of an earlier step");
  RETURN_IF_ERROR(SaveModelFiles(Gpt2ConfigJson(in.model_config, ExportDType(in)), config.model,
                                 in.tokenizer.get(), SourceDirectory(config.train.output)));
  return WriteFileAtomically(
      config.train.output + "/config.resolved.json",
      ResolvedConfigJson(config).dump(2, ' ', false, nlohmann::json::error_handler_t::replace) +
          "\n");
}

// OUTPUT/model/, if it is not there yet.
absl::Status ExportTrained(const Inputs& in, const StateSource& state) {
  const std::string directory = in.config.train.output + "/model";
  if (in.config.no_export || fs::exists(directory + "/config.json")) return absl::OkStatus();
  ASSIGN_OR_RETURN(const DType dtype,
                   ExportModel(state, in.config.export_dtype,
                               SourceDirectory(in.config.train.output), directory));
  LogInfo(absl::StrCat("exported to ", directory, " (", std::string(DTypeName(dtype)),
                       " safetensors)"));
  return absl::OkStatus();
}

// Bytes a parameter of OUTPUT/model/.
uint64_t ExportBytes(const Inputs& in) {
  if (in.config.no_export) return 0;
  return ExportDType(in) == DType::kFloat32 ? 4 : 2;
}

void PrintSummary(const Inputs& in, const TrainResult& result) {
  const bool finished = result.end == TrainResult::End::kFinished;
  std::string text = absl::StrCat(finished ? "done" : "stopped", ": step ", result.step, " in ",
                                  FormatDuration(result.seconds));
  if (result.first_loss) {
    absl::StrAppendFormat(&text, "\n  loss       %.4f at the start, %.4f at the end",
                          *result.first_loss, *result.last_loss);
  }
  if (result.evaluation_loss) {
    absl::StrAppendFormat(&text, "\n  held out   %.4f%s", *result.evaluation_loss,
                          PerplexityText(*result.evaluation_loss));
    if (result.first_evaluation_loss) {
      absl::StrAppendFormat(&text, " (%.4f before training)", *result.first_evaluation_loss);
    }
    if (result.best_evaluation_loss && result.best_evaluation_step != result.step) {
      absl::StrAppendFormat(&text, "; best %.4f at step %d", *result.best_evaluation_loss,
                            result.best_evaluation_step);
    } else if (result.best_evaluation_loss) {
      absl::StrAppend(&text, "; the best of all evaluations");
    }
  }
  absl::StrAppend(&text, "\n  moved      ", FormatBytes(result.nvme_read_bytes), " read and ",
                  FormatBytes(result.nvme_written_bytes), " written on NVMe by ", result.io_engine);
  absl::StrAppend(&text, "\n  memory     ", FormatBytes(result.peak_rss_bytes),
                  " resident at the peak; device ", FormatBytes(result.peak_device_bytes),
                  ", host ", FormatBytes(result.peak_host_bytes));
  absl::StrAppend(&text, result.speed, "\n  report     ", in.config.train.output, "/report.html");
  LogInfo(text);
}

CommandOutcome StoppedOutcome(const Inputs& in, const TrainResult& result) {
  const bool by_signal = result.stop_signal != 0;
  const std::string by = by_signal ? StopSignal::Name(result.stop_signal) : "--max-bytes-written";
  if (in.config.train.no_commit) {
    return {absl::AbortedError(absl::StrCat("stopped by ", by, " at step ", result.step,
                                            "; with --no-commit nothing can be resumed"))};
  }
  if (by_signal) {
    LogInfo(absl::StrCat("stopped by ", by, " after step ", result.step,
                         "; continue with the same command and --resume"));
  } else {
    LogInfo(absl::StrCat("stopped by ", by, " ", FormatBytes(in.config.train.max_bytes_written),
                         " after step ", result.step, ": the run has written ",
                         FormatBytes(result.run_written_bytes),
                         ", and a step more could pass it; continue with --resume and a higher "
                         "limit"));
  }
  return {absl::OkStatus(), 75};
}

CommandOutcome RunTrain(const TrainFlags& flags) {
  if (flags.hostfile || flags.launch) return StartOverHosts(flags);
  const auto launch = FindLaunch(flags);
  if (!launch.ok()) return {launch.status()};
  if (launch->to_be_spawned()) return StartRanks(flags, *launch);
  Inputs in;
  if (absl::Status status = ReadInputs(flags, *launch, in); !status.ok()) return {status};
  in.config.train.export_bytes_per_parameter = ExportBytes(in);
  TrainHooks hooks;
  hooks.at_start = [&] { return WriteDescription(in); };
  hooks.at_end = [&](const StateSource& state) { return ExportTrained(in, state); };
  const auto result =
      Train(in.model, *in.data, in.evaluation_data.get(), in.weights.get(), in.config.train, hooks);
  if (!result.ok()) return {result.status()};
  if (result->end == TrainResult::End::kAlreadyFinished) return {};
  if (result->step > 0 && !result->speed.empty()) PrintSummary(in, *result);
  return result->end == TrainResult::End::kStopped ? StoppedOutcome(in, *result) : CommandOutcome{};
}

}  // namespace

void AddTrainFlags(CLI::App& app, TrainFlags& f) {
  CLI::App* command = &app;
  // Hugging Face Trainer's names stand beside ours.
  auto name_of = [](const std::string& flag) {
    std::string names = flag;
    for (const FlagAlias& alias : TrainerFlagAliases()) {
      if (alias.flag == flag) absl::StrAppend(&names, ",", alias.alias);
    }
    return names;
  };
  auto text = [&](const std::string& flag, TrainFlags::Text& value, const std::string& help) {
    return command->add_option(name_of(flag), value, help);
  };
  text("--model", f.model, "Hugging Face directory: config.json, safetensors, tokenizer");
  command->add_option(name_of("--data"), f.data,
                      "text (.txt), .jsonl (text, or prompt and completion) or tokens (.bin, "
                      ".npy); several follow one another");
  text("--output", f.output, "directory for metrics, commits and the model");
  text("--config", f.config, "DeepSpeed JSON file; flags win over it");
  text("--tokenizer", f.tokenizer, "model, chars, bytes, or a directory");
  text("--seq-len", f.seq_len, "tokens a sample (the model's, at most 1024)");
  text("--micro-batch", f.micro_batch, "samples computed at once (1)");
  text("--accumulate", f.accumulate, "micro-batches a step (1)");
  text("--steps", f.steps, "total steps, also on resume");
  text("--epochs", f.epochs, "instead of --steps (1)");
  text("--seed", f.seed, "42");
  text("--order", f.order, "shuffle (default) or sequential");
  text("--dtype", f.dtype, "bf16, fp16 or fp32; masters are fp32");
  text("--optimizer", f.optimizer, "adamw, adam or sgd");
  text("--lr", f.lr, "learning rate (5e-5)");
  text("--betas", f.betas, "0.9,0.999");
  text("--eps", f.eps, "1e-8");
  text("--momentum", f.momentum, "sgd's momentum");
  text("--weight-decay", f.weight_decay, "0.01");
  text("--decay", f.decay, "all, or matrices to spare biases and norms");
  text("--clip", f.clip, "global gradient norm (1.0; 0: none)");
  text("--warmup", f.warmup, "warm-up steps");
  text("--schedule", f.schedule, "constant, linear or cosine");
  text("--bf16", f.bf16, "Trainer's name of --dtype bf16")->expected(0, 1);
  text("--fp16", f.fp16, "Trainer's name of --dtype fp16")->expected(0, 1);
  text("--adam_beta1", f.adam_beta1, "Trainer's name of the first of --betas");
  text("--adam_beta2", f.adam_beta2, "Trainer's name of the second of --betas");
  text("--warmup_ratio", f.warmup_ratio, "Trainer's: --warmup as a part of --steps");
  text("--device", f.device, "auto (a GPU where there is one), cpu or cuda");
  text("--threads", f.threads, "compute threads (the cores); part of the run's identity");
  text("--device-memory", f.device_memory, "hard budget, e.g. 1GiB");
  text("--host-memory", f.host_memory, "hard budget, e.g. 3GiB");
  text("--swap", f.swap, "parents for swap files, PATH[,PATH...]");
  text("--offload", f.offload, "auto, none, cpu or nvme");
  text("--offload-param", f.offload_param, "the same for weights alone");
  text("--offload-optimizer", f.offload_optimizer, "the same for optimizer state alone");
  text("--offload-activations", f.offload_activations,
       "auto (what device memory has no room for), none, cpu or nvme");
  text("--update", f.update, "auto, immediate or deferred");
  text("--update-device", f.update_device,
       "on a GPU, who updates state that does not live there: auto, cpu or gpu");
  text("--recompute", f.recompute, "all, or auto: not where memory is left for activations");
  text("--io-engine", f.io_engine, "auto, io_uring or threads");
  text("--commit-every", f.commit_every, "steps between commits (only at the end and at signals)");
  command->add_flag("--no-commit", f.no_commit, "keep one copy of the state, nothing to resume");
  text("--persist", f.persist, "copy commits to this directory");
  text("--keep", f.keep, "commits kept there (1)");
  command->add_flag("--resume", f.resume, "continue from the last commit in --output");
  command->add_flag("--overwrite", f.overwrite,
                    "remove an earlier run in --output: commit, swap, results, model");
  text("--overwrite_output_dir", f.overwrite_output_dir, "Trainer's name of --overwrite")
      ->expected(0, 1);
  command->add_option(name_of("--eval-data"), f.eval_data, "held-out data");
  text("--eval-every", f.eval_every, "steps between evaluations (only at the end)");
  text("--tensorboard", f.tensorboard, "directory for TensorBoard's event files");
  text("--trace", f.trace, "file for a trace of some steps: open it with ui.perfetto.dev");
  text("--trace-steps", f.trace_steps,
       "steps in it: how many from this process's first (10), or FIRST-LAST");
  text("--max-bytes-written", f.max_bytes_written,
       "stop before the run has written more to its drives, e.g. 50TB; --resume goes on");
  text("--drive-writes-per-day", f.drive_writes_per_day,
       "what a drive is rated to be written a day (3.84TB: 7 PB in 5 years)");
  text("--ranks", f.ranks, "ranks on this machine, started without a launcher");
  text("--hostfile", f.hostfile,
       "DeepSpeed's list of machines (HOST slots=N): prints the mpirun command that does it");
  command->add_flag("--launch", f.launch, "run that command");
  text("--shard", f.shard,
       "what ranks divide among them: none, optimizer, gradients, full (default) or hybrid");
  text("--shard-group-size", f.shard_group_size,
       "ranks that share one state with --shard hybrid (those of a machine)");
  text("--communication-dtype", f.communication_dtype,
       "in which gradients are exchanged: fp32 (default) or bf16");
  text("--collective-timeout", f.collective_timeout,
       "how long ranks wait for one another, e.g. 90s (10m)");
  command->add_flag("--no-export", f.no_export, "no OUTPUT/model at the end");
  text("--export-dtype", f.export_dtype, "dtype of the exported weights");
}

void AddTrainCommand(CLI::App& app, CommandFunction* run) {
  CLI::App* command = app.add_subcommand("train", "Train a model from a Hugging Face directory");
  auto flags = std::make_shared<TrainFlags>();
  AddTrainFlags(*command, *flags);
  command->footer(
      "Example:\n  spillway train --model gpt2/ --data corpus.txt --output run "
      "--swap /nvme/swap --offload nvme --device-memory 1GiB --host-memory 3GiB");
  command->callback([run, flags] { *run = [flags] { return RunTrain(*flags); }; });
}

}  // namespace spillway
