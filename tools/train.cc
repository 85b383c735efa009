// spillway train: its flags, and the ranks that it starts; tools/compute/train.cc trains.
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "engine/config/run_config.h"
#include "engine/config/trainer_flags.h"
#include "engine/machine/swap_paths.h"
#include "io/base/log.h"
#include "io/base/status.h"
#include "io/file_system.h"
#include "tools/build_info.h"
#include "tools/commands.h"
#include "tools/compute_library.h"
#include "tools/device_flag.h"
#include "tools/given_model.h"
#include "tools/ranks.h"

namespace spillway {
namespace {

// What the run reads may lie where it writes, or where --overwrite removes what an earlier one
// left.
absl::Status RefuseOwnResults(const RunConfig& config) {
  const std::string& output = config.train.output;
  if (SameFile(config.model, output + "/model")) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--model ", config.model,
        " is where this run's --output puts its trained model: give another --output"));
  }
  for (const char* own : {"/adapter", "/model", "/source"}) {
    if (!SameFile(config.adapter.directory, output + own)) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "--adapter ", config.adapter.directory,
        " is a folder of this run's --output, which the run writes anew: give another --output, or "
        "copy the adapter out of it first"));
  }
  return absl::OkStatus();
}

absl::StatusOr<RunConfig> ReadConfig(const TrainFlags& flags, const Launch& launch) {
  ASSIGN_OR_RETURN(RunConfig config, ResolveForRanks(flags, launch));
  TuneRunConfig(&config);
  config.train.origin = ThisRunOrigin();
  RETURN_IF_ERROR(RefuseOwnResults(config));
  RETURN_IF_ERROR(CheckTakesFiles("--output", config.train.output));
  if (!config.train.persist.empty()) {
    RETURN_IF_ERROR(CheckTakesFiles("--persist", config.train.persist));
  }
  for (const std::string& note : config.notes) LogInfo(note);
  for (const std::string& warning : config.warnings) LogWarning(warning);
  RETURN_IF_ERROR(ResolveDevice(&config).status());
  return config;
}

