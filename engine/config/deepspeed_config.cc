#include "engine/config/deepspeed_config.h"

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/config/deepspeed_keys.h"
#include "engine/config/deepspeed_reader.h"
#include "io/base/status.h"

namespace spillway {
namespace {

using nlohmann::json;

// Reads the blocks of a document whose keys are known, in the order of the file's format.
class BlockReader {
 public:
  BlockReader(const JsonDocument& document, DeepSpeedConfig* config)
      : in_(document), config_(*config) {}

  // Of optimizer and scheduler: before the keys are looked at, because another type's
  // parameters would only be told to be unknown.
  absl::Status ReadTypes() {
    ReadOptimizerType();
    ReadSchedulerType();
    return in_.status();
  }

  absl::Status ReadRest() {
    ReadBatch();
    ReadOptimizer();
    ReadScheduler();
    in_.Number("/gradient_clipping", 0, kHuge, &config_.gradient_clipping);
    ReadPrecision();
    // Older files write bf16 as DeepSpeed did, bfp16.
    in_.Choice<ExchangeFormat>("/communication_data_type",
                               {{"fp32", ExchangeFormat::kFloat32},
                                {"bf16", ExchangeFormat::kBFloat16},
                                {"bfp16", ExchangeFormat::kBFloat16}},
                               &config_.communication_format,
                               " (fp16 would overflow where sums do not)");
    ReadZero();
    ReadAio("/zero_optimization/aio");
    ReadAio("/aio");
    ReadTensorBoard();
    return in_.status();
  }

 private:
  static constexpr int64_t kMost = DeepSpeedReader::kMost;
  static constexpr double kHuge = DeepSpeedReader::kHuge;

  void ReadBatch() {
    in_.Integer("/train_batch_size", 1, kMost, &config_.train_batch_size);
    in_.Integer("/train_micro_batch_size_per_gpu", 1, kMost, &config_.micro_batch);
    in_.Integer("/gradient_accumulation_steps", 1, kMost, &config_.accumulate);
  }

  bool IsBlock(const std::string& pointer) const {
    const json* value = in_.Find(pointer);
    return value != nullptr && value->is_object();
  }

  void ReadOptimizerType() {
    using Kind = OptimizerSpec::Kind;
    config_.has_optimizer = IsBlock("/optimizer");
    in_.Choice<Kind>("/optimizer/type",
                     {{"AdamW", Kind::kAdamW},
                      {"Adam", Kind::kAdam},
                      {"SGD", Kind::kSgd},
                      {"Lion", Kind::kLion},
                      {"Lamb", Kind::kLamb},
                      {"OneBitAdam", Kind::kAdamW},
                      {"ZeroOneAdam", Kind::kAdamW}},
                     &config_.optimizer, " (no other optimizer is supported)");
    if (config_.has_optimizer && !config_.optimizer.given()) {
      in_.Refuse(in_.Where("/optimizer"),
                 "'optimizer' has no 'type': AdamW, Adam, SGD, Lion, Lamb, OneBitAdam or "
                 "ZeroOneAdam");
    }
  }

