#include "engine/config/trainer_flags.h"

#include <cmath>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "engine/base/flag_value.h"
#include "engine/base/strict_json.h"
#include "engine/config/deepspeed_values.h"
#include "engine/families/model_task.h"
#include "io/base/status.h"

namespace spillway {
namespace {

using Text = TrainFlags::Text;

void WithoutEffect(TrainFlags* flags, absl::string_view name, const Text& value) {
  flags->without_effect.push_back(absl::StrCat(name, " ", value.value_or("")));
}

absl::Status Refused(absl::string_view name, const Text& value, absl::string_view advice) {
  return absl::InvalidArgumentError(absl::StrCat(name, " ", value.value_or(""), ": ", advice));
}

absl::Status TranslatePrecision(TrainFlags* flags) {
  ASSIGN_OR_RETURN(const bool bf16, SwitchFlag("--bf16", flags->bf16));
  ASSIGN_OR_RETURN(const bool fp16, SwitchFlag("--fp16", flags->fp16));
  if (bf16 && fp16) {
    return absl::InvalidArgumentError("--bf16 and --fp16 contradict each other: give one");
  }
  // Hugging Face's names say in what weights are loaded; masters are fp32 here, and --bf16 and
  // --fp16 decide in what is computed.
  for (const auto& [theirs, ours] : {std::pair{"float32", "fp32"}, std::pair{"bfloat16", "bf16"},
                                     std::pair{"float16", "fp16"}, std::pair{"auto", ""}}) {
    if (flags->dtype != theirs) continue;
    if (bf16 || fp16 || *ours == '\0') {
      WithoutEffect(flags, "--dtype", flags->dtype);
      flags->dtype.reset();
    } else {
      flags->dtype = ours;
    }
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
  if (ratio == 0 || flags->warmup) {  // the Trainer's order, too
    flags->warmup_ratio.reset();
    return absl::OkStatus();
  }
  if (!flags->steps) return absl::OkStatus();
  ASSIGN_OR_RETURN(const int64_t steps, IntegerFlag("--steps", *flags->steps, 1, int64_t{1} << 31));
  flags->warmup = absl::StrCat(static_cast<int64_t>(std::ceil(ratio * steps)));
  flags->warmup_ratio.reset();
  return absl::OkStatus();
}

// The Trainer spares norms and biases; DeepSpeed's optimizers, which are told of nothing, do not.
absl::Status TranslateWeightDecay(TrainFlags* flags) {
  if (!flags->trainer_weight_decay) return absl::OkStatus();
  if (flags->weight_decay) {
    return absl::InvalidArgumentError(
        "--weight-decay and --weight_decay, the Trainer's, say the same: give one of them");
  }
  flags->weight_decay = flags->trainer_weight_decay;
  return absl::OkStatus();
}

absl::Status TranslateSchedule(TrainFlags* flags) {
  if (!flags->schedule || !flags->lr_scheduler_type) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "--schedule and --lr_scheduler_type say the same: give one of them");
}

absl::Status TranslateSampling(TrainFlags* flags) {
  const Text& strategy = flags->train_sampling_strategy;
  if (!strategy) return absl::OkStatus();
  if (strategy == "group_by_length") {
    return Refused("--train_sampling_strategy", strategy,
                   "--packing fills rows with samples of any length");
  }
  if (strategy != "random" && strategy != "sequential") {
    return BadFlagValue("--train_sampling_strategy", *strategy, "random, sequential");
  }
  const std::string order = strategy == "random" ? "shuffle" : "sequential";
  if (flags->order.value_or(order) != order) {
    return absl::InvalidArgumentError(absl::StrCat("--train_sampling_strategy ", *strategy,
                                                   " and --order ", *flags->order,
                                                   " contradict each other"));
  }
  flags->order = order;
  return absl::OkStatus();
}

// "momentum=0.9,nesterov=True"
absl::Status TranslateOptimizerArguments(TrainFlags* flags) {
  const Text& all = flags->optim_args;
  if (!all || all->empty() || absl::EqualsIgnoreCase(*all, "none")) return absl::OkStatus();
  if (flags->optimizer.value_or("adamw") != "sgd") {
    return Refused("--optim_args", all,
                   "of the optimizers here the Trainer gives sgd alone arguments: use --betas, "
                   "--eps and --weight_decay");
  }
  for (const absl::string_view one : absl::StrSplit(absl::StrReplaceAll(*all, {{" ", ""}}), ',')) {
    const std::vector<std::string> pair = absl::StrSplit(one, absl::MaxSplits('=', 1));
    const auto is = [&](const char* name) { return pair.size() == 2 && pair[0] == name; };
    if (is("momentum")) {
      flags->momentum = pair[1];
    } else if (is("dampening")) {
      flags->dampening = pair[1];
    } else if (is("nesterov")) {
      flags->nesterov = AsBoolean(pair[1]) == true || pair[1] == "yes" ? "true" : "false";
    } else if (is("weight_decay")) {
      WithoutEffect(flags, "--optim_args",
                    std::string(one));  // the Trainer's groups have their own
    } else {
      return BadFlagValue("--optim_args", one, "momentum=N, dampening=N, nesterov=True");
    }
  }
  return absl::OkStatus();
}

absl::Status TranslateEvaluation(TrainFlags* flags) {
  ASSIGN_OR_RETURN(const bool evaluate, SwitchFlag("--do_eval", flags->do_eval));
  if (flags->do_eval) {
    if (evaluate && flags->eval_data.empty()) {
      return absl::InvalidArgumentError(
          "--do_eval: held-out data is a file of its own: give --eval-data FILE "
          "(--validation_file)");
    }
    flags->without_effect.push_back("--do_eval");
  }
  const Text strategy = flags->eval_strategy;
  if (flags->logging_steps && (strategy != "steps" || flags->eval_every)) {
    WithoutEffect(flags, "--logging_steps", flags->logging_steps);
  }
  if (!strategy) return absl::OkStatus();
  if (strategy == "steps") {
    if (!flags->eval_every) flags->eval_every = flags->logging_steps.value_or("500");
    return absl::OkStatus();
  }
  if (strategy != "epoch" && strategy != "no") {
    return BadFlagValue("--eval_strategy", *strategy, "steps, epoch or no");
  }
  if (flags->eval_every) WithoutEffect(flags, "--eval_steps", flags->eval_every);
  flags->eval_every.reset();
  if (strategy == "epoch") flags->eval_every = "epoch";
  return absl::OkStatus();
}

absl::Status TranslateCommits(TrainFlags* flags) {
  const Text strategy = flags->save_strategy;
  if (strategy == "no") {
    if (flags->commit_every) WithoutEffect(flags, "--save_steps", flags->commit_every);
    flags->commit_every = "0";
  } else if (strategy == "epoch" || (strategy == "steps" && !flags->commit_every)) {
    WithoutEffect(flags, "--save_strategy", strategy);
  } else if (strategy == "best") {
    return Refused("--save_strategy", strategy,
                   "the last commit is kept, and the last step exported: leave it out");
  } else if (strategy && strategy != "steps") {
    return BadFlagValue("--save_strategy", *strategy, "steps, epoch or no");
  }
  if (flags->save_total_limit) {
    if (flags->persist && !flags->keep) {
      flags->keep = flags->save_total_limit;
    } else {
      WithoutEffect(flags, "--save_total_limit", flags->save_total_limit);
    }
  }
  return absl::OkStatus();
}

absl::Status TranslateResume(TrainFlags* flags) {
  const Text& from = flags->resume_from_checkpoint;
  if (!from) return absl::OkStatus();
  const std::optional<bool> resume = AsBoolean(*from);
  if (resume == true || from == "last" || from == flags->output) {
    flags->resume = true;
  } else if (resume == false || from == "None" || from == "none") {
    WithoutEffect(flags, "--resume_from_checkpoint", from);
  } else {
    return Refused("--resume_from_checkpoint", from,
                   "use --resume, which continues from the last commit in --output; weights of "
                   "another program's checkpoint are a --model to begin with");
  }
  return absl::OkStatus();
}

absl::Status TranslateReport(TrainFlags* flags) {
  const std::vector<std::string> to =
      absl::StrSplit(flags->report_to.value_or(""), ',', absl::SkipEmpty());
  bool tensorboard = false;
  for (const std::string& each : to) {
    if (each == "tensorboard" || each == "all") {
      tensorboard = true;
    } else {
      WithoutEffect(flags, "--report_to", each);
    }
  }
  if (tensorboard && !flags->tensorboard) {
    flags->tensorboard =
        flags->logging_dir.value_or(absl::StrCat(flags->output.value_or(""), "/runs"));
  } else if (flags->logging_dir) {
    WithoutEffect(flags, "--logging_dir", flags->logging_dir);
  }
  return absl::OkStatus();
}

absl::Status TranslateSplit(TrainFlags* flags) {
  const Text& split = flags->validation_split;
  double part = 0;
  if (!split) return absl::OkStatus();
  if (flags->eval_data.empty() && !(absl::SimpleAtod(*split, &part) && part == 0)) {
    return Refused("--validation_split_percentage", split,
                   "data is not split here: put held-out rows into a file of their own (head and "
                   "tail divide a .jsonl), and give --eval-data FILE");
  }
  WithoutEffect(flags, "--validation_split_percentage", split);
  return absl::OkStatus();
}

// TRL's LoRA, with TRL's defaults.
absl::Status TranslatePeft(TrainFlags* flags) {
  ASSIGN_OR_RETURN(const bool use, SwitchFlag("--use_peft", flags->use_peft));
  if (!flags->use_peft || flags->adapter || flags->peft_config) return absl::OkStatus();
  if (use) {
    if (!flags->lora_r) flags->lora_r = "16";
    if (!flags->lora_alpha) flags->lora_alpha = "32";
    if (!flags->lora_dropout) flags->lora_dropout = "0.05";
    return absl::OkStatus();
  }
  const std::pair<const char*, Text*> all[] = {
      {"--lora-r", &flags->lora_r},
      {"--lora-alpha", &flags->lora_alpha},
      {"--lora-dropout", &flags->lora_dropout},
      {"--lora-targets", &flags->lora_targets},
      {"--use-rslora", &flags->use_rslora},
      {"--modules-to-save", &flags->modules_to_save},
  };
  for (const auto& [name, value] : all) {
    if (*value) WithoutEffect(flags, name, *value);
    value->reset();
  }
  return absl::OkStatus();
}

absl::Status TranslateDataSeed(TrainFlags* flags) {
  if (!flags->data_seed) return absl::OkStatus();
  if (flags->data_seed != flags->seed.value_or("42")) {
    return Refused("--data_seed", flags->data_seed,
                   "one seed decides the order of samples and all else: give it as --seed");
  }
  WithoutEffect(flags, "--data_seed", flags->data_seed);
  return absl::OkStatus();
}

// run_translation.py's rows: {"translation": {"en": ..., "de": ...}}; en_XX is en.
absl::Status TranslateLanguages(TrainFlags* flags) {
  for (const auto& [language, key] : {std::pair{&flags->source_lang, &flags->source_key},
                                      std::pair{&flags->target_lang, &flags->target_key}}) {
    if (!*language || *key) continue;
    *key = absl::StrCat("translation.", (*language)->substr(0, (*language)->find('_')));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<bool> SwitchFlag(absl::string_view flag, const Text& text) {
  if (!text) return false;
  if (text->empty()) return true;
  const std::optional<bool> value = AsBoolean(*text);
  if (!value) return BadFlagValue(flag, *text, "true or false");
  return *value;
}

std::vector<absl::Status> TranslateTrainerFlags(TrainFlags* flags) {
  std::vector<absl::Status> errors;
  for (const std::string& refused : flags->refused) {
    errors.push_back(absl::InvalidArgumentError(refused));
  }
  const auto overwrite = SwitchFlag("--overwrite_output_dir", flags->overwrite_output_dir);
  flags->overwrite |= overwrite.value_or(false);
  if (!overwrite.ok()) errors.push_back(overwrite.status());
  for (const auto translate :
       {TranslatePrecision, TranslatePacking, TranslateBetas, TranslateEpsilon,
        TranslateWeightDecay, TranslateSchedule, TranslateSampling, TranslateOptimizerArguments,
        TranslateSteps, TranslateTask, TranslateWarmup, TranslateEvaluation, TranslateCommits,
        TranslateResume, TranslateReport, TranslateSplit, TranslatePeft, TranslateDataSeed,
        TranslateLanguages}) {
    if (absl::Status status = translate(flags); !status.ok()) errors.push_back(std::move(status));
  }
  return errors;
}

}  // namespace spillway
