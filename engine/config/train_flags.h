// The flags of train, as given.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"

namespace spillway {

// Flags as given, unparsed; the field's name is the flag's, with '_' for '-'.
struct TrainFlags {
  using Text = std::optional<std::string>;
  Text model, task, ignore_mismatched_sizes, output, config, tokenizer, eos_token;
  std::vector<std::string> data, eval_data;
  Text text_keys, label_key, mask_probability;
  Text doc_stride, max_answer_length, null_score_threshold;
  Text source_key, target_key, source_prefix, max_source_length, max_target_length;
  Text language, transcribe_task;
  Text augment, picture_size;
  Text seq_len, micro_batch, accumulate, steps, epochs, seed, order, samples, chat_date;
  Text dtype, compute, optimizer, moments, master, lr, betas, eps, trust_ratio, decay_rate,
      clip_threshold, scale_parameter, weight_decay, decay, momentum, clip, label_smoothing, warmup,
      schedule, schedule_args, freeze, train_only, base_dtype;
  Text lora_r, lora_alpha, lora_dropout, lora_targets, use_rslora, lora_bias, modules_to_save,
      layers_to_transform, peft_config, adapter;
  Text device, threads, device_memory, host_memory;
  Text swap, offload, offload_param, offload_optimizer, offload_activations;
  Text update, update_device, recompute, io_engine;
  Text commit_every, persist, keep, allow_change;
  Text eval_every, metric, tensorboard, export_dtype;
  Text predict_with_generate, num_beams, length_penalty, min_tokens, no_repeat_ngram,
      generation_max_length;
  Text sample_prompts, sample_tokens;
  Text ranks, shard, shard_group_size, collective_timeout, communication_dtype, hostfile;
  Text trace, trace_steps, max_bytes_written, drive_writes_per_day;
  bool no_commit = false;
  bool resume = false;
  bool overwrite = false;
  bool no_export = false;
  bool launch = false;
  bool explain = false;
  bool download = false;
  Text pad_to_max_length;

  // Other programs' flags that need more than another name (engine/config/other_flags.h), as given;
  // TranslateTrainerFlags says them in those above. A switch is "true", "false" or what was given.
  Text lr_scheduler_type, optim_args, trainer_weight_decay, dampening, nesterov,
      train_sampling_strategy;
  Text bf16, fp16, adam_beta1, adam_beta2, adam_epsilon, max_steps, warmup_ratio,
      overwrite_output_dir, packing, use_peft, do_eval, eval_strategy, logging_steps, save_strategy,
      save_total_limit, report_to, logging_dir, validation_split, data_seed, resume_from_checkpoint,
      source_lang, target_lang;
  // Other programs' flags on the command line that change nothing here, and those that are refused.
  std::vector<std::string> without_effect, refused;

  // Read by TakeConfigFile (engine/config/recipe.h): the text of the file that --config named
  // on the command line and, if it was a recipe, that file's path. `config` is then the DeepSpeed
  // file that the recipe names, if any.
  Text config_text, recipe;
  std::map<std::string, std::string> places;  // by flag ("--lr"): where a recipe says it
  struct Said {
    std::string name;      // "lr"
    nlohmann::json value;  // as text
    std::string where;
  };
  // A recipe's settings that flags replace; and the values that an earlier run's settings had, from
  // its config.resolved.json.
  std::vector<Said> overridden, expected;
};

}  // namespace spillway
