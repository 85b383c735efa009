// A DeepSpeed JSON file, read: what of it Spillway honours, typed and with lines, and
// what it leaves to the plan. Every key that DeepSpeed knows is in one table
// (engine/config/deepspeed_keys.h); any other is an error, or at the top a warning.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/config/setting.h"
#include "engine/numeric/lr_schedule.h"
#include "engine/options/train_options.h"

namespace spillway {

struct DeepSpeedConfig {
  std::string file;

  Setting<int64_t> train_batch_size, micro_batch, accumulate;

  bool has_optimizer = false;
  Setting<OptimizerSpec::Kind> optimizer;  // adam_w_mode is taken into account
  Setting<double> lr, eps, weight_decay, momentum, dampening;
  Setting<std::array<double, 2>> betas;
  Setting<bool> nesterov, bias_correction;
  Setting<double> least_trust_ratio, most_trust_ratio;
  // What the type says, where it is OneBitAdam or ZeroOneAdam: of no other optimizer.
  struct OneBit {
    OptimizerSpec::SecondMoments second_moments;
    Setting<double> weight_decay;
    Setting<bool> bias_correction;
    std::string note;
  };
  std::optional<OneBit> one_bit;

  Setting<ScheduleSpec::Kind> schedule;
  Setting<double> warmup_min_lr, warmup_max_lr, warmup_min_ratio, cos_min_ratio;
  Setting<int64_t> warmup_num_steps, total_num_steps;
  Setting<ScheduleSpec::WarmupType> warmup_type;
  struct RangeTest {  // of LRRangeTest
    Setting<double> min_lr, step_rate;
    Setting<int64_t> step_size;
    Setting<bool> staircase;
  };
  RangeTest range_test;
  struct OneCycle {
    Setting<double> min_lr, max_lr, decay_rate, min_beta1, max_beta1;
    Setting<int64_t> first_steps, second_steps, first_stairs, second_stairs, decay_steps;
    Setting<bool> moves_betas;  // cycle_momentum
  };
  OneCycle one_cycle;

  Setting<double> gradient_clipping;

  Setting<bool> bf16, fp16;
  Setting<OptimizerSpec::Masters> masters;  // bf16_master_weights_and_grads
  Setting<MomentFormat> moments;            // bf16_optimizer_states
  Setting<double> loss_scale, min_loss_scale;
  Setting<int64_t> initial_scale_power, loss_scale_window, hysteresis;
  Setting<bool> consecutive_hysteresis;

  Setting<Shard> shard;  // zero_optimization.stage
  Setting<ExchangeFormat> communication_format;

  Setting<Offload> offload_param, offload_optimizer;
  Setting<std::string> param_nvme_path, optimizer_nvme_path;

  Setting<std::string> tensorboard;  // the folder that its block means, where that is enabled

  Setting<int64_t> aio_block_size, aio_queue_depth, aio_threads;

  // Keys that only tune DeepSpeed's own machinery, which the plan decides here, and keys
  // without any effect here, as "zero_optimization.sub_group_size" and "steps_per_print".
  std::vector<std::string> decided_by_plan;
  std::vector<std::string> without_effect;
  std::vector<std::string> notes;
  std::vector<std::string> warnings;
};

// kInvalidArgument, "FILE:LINE: ...", for what the file gets wrong and for what would
// change the result and is not supported.
absl::StatusOr<DeepSpeedConfig> ReadDeepSpeedConfig(absl::string_view path);
absl::StatusOr<DeepSpeedConfig> ParseDeepSpeedConfig(absl::string_view text,
                                                     absl::string_view file);

}  // namespace spillway