  void ReadOptimizer() {
    using Kind = OptimizerSpec::Kind;
    const std::string params = "/optimizer/params";
    in_.Number(params + "/lr", 0, kHuge, &config_.lr);
    in_.Number(params + "/eps", 0, kHuge, &config_.eps);
    in_.Number(params + "/weight_decay", 0, kMostWeightDecay, &config_.weight_decay);
    in_.Number(params + "/momentum", 0, kHuge, &config_.momentum);
    in_.Number(params + "/dampening", 0, kHuge, &config_.dampening);
    in_.Boolean(params + "/nesterov", &config_.nesterov);
    in_.Boolean(params + "/bias_correction", &config_.bias_correction);
    in_.Betas(params + "/betas", &config_.betas);
    // DeepSpeed makes AdamW of "Adam" unless told otherwise.
    Setting<bool> adam_w_mode;
    in_.Boolean(params + "/adam_w_mode", &adam_w_mode);
    const bool is_adam = config_.optimizer.value == Kind::kAdam;
    const bool is_sgd = config_.optimizer.value == Kind::kSgd;
    if (is_adam && adam_w_mode.value.value_or(true)) {
      config_.optimizer.value = Kind::kAdamW;
      config_.notes.push_back(
          absl::StrCat(config_.optimizer.where,
                       ": \"Adam\" is AdamW (decoupled weight decay), as in DeepSpeed; ",
                       "\"adam_w_mode\": false makes it Adam"));
    } else if (config_.optimizer.value == Kind::kAdamW && !adam_w_mode.value.value_or(true)) {
      // DeepSpeed: the type AdamW always is AdamW.
      config_.notes.push_back(
          absl::StrCat(adam_w_mode.where, ": 'adam_w_mode' has no effect on AdamW"));
    }
    ReadSecondMoments(params);
    in_.Number(params + "/min_coeff", 0, kHuge, &config_.least_trust_ratio);
    in_.Number(params + "/max_coeff", 0, kHuge, &config_.most_trust_ratio);
    if (config_.optimizer.value != Kind::kLamb) {
      Misplaced(config_.least_trust_ratio, "this optimizer");
      Misplaced(config_.most_trust_ratio, "this optimizer");
    }
    if (config_.optimizer.value == Kind::kLion) {
      Misplaced(config_.eps, "Lion");
      Misplaced(config_.bias_correction, "Lion");
      Misplaced(adam_w_mode, "Lion");
      MisplacedOfSgd("Lion");
    } else if (is_sgd) {
      Misplaced(config_.betas, "SGD");
      Misplaced(config_.eps, "SGD");
      Misplaced(config_.bias_correction, "SGD");
      Misplaced(adam_w_mode, "SGD");
    } else {
      MisplacedOfSgd(config_.optimizer.value == Kind::kLamb ? "Lamb" : "Adam");
    }
  }

  // 1-bit and 0/1 Adam: what of them changes the numbers on one rank. What they send in one bit is
  // sent whole here.
  void ReadSecondMoments(const std::string& params) {
    const json* const type = in_.Find("/optimizer/type");
    const std::string name = type != nullptr && type->is_string() ? type->get<std::string>() : "";
    const bool one_bit = absl::EqualsIgnoreCase(name, "OneBitAdam");
    const bool zero_one = absl::EqualsIgnoreCase(name, "ZeroOneAdam");
    // With DeepSpeed's defaults.
    Setting<int64_t> freeze_step, var_freeze_step, var_update_scaler;
    in_.Integer(params + "/freeze_step", 1, kMost, &freeze_step);
    in_.Integer(params + "/var_freeze_step", 1, kMost, &var_freeze_step);
    in_.Integer(params + "/var_update_scaler", 1, kMost, &var_update_scaler);
    if (!one_bit) Misplaced(freeze_step, "this optimizer");
    if (!zero_one) {
      Misplaced(var_freeze_step, "this optimizer");
      Misplaced(var_update_scaler, "this optimizer");
    }
    if (!one_bit && !zero_one) return;
    DeepSpeedConfig::OneBit& implied = config_.one_bit.emplace();
    implied.second_moments.last_step =
        one_bit ? freeze_step.value.value_or(100000) : var_freeze_step.value.value_or(100000) + 1;
    if (zero_one) implied.second_moments.moves_per_doubling = var_update_scaler.value.value_or(16);
    // Whatever the file says of bias_correction, as in DeepSpeed; and they don't decay by default.
    implied.bias_correction = {false, "optimizer.type", config_.optimizer.where};
    implied.weight_decay = config_.weight_decay;
    if (!implied.weight_decay.given()) {
      implied.weight_decay = {0.0, "optimizer.type", config_.optimizer.where};
    }
    implied.note = absl::StrCat(
        config_.optimizer.where, ": \"", name, "\" is AdamW without bias correction whose second ",
        "moments ", zero_one ? "move ever more seldom and " : "", "stand still after step ",
        implied.second_moments.last_step,
        ", as there; ranks sum gradients in every step and whole, ",
        "not in one bit (--communication-dtype fp8 sends a quarter of fp32's bytes)");
  }

