#include "engine/config/trainer_flags.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "engine/base/flag_value.h"
#include "engine/config/deepspeed_values.h"
#include "engine/families/model_task.h"
#include "io/base/status.h"

namespace spillway {
namespace {

using Text = TrainFlags::Text;

absl::Status TranslatePrecision(TrainFlags* flags) {
  ASSIGN_OR_RETURN(const bool bf16, SwitchFlag("--bf16", flags->bf16));
  ASSIGN_OR_RETURN(const bool fp16, SwitchFlag("--fp16", flags->fp16));
  if (bf16 && fp16) {
    return absl::InvalidArgumentError("--bf16 and --fp16 contradict each other: give one");
  }
  if (!bf16 && !fp16) {
    // Whoever says that it is neither has the Trainer's fp32, where no file says which.
    if ((flags->bf16 || flags->fp16) && !flags->dtype && !flags->config) flags->dtype = "fp32";
    return absl::OkStatus();
  }
  const std::string dtype = bf16 ? "bf16" : "fp16";
  if (flags->dtype.value_or(dtype) != dtype) {
    return absl::InvalidArgumentError(
        absl::StrCat("--", dtype, " and --dtype ", *flags->dtype, " contradict each other"));
  }
  flags->dtype = dtype;
  return absl::OkStatus();
}

// TRL packs samples, or pads them; --pad-to-max-length is about samples, too.
absl::Status TranslatePacking(TrainFlags* flags) {
  ASSIGN_OR_RETURN(const bool packing, SwitchFlag("--packing", flags->packing));
  ASSIGN_OR_RETURN(const bool to_max, SwitchFlag("--pad-to-max-length", flags->pad_to_max_length));
  const auto contradict = [&](absl::string_view flag) {
    return absl::InvalidArgumentError(
        absl::StrCat(flag, " and --samples ", *flags->samples, " contradict each other"));
  };
  if (flags->packing && !flags->samples) flags->samples = packing ? "packed" : "padded";
  if (to_max && !flags->samples) flags->samples = "padded";
  if (packing && flags->samples != "packed") return contradict("--packing");
  if (flags->packing && !packing && flags->samples == "packed")
    return contradict("--packing false");
  if (to_max && flags->samples == "windows") return contradict("--pad-to-max-length");
  return absl::OkStatus();
}

absl::Status TranslateBetas(TrainFlags* flags) {
  if (!flags->adam_beta1 && !flags->adam_beta2) return absl::OkStatus();
  if (flags->betas) {
    return absl::InvalidArgumentError(
        "--betas and --adam_beta1, --adam_beta2 say the same: give one or the other");
  }
  for (const auto& [flag, text] : {std::pair{"--adam_beta1", &flags->adam_beta1},
                                   std::pair{"--adam_beta2", &flags->adam_beta2}}) {
    if (*text) RETURN_IF_ERROR(NumberFlag(flag, **text, 0, 1, false).status());
  }
  flags->betas =
      absl::StrCat(flags->adam_beta1.value_or("0.9"), ",", flags->adam_beta2.value_or("0.999"));
  return absl::OkStatus();
}

absl::Status TranslateEpsilon(TrainFlags* flags) {
  if (!flags->adam_epsilon) return absl::OkStatus();
  if (flags->eps) {
    return absl::InvalidArgumentError("--eps and --adam_epsilon say the same: give one of them");
  }
  if (flags->optimizer == "adafactor") {
    return absl::InvalidArgumentError(
        "--adam_epsilon has no meaning with --optimizer adafactor, for which the Trainer has 1e-30 "
        "whatever it says: leave it out, or say --eps");
  }
  RETURN_IF_ERROR(NumberFlag("--adam_epsilon", *flags->adam_epsilon, 0, 1e30).status());
  flags->eps = flags->adam_epsilon;
  return absl::OkStatus();
}

// Below 1 the Trainer takes --num_train_epochs.
absl::Status TranslateSteps(TrainFlags* flags) {
  int64_t steps = 1;
  if (!flags->max_steps || (absl::SimpleAtoi(*flags->max_steps, &steps) && steps < 1)) {
    return absl::OkStatus();
  }
  if (flags->steps) {
    return absl::InvalidArgumentError("--steps and --max_steps say the same: give one of them");
  }
  flags->steps = flags->max_steps;
  return absl::OkStatus();
}

// Whisper's task is to transcribe, into English too.
absl::Status TranslateTask(TrainFlags* flags) {
  if (flags->task != "translate") return absl::OkStatus();
  if (flags->transcribe_task.value_or("translate") != "translate") {
    return absl::InvalidArgumentError(absl::StrCat("--task translate and --transcribe-task ",
                                                   *flags->transcribe_task,
                                                   " contradict each other"));
  }
  flags->task = ModelTaskName(ModelTask::kTranscribe);
  flags->transcribe_task = "translate";
  return absl::OkStatus();
}

absl::Status TranslateWarmup(TrainFlags* flags) {
  // transformers 5: --warmup_steps below 1 is a ratio.
  double steps_said = 0;
  if (flags->warmup && absl::SimpleAtod(*flags->warmup, &steps_said) && steps_said > 0 &&
      steps_said < 1) {
    flags->warmup_ratio = *std::exchange(flags->warmup, std::nullopt);
  }
  if (!flags->warmup_ratio) return absl::OkStatus();
  ASSIGN_OR_RETURN(const double ratio, NumberFlag("--warmup_ratio", *flags->warmup_ratio, 0, 1));
  if (ratio == 0 || flags->warmup) return absl::OkStatus();  // the Trainer's order, too
  if (!flags->steps) {
    return absl::InvalidArgumentError(
        "a warm-up below 1 (--warmup_ratio) is a part of the run's steps: give --steps "
        "(--max_steps) with it, or --warmup STEPS instead");
  }
  ASSIGN_OR_RETURN(const int64_t steps, IntegerFlag("--steps", *flags->steps, 1, int64_t{1} << 31));
  flags->warmup = absl::StrCat(static_cast<int64_t>(std::ceil(ratio * steps)));
  return absl::OkStatus();
}

struct Advice {
  const char* flag;
  const char* advice;
};

constexpr Advice kAdvice[] = {
    {"--adafactor", "use --optimizer adafactor"},
    {"--auto_find_batch_size", "choose --micro-batch; a size that does not fit ends with exit 3"},
    {"--bf16_full_eval", "evaluation computes in --dtype"},
    {"--config_name", "--model DIR has the config.json"},
    {"--data_seed", "--seed orders the samples, too"},
    {"--dataloader_drop_last", "samples follow each other without an end: leave it out"},
    {"--dataloader_num_workers", "data is read ahead without workers: leave it out"},
    {"--dataloader_pin_memory", "the plan decides what is pinned: leave it out"},
    {"--dataset_name", "--data FILE... takes text and token files"},
    {"--dataset_config_name", "--data FILE... takes text and token files"},
    {"--ddp_find_unused_parameters", "leave it out"},
    {"--ddp_timeout", "use --collective-timeout SECONDS"},
    {"--do_eval", "--eval-data FILE evaluates"},
    {"--do_predict", "spillway predict answers a file, and generate writes a text"},
    {"--do_train", "train always trains: leave it out"},
    {"--eval_on_start", "the first evaluation is before step 1: leave it out"},
    {"--eval_packing", "held-out samples are packed as those of --data are: leave it out"},
    {"--eval_strategy", "--eval-every STEPS says when to evaluate"},
    {"--evaluation_strategy", "--eval-every STEPS says when to evaluate"},
    {"--fp16_full_eval", "evaluation computes in --dtype"},
    {"--fp16_opt_level", "use --dtype fp16"},
    {"--fsdp", "use --shard full (hybrid, gradients, none), and --offload"},
    {"--fsdp_config", "use --shard full (hybrid, gradients, none), and --offload"},
    {"--full_determinism", "runs are deterministic: leave it out"},
    {"--gradient_checkpointing", "the plan decides what is recomputed, or --recompute all"},
    {"--gradient_checkpointing_kwargs", "the plan decides what is recomputed, or --recompute all"},
    {"--greater_is_better", "--metric knows it: leave it out"},
    {"--group_by_length", "--packing fills rows with samples of any length"},
    {"--hub_model_id", "upload OUTPUT/model yourself"},
    {"--line_by_line", "use --samples padded, with one text a line of a .jsonl"},
    {"--load_best_model_at_end", "the last step is exported; --persist DIR keeps commits"},
    {"--load_in_4bit", "use --base-dtype nf4"},
    {"--load_in_8bit", "use --base-dtype int8"},
    {"--local_rank", "the launcher's environment says it: leave it out"},
    {"--log_level", "leave it out"},
    {"--logging_dir", "OUTPUT/metrics.jsonl has every step: leave it out"},
    {"--logging_first_step", "OUTPUT/metrics.jsonl has every step: leave it out"},
    {"--logging_steps", "OUTPUT/metrics.jsonl has every step: leave it out"},
    {"--logging_strategy", "OUTPUT/metrics.jsonl has every step: leave it out"},
    {"--lr_scheduler_kwargs", "a scheduler block in --config has parameters"},
    {"--min_length", "use --min-tokens, which counts what is made"},
    {"--neftune_noise_alpha", "train has none"},
    {"--no_cuda", "use --device cpu"},
    {"--num_labels", "id2label in config.json names the labels"},
    {"--optim_args", "use --betas, --eps, --weight-decay and --momentum"},
    {"--packing_strategy", "samples go where they fit best, whole: leave it out"},
    {"--padding_free", "--packing leaves no padding between samples"},
    {"--per_device_eval_batch_size", "evaluation uses --micro-batch: leave it out"},
    {"--per_gpu_train_batch_size", "use --micro-batch"},
    {"--preprocessing_num_workers", "leave it out"},
    {"--push_to_hub", "upload OUTPUT/model yourself"},
    {"--remove_unused_columns", "leave it out"},
    {"--report_to", "OUTPUT/metrics.jsonl and report.html have it: leave it out"},
    {"--restore_callback_states_from_checkpoint", "use --resume"},
    {"--resume_from_checkpoint", "use --resume, with the run's --output"},
    {"--run_name", "--output DIR names the run"},
    {"--save_on_each_node", "leave it out"},
    {"--save_only_model", "--no-commit keeps nothing to resume from"},
    {"--save_safetensors", "models are written as safetensors: leave it out"},
    {"--save_strategy", "--commit-every STEPS, or --no-commit"},
    {"--skip_memory_metrics", "leave it out"},
    {"--source_lang",
     "--source-key translation.en says where rows have it, and --source-prefix "
     "what the model is told"},
    {"--summary_column", "use --target-key"},
    {"--target_lang", "--target-key translation.de says where rows have it"},
    {"--task_name", "--data FILE... has the rows, and --task classify says what they are for"},
    {"--text_column", "use --source-key"},
    {"--tf32", "leave it out"},
    {"--torch_compile", "leave it out"},
    {"--torch_dtype", "use --dtype"},
    {"--trust_remote_code", "no code of the model's is run: leave it out"},
    {"--use_cpu", "use --device cpu"},
    {"--use_fast_tokenizer", "leave it out"},
    {"--use_flash_attn", "leave it out"},
    {"--validation_split_percentage", "--eval-data FILE takes held-out data"},
};

}  // namespace

const std::vector<FlagAlias>& TrainerFlagAliases() {
  static const std::vector<FlagAlias>& aliases = *new std::vector<FlagAlias>{
      {"--model_name_or_path", "--model"},
      {"--tokenizer_name", "--tokenizer"},
      {"--train_file", "--data"},
      {"--validation_file", "--eval-data"},
      {"--train_dir", "--data"},
      {"--validation_dir", "--eval-data"},
      {"--text_column_name", "--text-keys"},
      {"--text_column_names", "--text-keys"},
      {"--text-key", "--text-keys"},
      {"--label_column_name", "--label-key"},
      {"--output_dir", "--output"},
      {"--deepspeed", "--config"},
      {"--block_size", "--seq-len"},
      {"--max-length", "--seq-len"},
      {"--max_seq_length", "--seq-len"},
      {"--mlm_probability", "--mask-probability"},
      {"--source_prefix", "--source-prefix"},
      {"--audio_column_name", "--source-key"},
      {"--max_source_length", "--max-source-length"},
      {"--max_target_length", "--max-target-length"},
      {"--num_train_epochs", "--epochs"},
      {"--per_device_train_batch_size", "--micro-batch"},
      {"--gradient_accumulation_steps", "--accumulate"},
      {"--learning_rate", "--lr"},
      {"--weight_decay", "--weight-decay"},
      {"--max_grad_norm", "--clip"},
      {"--label_smoothing_factor", "--label-smoothing"},
      {"--warmup_steps", "--warmup"},
      {"--lr_scheduler_type", "--schedule"},
      {"--optim", "--optimizer"},
      {"--save_steps", "--commit-every"},
      {"--save_total_limit", "--keep"},
      {"--eval_steps", "--eval-every"},
      {"--metric_for_best_model", "--metric"},
      {"--generation_num_beams", "--num-beams"},
  };
  return aliases;
}

absl::StatusOr<bool> SwitchFlag(absl::string_view flag, const Text& text) {
  if (!text) return false;
  if (text->empty()) return true;
  const std::optional<bool> value = AsBoolean(*text);
  if (!value) return BadFlagValue(flag, *text, "true or false");
  return *value;
}

absl::Status TranslateTrainerFlags(TrainFlags* flags) {
  RETURN_IF_ERROR(TranslatePrecision(flags));
  RETURN_IF_ERROR(TranslatePacking(flags));
  RETURN_IF_ERROR(TranslateBetas(flags));
  RETURN_IF_ERROR(TranslateEpsilon(flags));
  ASSIGN_OR_RETURN(const bool overwrite,
                   SwitchFlag("--overwrite_output_dir", flags->overwrite_output_dir));
  flags->overwrite |= overwrite;
  RETURN_IF_ERROR(TranslateSteps(flags));
  RETURN_IF_ERROR(TranslateTask(flags));
  return TranslateWarmup(flags);
}

std::string TrainerFlagAdvice(absl::string_view flag) {
  std::string name(flag);
  std::replace(name.begin() + std::min<size_t>(2, name.size()), name.end(), '-', '_');
  for (const Advice& advice : kAdvice) {
    if (name == advice.flag) return advice.advice;
  }
  return "";
}

std::vector<std::string> TrainerFlagsWithAdvice() {
  std::vector<std::string> flags;
  for (const Advice& advice : kAdvice) flags.emplace_back(advice.flag);
  return flags;
}

}  // namespace spillway