CommandOutcome RunTrain(const TrainFlags& given) {
  if (given.hostfile || given.launch) return StartOverHosts(given);
  const auto launch = FindLaunch(given);
  if (!launch.ok()) return {launch.status()};
  TrainFlags flags = given;
  const absl::Status found =
      ResolveGivenModels(HubFiles::kWeights, /*logs=*/!launch->to_be_spawned(), flags);
  if (!found.ok()) return {found};
  // Ranks look it up themselves, after it has been fetched here.
  if (launch->to_be_spawned()) return StartRanks(given, *launch);
  const auto config = ReadConfig(flags, *launch);
  if (!config.ok()) return {config.status()};
  const auto compute = OpenComputeLibrary();
  if (!compute.ok()) return {compute.status()};
  return (*compute)->Train(*config);
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
  text("--model", f.model,
       "Hugging Face directory (config.json, safetensors, tokenizer), or ORG/NAME in the hub's "
       "cache");
  command->add_flag("--download", f.download, kDownloadHelp);
  text("--task", f.task,
       "what the model is to be for, where its config.json says another task or none: causal-lm, "
       "seq2seq, transcribe (translate: into English), classify, masked-lm or classify-image");
  command->add_option(
      name_of("--data"), f.data,
      "text (.txt), .jsonl (text; prompt and completion; messages) or tokens (.bin, "
      ".npy), for a classifier .jsonl, .csv or .tsv (texts and a label), for an encoder with a "
      "decoder the same of pairs, or of sounds and their texts, for pictures CIFAR's .bin or a "
      "folder of a folder a class; several follow one another");
  text("--text-keys", f.text_keys,
       "where rows have the texts that are classified, NAME[,NAME] (the usual names: text, "
       "sentence, sentence1 and sentence2, ...)");
  text("--label-key", f.label_key, "where they have their label (label)");
  text("--mask-probability", f.mask_probability,
       "how many of its tokens a masked language model has to find (0.15)");
  text("--source-key", f.source_key,
       "where rows of pairs have the text that is read; translation.en is en inside translation "
       "(prompt), or the sound's file (audio)");
  text("--target-key", f.target_key,
       "... and the one that is to be made of it (completion; of a sound text)");
  text("--source-prefix", f.source_prefix, "goes before each source, as \"summarize: \"");
  text("--max-source-length", f.max_source_length,
       "tokens a source has at most; a longer one loses its end (1024)");
  text("--max-target-length", f.max_target_length,
       "the same of targets (128; of a sound the model's)");
  text("--language", f.language, "what is spoken in the sounds, as de or german");
  text("--transcribe-task", f.transcribe_task,
       "transcribe: the text is in that language (default); translate: in English");
  text("--augment", f.augment,
       "how pictures are changed at random while training: none, crop-flip, or auto (crop-flip of "
       "CIFAR's, none of others)");
  text("--picture-size", f.picture_size,
       "points a side of what a model reads of them (preprocessor_config.json's; CIFAR's 32)");
  text("--output", f.output, "directory for metrics, commits and the model");
  text("--config", f.config, "DeepSpeed JSON file; flags win over it");
  text("--tokenizer", f.tokenizer, "model, chars, bytes, or a directory");
  text("--seq-len", f.seq_len, "tokens a sample has at most (the model's, at most 1024)");
  text("--micro-batch", f.micro_batch, "samples computed at once (1)");
  text("--accumulate", f.accumulate, "micro-batches a step (1)");
  text("--steps", f.steps, "total steps, also on resume");
  text("--epochs", f.epochs, "instead of --steps (1)");
  text("--seed", f.seed, "42");
  text("--order", f.order, "shuffle (default) or sequential");
  text("--samples", f.samples,
       "what makes one: windows of the sequence of all tokens (default), or each line of a .jsonl, "
       "padded or packed");
  text("--packing", f.packing, "TRL's name of --samples packed, or with False padded")
      ->expected(0, 1);
  text("--pad-to-max-length", f.pad_to_max_length,
       "pad samples to --seq-len, and not to the longest of a micro-batch")
      ->expected(0, 1);
  text("--dtype", f.dtype, "bf16, fp16 or fp32");
  text(
      "--compute", f.compute,
      "in which matrices are multiplied: auto (the dtype where the processor has instructions "
      "for it, else fp32), fp32, bf16, or fp8 (layers' matrices in 8 bits, for GPUs that have it)");
  text("--optimizer", f.optimizer, "adamw, adam, lion, lamb, adafactor or sgd");
  text(
      "--moments", f.moments,
      "in which the optimizer's moments are kept: fp32, bf16, 8bit (a quarter of the bytes) or fp8 "
      "(E4M3 and fp16)");
  text("--master", f.master,
       "exact (fp32), 24bit (three quarters of the bytes, rounded into at random), or none: bf16 "
       "weights alone");
  text("--lr", f.lr, "learning rate (5e-5)");
  text("--betas", f.betas, "0.9,0.999");
  text("--eps", f.eps, "1e-8 (adafactor: 1e-30)");
  text("--momentum", f.momentum, "sgd's momentum");
  text("--trust-ratio", f.trust_ratio, "lamb's least and most (0.01,10)");
  text("--decay-rate", f.decay_rate, "adafactor's: second moments keep 1 - step^-0.8");
  text("--clip-threshold", f.clip_threshold,
       "adafactor's largest update of a tensor, as the root of its mean square (1.0)");
  text("--scale-parameter", f.scale_parameter,
       "adafactor: --lr is relative to the root of a tensor's mean square")
      ->expected(0, 1);
  text("--weight-decay", f.weight_decay, "0.01");
  text("--decay", f.decay, "all, or matrices to spare biases and norms");
  text("--clip", f.clip, "global gradient norm (1.0; 0: none)");
  text("--label-smoothing", f.label_smoothing,
       "the part of each label that all tokens share, in training and evaluation (0)");
  text("--warmup", f.warmup, "warm-up steps");
  text("--freeze", f.freeze,
       "regular expression: parameters with it in their name are not trained");
  text("--train-only", f.train_only, "the same of those that are; the others are not trained");
  text("--base-dtype", f.base_dtype,
       "in which frozen matrices of layers are kept: auto or what --dtype is (as they are), int8 "
       "or nf4, as bitsandbytes quantises");
  text("--lora-r", f.lora_r, "train adapters of this rank (LoRA) and leave the model as it is");
  text("--lora-alpha", f.lora_alpha, "their scale times the rank (8)");
  text("--lora-dropout", f.lora_dropout, "of what they read (0)");
  text("--lora-targets", f.lora_targets,
       "layers that get one, by the ends of their names, or all-linear (PEFT's of the family)");
  text("--use-rslora", f.use_rslora, "scale by the rank's square root")->expected(0, 1);
  text("--lora-bias", f.lora_bias, "biases that are trained as well: none, all or lora_only");
  text("--modules-to-save", f.modules_to_save, "modules that are trained whole beside them");
  text("--layers-to-transform", f.layers_to_transform, "numbers of the layers that get adapters");
  text("--peft-config", f.peft_config, "all of this from an adapter_config.json, or its folder");
  text("--adapter", f.adapter, "go on with the adapter in this directory, as PEFT writes it");
  text("--schedule", f.schedule, "constant, linear or cosine");
  text("--bf16", f.bf16, "Trainer's name of --dtype bf16")->expected(0, 1);
  text("--fp16", f.fp16, "Trainer's name of --dtype fp16")->expected(0, 1);
  text("--adam_beta1", f.adam_beta1, "Trainer's name of the first of --betas");
  text("--adam_beta2", f.adam_beta2, "Trainer's name of the second of --betas");
  text("--adam_epsilon", f.adam_epsilon, "Trainer's name of --eps, but of Adafactor's");
  text("--max_steps", f.max_steps, "Trainer's name of --steps; below 1 it says nothing");
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
  text("--commit-every", f.commit_every,
       "between commits: auto (15 minutes, or longer where they would cost more than 1% of the "
       "time), so many steps, or a time (5m); 0: only at the end and at signals");
  command->add_flag("--no-commit", f.no_commit, "keep one copy of the state, nothing to resume");
  text("--persist", f.persist, "copy commits to this directory");
  text("--keep", f.keep, "commits kept there (1)");
  command->add_flag("--resume", f.resume, "continue from the last commit in --output");
  text("--allow-change", f.allow_change,
       "what --resume may change from the last commit on: lr, schedule, clip, micro-batch, threads "
       "or data, NAME[,NAME]");
  command->add_flag("--overwrite", f.overwrite,
                    "remove an earlier run in --output: commit, swap, results, model");
  text("--overwrite_output_dir", f.overwrite_output_dir, "Trainer's name of --overwrite")
      ->expected(0, 1);
  command->add_option(name_of("--eval-data"), f.eval_data, "held-out data");
  text("--eval-every", f.eval_every, "steps between evaluations (only at the end)");
  text("--metric", f.metric,
       "which one is the best by: loss, perplexity of tokens, accuracy, f1, ... of a classifier, "
       "bleu, rouge1, rouge2, rougeL, wer or cer of texts that are made (loss)");
  text("--predict-with-generate", f.predict_with_generate,
       "of a model with an encoder: evaluations make texts, too, and measure them")
      ->expected(0, 1);
  text("--num-beams", f.num_beams, "... looking for the likeliest among so many at a time (1)");
  text("--length-penalty", f.length_penalty,
       "... with beams: above 0 long ones are liked better (1)");
  text("--min-tokens", f.min_tokens, "... of so many tokens at least (0)");
  text("--no-repeat-ngram", f.no_repeat_ngram, "... without so many tokens in a row twice (0)");
  text("--generation-max-length", f.generation_max_length,
       "... and of so many at most, with the one that texts begin with (--max-target-length "
       "without it)");
  command->add_flag("--explain", f.explain, "print the whole plan, with a sentence for each line");
  text("--sample-prompts", f.sample_prompts,
       "prompts that every evaluation continues, for the report: .jsonl, or any text, one a line");
  text("--sample-tokens", f.sample_tokens, "... by so many tokens at most (32)");
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
       "in which gradients are exchanged: fp32 (default), bf16 or fp8");
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