  void MisplacedOfSgd(absl::string_view optimizer) {
    Misplaced(config_.momentum, optimizer);
    Misplaced(config_.dampening, optimizer);
    Misplaced(config_.nesterov, optimizer);
  }

  template <typename T>
  void Misplaced(const Setting<T>& setting, absl::string_view optimizer) {
    if (!setting.given()) return;
    in_.Refuse(setting.where,
               absl::StrCat("'", setting.key, "' is not a parameter of ", optimizer));
  }

  void ReadSchedulerType() {
    using Kind = ScheduleSpec::Kind;
    in_.Choice<Kind>("/scheduler/type",
                     {{"WarmupLR", Kind::kWarmupLr},
                      {"WarmupDecayLR", Kind::kWarmupDecayLr},
                      {"WarmupCosineLR", Kind::kWarmupCosineLr},
                      {"LRRangeTest", Kind::kLrRangeTest},
                      {"OneCycle", Kind::kOneCycle}},
                     &config_.schedule, " (no other scheduler is supported)");
    if (IsBlock("/scheduler") && !config_.schedule.given()) {
      in_.Refuse(in_.Where("/scheduler"),
                 "'scheduler' has no 'type': WarmupLR, WarmupDecayLR, WarmupCosineLR, LRRangeTest "
                 "or OneCycle");
    }
  }

  void ReadScheduler() {
    using Kind = ScheduleSpec::Kind;
    using Warmup = ScheduleSpec::WarmupType;
    const std::string params = "/scheduler/params";
    in_.Number(params + "/warmup_min_lr", 0, kHuge, &config_.warmup_min_lr);
    in_.Number(params + "/warmup_max_lr", 0, kHuge, &config_.warmup_max_lr);
    in_.Number(params + "/warmup_min_ratio", 0, kHuge, &config_.warmup_min_ratio);
    in_.Number(params + "/cos_min_ratio", 0, kHuge, &config_.cos_min_ratio);
    in_.Integer(params + "/warmup_num_steps", 0, kMost, &config_.warmup_num_steps);
    in_.Integer(params + "/total_num_steps", 1, kMost, &config_.total_num_steps);
    in_.Choice<Warmup>(params + "/warmup_type",
                       {{"log", Warmup::kLog}, {"linear", Warmup::kLinear}}, &config_.warmup_type);
    ReadRangeTest(params);
    ReadOneCycle(params);
    const auto of = [&](std::initializer_list<Kind> kinds, const auto&... settings) {
      const Kind kind = config_.schedule.value.value_or(Kind::kWarmupLr);
      if (std::find(kinds.begin(), kinds.end(), kind) != kinds.end()) return;
      (Misplaced(settings, ScheduleName(kind)), ...);
    };
    of({Kind::kWarmupLr, Kind::kWarmupDecayLr, Kind::kWarmupCosineLr}, config_.warmup_num_steps,
       config_.warmup_type);
    of({Kind::kWarmupLr, Kind::kWarmupDecayLr}, config_.warmup_min_lr, config_.warmup_max_lr);
    of({Kind::kWarmupCosineLr}, config_.warmup_min_ratio, config_.cos_min_ratio);
    of({Kind::kWarmupDecayLr, Kind::kWarmupCosineLr}, config_.total_num_steps);
    const DeepSpeedConfig::RangeTest& test = config_.range_test;
    of({Kind::kLrRangeTest}, test.min_lr, test.step_size, test.step_rate, test.staircase);
    const DeepSpeedConfig::OneCycle& cycle = config_.one_cycle;
    of({Kind::kOneCycle}, cycle.min_lr, cycle.max_lr, cycle.first_steps, cycle.second_steps,
       cycle.first_stairs, cycle.second_stairs, cycle.decay_rate, cycle.decay_steps,
       cycle.moves_betas, cycle.min_beta1, cycle.max_beta1);
    if (config_.schedule.value == Kind::kOneCycle && !(cycle.min_lr.value && cycle.max_lr.value)) {
      in_.Refuse(config_.schedule.where,
                 "the scheduler OneCycle needs 'cycle_min_lr' and 'cycle_max_lr'");
    }
  }

