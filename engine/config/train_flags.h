// The flags of train, as given.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace spillway {

// Flags as given, unparsed; the field's name is the flag's, with '_' for '-'.
struct TrainFlags {
  using Text = std::optional<std::string>;
  Text model, task, output, config, tokenizer;
  std::vector<std::string> data, eval_data;
  Text text_keys, label_key, mask_probability;
  Text source_key, target_key, source_prefix, max_source_length, max_target_length;
  Text language, transcribe_task;
  Text augment, picture_size;
  Text seq_len, micro_batch, accumulate, steps, epochs, seed, order, samples;
  Text dtype, compute, optimizer, moments, master, lr, betas, eps, trust_ratio, decay_rate,
      clip_threshold, scale_parameter, weight_decay, decay, momentum, clip, label_smoothing, warmup,
      schedule, freeze, train_only, base_dtype;
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
  // Hugging Face's, which train says otherwise (engine/config/trainer_flags.h). The
  // switches are empty where they stand alone.
  Text bf16, fp16, adam_beta1, adam_beta2, adam_epsilon, max_steps, warmup_ratio,
      overwrite_output_dir;
  Text packing, pad_to_max_length;
};

}  // namespace spillway