  void ReadRangeTest(const std::string& params) {
    DeepSpeedConfig::RangeTest& test = config_.range_test;
    in_.Number(params + "/lr_range_test_min_lr", 0, kHuge, &test.min_lr);
    in_.Integer(params + "/lr_range_test_step_size", 1, kMost, &test.step_size);
    in_.Number(params + "/lr_range_test_step_rate", 0, kHuge, &test.step_rate);
    in_.Boolean(params + "/lr_range_test_staircase", &test.staircase);
  }

  void ReadOneCycle(const std::string& params) {
    DeepSpeedConfig::OneCycle& cycle = config_.one_cycle;
    in_.Number(params + "/cycle_min_lr", 0, kHuge, &cycle.min_lr);
    in_.Number(params + "/cycle_max_lr", 0, kHuge, &cycle.max_lr);
    in_.Integer(params + "/cycle_first_step_size", 1, kMost, &cycle.first_steps);
    in_.Integer(params + "/cycle_second_step_size", 0, kMost, &cycle.second_steps);
    in_.Integer(params + "/cycle_first_stair_count", 0, kMost, &cycle.first_stairs);
    in_.Integer(params + "/cycle_second_stair_count", 0, kMost, &cycle.second_stairs);
    in_.Integer(params + "/decay_step_size", 0, kMost, &cycle.decay_steps);
    in_.Number(params + "/decay_lr_rate", 0, kHuge, &cycle.decay_rate);
    in_.Boolean(params + "/cycle_momentum", &cycle.moves_betas);
    in_.Number(params + "/cycle_min_mom", 0, 1, &cycle.min_beta1);
    in_.Number(params + "/cycle_max_mom", 0, 1, &cycle.max_beta1);
    for (const Setting<double>& beta : {cycle.min_beta1, cycle.max_beta1}) {
      if (beta.value == 1) in_.Refuse(beta.where, absl::StrCat("'", beta.key, "' must be below 1"));
    }
  }

  void ReadPrecision() {
    in_.Boolean("/bfloat16/enabled", &config_.bf16);
    if (config_.bf16.given()) {
      config_.notes.push_back(
          absl::StrCat(config_.bf16.where, ": 'bfloat16' is read as 'bf16', its name today"));
    }
    in_.Boolean("/bf16/enabled", &config_.bf16);
    in_.Boolean("/fp16/enabled", &config_.fp16);
    ReadNarrowState();
    ReadAutocast();
    if (config_.bf16.value.value_or(false) && config_.fp16.value.value_or(false)) {
      in_.Refuse(config_.fp16.where,
                 absl::StrCat("'fp16.enabled' and '", config_.bf16.key, "' (", config_.bf16.where,
                              ") contradict each other: enable one"));
    }
    in_.Number("/fp16/loss_scale", 0, kHuge, &config_.loss_scale);
    in_.Number("/fp16/min_loss_scale", 0, kHuge, &config_.min_loss_scale);
    in_.Integer("/fp16/initial_scale_power", 0, 127, &config_.initial_scale_power);
    in_.Integer("/fp16/loss_scale_window", 1, kMost, &config_.loss_scale_window);
    in_.Integer("/fp16/hysteresis", 1, kMost, &config_.hysteresis);
    in_.Boolean("/fp16/consecutive_hysteresis", &config_.consecutive_hysteresis);
  }

  // What DeepSpeed's bf16 block says of the state beside the weights.
  void ReadNarrowState() {
    Setting<bool> no_masters, narrow_moments;
    in_.Boolean("/bf16/bf16_master_weights_and_grads", &no_masters);
    in_.Boolean("/bf16/bf16_optimizer_states", &narrow_moments);
    if (!config_.bf16.value.value_or(config_.bf16.is_auto())) return;
    if (no_masters.value.value_or(false)) {
      config_.masters = {OptimizerSpec::Masters::kNone, no_masters.key, no_masters.where};
    }
    if (narrow_moments.value.value_or(false)) {
      config_.moments = {MomentFormat::kBFloat16, narrow_moments.key, narrow_moments.where};
    }
  }

  // Layers that are computed in the run's dtype anyway; weights stay as exact beside it.
  void ReadAutocast() {
    Setting<bool> enabled;
    Setting<DType> dtype;
    in_.Boolean("/torch_autocast/enabled", &enabled);
    in_.Choice<DType>("/torch_autocast/dtype",
                      {{"bfloat16", DType::kBFloat16},
                       {"float16", DType::kFloat16},
                       {"torch.bfloat16", DType::kBFloat16},
                       {"torch.float16", DType::kFloat16},
                       {"bf16", DType::kBFloat16},
                       {"fp16", DType::kFloat16}},
                      &dtype);
    if (!enabled.value.value_or(false)) return;
    const bool half = dtype.value == DType::kFloat16;
    const bool bf16 = config_.bf16.value.value_or(false), fp16 = config_.fp16.value.value_or(false);
    if (half ? !fp16 : fp16) {
      in_.Refuse(enabled.where,
                 half ? "'torch_autocast' in float16 needs an fp16 block, which scales the loss; "
                        "use that, or bfloat16"
                      : "'torch_autocast' in bfloat16 and 'fp16.enabled' contradict each other: "
                        "enable one");
      return;
    }
    const bool same = half ? fp16 : bf16;
    config_.notes.push_back(absl::StrCat(
        enabled.where, ": 'torch_autocast' ",
        same ? "has no effect: layers are computed in the run's dtype"
             : "is bf16 with exact masters: layers are computed in bf16, and fp32 weights kept"));
    if (!same) config_.bf16 = {true, enabled.key, enabled.where};
  }

  void ReadOffload(const std::string& block, Setting<Offload>* device,
                   Setting<std::string>* nvme_path) {
    in_.Choice<Offload>(
        block + "/device",
        {{"none", Offload::kNone}, {"cpu", Offload::kCpu}, {"nvme", Offload::kNvme}}, device);
    in_.Text(block + "/nvme_path", nvme_path);
    if (nvme_path->value && !device->given()) {
      config_.notes.push_back(absl::StrCat(nvme_path->where, ": '", nvme_path->key,
                                           "' is used where its block says \"device\": \"nvme\""));
    }
  }

  // cpu_offload: true is the old way to write offload_optimizer {device: cpu}.
  void ReadOldOffload(const std::string& pointer, const std::string& now,
                      Setting<Offload>* device) {
    Setting<bool> old;
    in_.Boolean(pointer, &old);
    if (!old.value.value_or(false)) return;
    config_.notes.push_back(
        absl::StrCat(old.where, ": '", old.key, "' is read as '", now, "' with device cpu"));
    if (!device->given()) *device = {Offload::kCpu, old.key, old.where};
  }

  void ReadZero() {
    const std::string zero = "/zero_optimization";
    if (!IsBlock(zero)) {
      const json* value = in_.Find(zero);
      if (value != nullptr && *value == true) {
        config_.shard = {Shard::kOptimizer, DottedKey(zero), in_.Where(zero)};
      }
      return;
    }
    Setting<int64_t> stage;
    in_.Integer(zero + "/stage", 0, 3, &stage);
    config_.shard = {std::nullopt, stage.key, stage.where};
    if (stage.value) config_.shard.value = static_cast<Shard>(*stage.value);
    ReadOffload(zero + "/offload_param", &config_.offload_param, &config_.param_nvme_path);
    ReadOffload(zero + "/offload_optimizer", &config_.offload_optimizer,
                &config_.optimizer_nvme_path);
    ReadOldOffload(zero + "/cpu_offload", "offload_optimizer", &config_.offload_optimizer);
    ReadOldOffload(zero + "/cpu_offload_param", "offload_param", &config_.offload_param);
    ReadOldOffload(zero + "/cpu_offload_params", "offload_param", &config_.offload_param);
    if (in_.Find(zero + "/aio") != nullptr) {
      config_.notes.push_back(absl::StrCat(in_.Where(zero + "/aio"),
                                           ": 'aio' inside 'zero_optimization' is read as if it "
                                           "stood at the top, where DeepSpeed wants it"));
    }
  }

  // DeepSpeed's TensorBoardMonitor writes to output_path/job_name.
  void ReadTensorBoard() {
    Setting<bool> enabled;
    Setting<std::string> path, job;
    in_.Boolean("/tensorboard/enabled", &enabled);
    in_.Text("/tensorboard/output_path", &path);
    in_.Text("/tensorboard/job_name", &job);
    if (!enabled.value.value_or(false)) return;
    const std::string parent = path.value.value_or("");
    const bool needs_slash = !parent.empty() && parent.back() != '/';
    config_.tensorboard = {
        absl::StrCat(parent, needs_slash ? "/" : "", job.value.value_or("DeepSpeedJobName")),
        enabled.key, enabled.where};
  }

  void ReadAio(const std::string& block) {
    in_.Integer(block + "/block_size", 4096, 1 << 30, &config_.aio_block_size);
    in_.Integer(block + "/queue_depth", 1, 4096, &config_.aio_queue_depth);
    in_.Integer(block + "/thread_count", 1, 256, &config_.aio_threads);
    in_.Integer(block + "/intra_op_parallelism", 1, 256, &config_.aio_threads);
    const std::optional<int64_t> size = config_.aio_block_size.value;
    if (size && *size % 4096 != 0) {
      in_.Fail(block + "/block_size", "a multiple of 4096", json(*size));
    }
  }

  DeepSpeedReader in_;
  DeepSpeedConfig& config_;
};

absl::StatusOr<DeepSpeedConfig> FromDocument(const JsonDocument& document) {
  DeepSpeedConfig config;
  config.file = document.file;
  BlockReader reader(document, &config);
  RETURN_IF_ERROR(reader.ReadTypes());
  KeyReview review;
  RETURN_IF_ERROR(ReviewDeepSpeedKeys(document, &review));
  config.decided_by_plan = std::move(review.decided_by_plan);
  config.without_effect = std::move(review.without_effect);
  config.warnings = std::move(review.warnings);
  RETURN_IF_ERROR(reader.ReadRest());
  return config;
}

const JsonLimits kLimits = {.max_bytes = 4 << 20, .max_depth = 64, .relaxed = true};

}  // namespace

absl::StatusOr<DeepSpeedConfig> ReadDeepSpeedConfig(absl::string_view path) {
  const auto document = ReadStrictJson(path, kLimits);
  if (absl::IsNotFound(document.status())) {
    return absl::NotFoundError(absl::StrCat(path, ": there is no such file"));
  }
  const bool yaml = absl::EndsWith(path, ".yaml") || absl::EndsWith(path, ".yml");
  if (!document.ok() && yaml) {
    return absl::InvalidArgumentError(absl::StrCat(
        path,
        ": a YAML file, and DeepSpeed's JSON is read: give the ds_config.json that it names, "
        "and the rest as flags"));
  }
  RETURN_IF_ERROR(document.status());
  return FromDocument(*document);
}

absl::StatusOr<DeepSpeedConfig> ParseDeepSpeedConfig(absl::string_view text,
                                                     absl::string_view file) {
  ASSIGN_OR_RETURN(const JsonDocument document, ParseStrictJson(text, file, kLimits));
  return FromDocument(document);
}

}  // namespace spillway
