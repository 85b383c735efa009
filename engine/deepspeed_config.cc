#include "engine/deepspeed_config.h"

#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/deepspeed_keys.h"
#include "io/status.h"

namespace spillway {
namespace {

using nlohmann::json;

// Whole numbers, of which DeepSpeed's files write some as 5e8.
std::optional<int64_t> AsInteger(const json& value) {
  if (value.is_number_float()) {
    const double number = value.get<double>();
    if (number != std::floor(number) || std::abs(number) > 0x1p53) return std::nullopt;
    return static_cast<int64_t>(number);
  }
  if (value.is_number_unsigned() &&
      value.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    return std::nullopt;
  }
  if (!value.is_number_integer()) return std::nullopt;
  return value.get<int64_t>();
}

std::optional<bool> AsBoolean(const json& value) {
  if (value.is_boolean()) return value.get<bool>();
  if (!value.is_string()) return std::nullopt;
  const std::string text = absl::AsciiStrToLower(value.get_ref<const std::string&>());
  if (text == "true") return true;
  if (text == "false") return false;
  return std::nullopt;
}

// Reads settings one by one; the first error is kept and ends up as the result.
class Reader {
 public:
  Reader(const JsonDocument& document, DeepSpeedConfig* config)
      : document_(document), config_(*config) {}

  absl::Status Read() {
    ReadBatch();
    ReadOptimizer();
    ReadScheduler();
    Number("/gradient_clipping", 0, kHuge, &config_.gradient_clipping);
    ReadPrecision();
    ReadZero();
    ReadAio("/zero_optimization/aio");
    ReadAio("/aio");
    return status_;
  }

 private:
  static constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  static constexpr double kHuge = 1e30;

  // nullptr when the key is absent or null.
  const json* Find(const std::string& pointer) const {
    const json* at = &document_.value;
    size_t begin = 1;
    while (begin <= pointer.size()) {
      const size_t end = std::min(pointer.find('/', begin), pointer.size());
      const std::string name = pointer.substr(begin, end - begin);
      if (!at->is_object() || !at->contains(name)) return nullptr;
      at = &(*at)[name];
      begin = end + 1;
    }
    return at->is_null() ? nullptr : at;
  }

  void Fail(const std::string& pointer, absl::string_view must, const json& value) {
    std::string shown = value.dump(-1, ' ', true);
    if (shown.size() > 60) shown = shown.substr(0, 57) + "...";
    status_.Update(absl::InvalidArgumentError(absl::StrCat(
        document_.Where(pointer), ": '", DottedKey(pointer), "' must be ", must, ", not ", shown)));
  }

  // The value to be read, or nullptr; fills in what the setting says about itself.
  template <typename T>
  const json* Begin(const std::string& pointer, Setting<T>* setting) {
    const json* value = Find(pointer);
    if (value == nullptr) return nullptr;
    *setting = {std::nullopt, DottedKey(pointer), document_.Where(pointer)};
    return *value == "auto" ? nullptr : value;
  }

  void Integer(const std::string& pointer, int64_t low, int64_t high, Setting<int64_t>* setting) {
    const json* value = Begin(pointer, setting);
    if (value == nullptr) return;
    const std::optional<int64_t> number = AsInteger(*value);
    if (!number || *number < low || *number > high) {
      return Fail(pointer, absl::StrCat("a whole number from ", low, " to ", high), *value);
    }
    setting->value = *number;
  }

  void Number(const std::string& pointer, double low, double high, Setting<double>* setting) {
    const json* value = Begin(pointer, setting);
    if (value == nullptr) return;
    if (!value->is_number() || !(value->get<double>() >= low && value->get<double>() <= high)) {
      return Fail(pointer,
                  high >= kHuge ? absl::StrCat("a number of ", low, " or more")
                                : absl::StrCat("a number from ", low, " to ", high),
                  *value);
    }
    setting->value = value->get<double>();
  }

  void Boolean(const std::string& pointer, Setting<bool>* setting) {
    const json* value = Begin(pointer, setting);
    if (value == nullptr) return;
    setting->value = AsBoolean(*value);
    if (!setting->value) Fail(pointer, "true or false", *value);
  }

  void Text(const std::string& pointer, Setting<std::string>* setting) {
    const json* value = Begin(pointer, setting);
    if (value == nullptr) return;
    if (!value->is_string() || value->get_ref<const std::string&>().empty()) {
      return Fail(pointer, "a string", *value);
    }
    setting->value = value->get<std::string>();
  }

  // One of a few words; case does not count.
  template <typename T>
  void Choice(const std::string& pointer,
              const std::vector<std::pair<absl::string_view, T>>& choices, Setting<T>* setting,
              absl::string_view otherwise = "") {
    const json* value = Begin(pointer, setting);
    if (value == nullptr) return;
    std::vector<absl::string_view> names;
    for (const auto& [name, choice] : choices) {
      names.push_back(name);
      if (value->is_string() && absl::AsciiStrToLower(value->get_ref<const std::string&>()) ==
                                    absl::AsciiStrToLower(name)) {
        setting->value = choice;
        return;
      }
    }
    Fail(pointer, absl::StrCat("one of ", absl::StrJoin(names, ", "), otherwise), *value);
  }

  void ReadBatch() {
    Integer("/train_batch_size", 1, kMost, &config_.train_batch_size);
    Integer("/train_micro_batch_size_per_gpu", 1, kMost, &config_.micro_batch);
    Integer("/gradient_accumulation_steps", 1, kMost, &config_.accumulate);
  }

  void ReadOptimizer() {
    using Kind = OptimizerSpec::Kind;
    config_.has_optimizer = Find("/optimizer") != nullptr;
    Choice<Kind>("/optimizer/type",
                 {{"AdamW", Kind::kAdamW}, {"Adam", Kind::kAdam}, {"SGD", Kind::kSgd}},
                 &config_.optimizer, " (no other optimizer is supported)");
    if (config_.has_optimizer && !config_.optimizer.given()) {
      status_.Update(absl::InvalidArgumentError(absl::StrCat(
          document_.Where("/optimizer"), ": 'optimizer' has no 'type': AdamW, Adam or SGD")));
    }
    const std::string params = "/optimizer/params";
    Number(params + "/lr", 0, kHuge, &config_.lr);
    Number(params + "/eps", 0, kHuge, &config_.eps);
    Number(params + "/weight_decay", 0, kHuge, &config_.weight_decay);
    Number(params + "/momentum", 0, kHuge, &config_.momentum);
    Number(params + "/dampening", 0, kHuge, &config_.dampening);
    Boolean(params + "/nesterov", &config_.nesterov);
    ReadBetas(params + "/betas");
    // DeepSpeed makes AdamW of "Adam" unless told otherwise.
    Setting<bool> adam_w_mode;
    Boolean(params + "/adam_w_mode", &adam_w_mode);
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
    if (is_sgd) {
      Misplaced(config_.betas, "SGD");
      Misplaced(config_.eps, "SGD");
      Misplaced(adam_w_mode, "SGD");
    } else {
      Misplaced(config_.momentum, "Adam");
      Misplaced(config_.dampening, "Adam");
      Misplaced(config_.nesterov, "Adam");
    }
  }

  template <typename T>
  void Misplaced(const Setting<T>& setting, absl::string_view optimizer) {
    if (!setting.given()) return;
    status_.Update(absl::InvalidArgumentError(
        absl::StrCat(setting.where, ": '", setting.key, "' is not a parameter of ", optimizer)));
  }

  void ReadBetas(const std::string& pointer) {
    const json* value = Begin(pointer, &config_.betas);
    if (value == nullptr) return;
    std::array<double, 2> betas = {-1, -1};
    if (value->is_array() && value->size() == 2) {
      for (size_t i = 0; i < 2; ++i) {
        if ((*value)[i].is_number()) betas[i] = (*value)[i].get<double>();
      }
    }
    for (const double beta : betas) {
      if (!(beta >= 0 && beta < 1)) return Fail(pointer, "two numbers in [0, 1)", *value);
    }
    config_.betas.value = betas;
  }

  void ReadScheduler() {
    using Kind = ScheduleSpec::Kind;
    using Warmup = ScheduleSpec::WarmupType;
    Choice<Kind>("/scheduler/type",
                 {{"WarmupLR", Kind::kWarmupLr},
                  {"WarmupDecayLR", Kind::kWarmupDecayLr},
                  {"WarmupCosineLR", Kind::kWarmupCosineLr}},
                 &config_.schedule, " (no other scheduler is supported)");
    if (Find("/scheduler") != nullptr && !config_.schedule.given()) {
      status_.Update(absl::InvalidArgumentError(
          absl::StrCat(document_.Where("/scheduler"),
                       ": 'scheduler' has no 'type': WarmupLR, WarmupDecayLR or WarmupCosineLR")));
    }
    const std::string params = "/scheduler/params";
    Number(params + "/warmup_min_lr", 0, kHuge, &config_.warmup_min_lr);
    Number(params + "/warmup_max_lr", 0, kHuge, &config_.warmup_max_lr);
    Number(params + "/warmup_min_ratio", 0, kHuge, &config_.warmup_min_ratio);
    Number(params + "/cos_min_ratio", 0, kHuge, &config_.cos_min_ratio);
    Integer(params + "/warmup_num_steps", 0, kMost, &config_.warmup_num_steps);
    Integer(params + "/total_num_steps", 1, kMost, &config_.total_num_steps);
    Choice<Warmup>(params + "/warmup_type", {{"log", Warmup::kLog}, {"linear", Warmup::kLinear}},
                   &config_.warmup_type);
    const absl::string_view name = ScheduleName(config_.schedule.value.value_or(Kind::kWarmupLr));
    const bool ratios = config_.schedule.value == Kind::kWarmupCosineLr;
    if (ratios) {
      Misplaced(config_.warmup_min_lr, name);
      Misplaced(config_.warmup_max_lr, name);
    } else {
      Misplaced(config_.warmup_min_ratio, name);
      Misplaced(config_.cos_min_ratio, name);
    }
    if (config_.schedule.value == Kind::kWarmupLr) Misplaced(config_.total_num_steps, name);
  }

  void ReadPrecision() {
    Boolean("/bfloat16/enabled", &config_.bf16);
    Boolean("/bf16/enabled", &config_.bf16);
    Boolean("/fp16/enabled", &config_.fp16);
    if (config_.bf16.value.value_or(false) && config_.fp16.value.value_or(false)) {
      status_.Update(absl::InvalidArgumentError(
          absl::StrCat(config_.fp16.where, ": 'fp16.enabled' and 'bf16.enabled' (",
                       config_.bf16.where, ") contradict each other: enable one")));
    }
    Number("/fp16/loss_scale", 0, kHuge, &config_.loss_scale);
    Number("/fp16/min_loss_scale", 0, kHuge, &config_.min_loss_scale);
    Integer("/fp16/initial_scale_power", 0, 127, &config_.initial_scale_power);
    Integer("/fp16/loss_scale_window", 1, kMost, &config_.loss_scale_window);
    Integer("/fp16/hysteresis", 1, kMost, &config_.hysteresis);
    Boolean("/fp16/consecutive_hysteresis", &config_.consecutive_hysteresis);
  }

  void ReadOffload(const std::string& block, Setting<Offload>* device,
                   Setting<std::string>* nvme_path) {
    Choice<Offload>(block + "/device",
                    {{"none", Offload::kNone}, {"cpu", Offload::kCpu}, {"nvme", Offload::kNvme}},
                    device);
    Text(block + "/nvme_path", nvme_path);
  }

  // cpu_offload: true is the old way to write offload_optimizer {device: cpu}.
  void ReadOldOffload(const std::string& pointer, const std::string& now,
                      Setting<Offload>* device) {
    Setting<bool> old;
    Boolean(pointer, &old);
    if (!old.value.value_or(false)) return;
    config_.notes.push_back(
        absl::StrCat(old.where, ": '", old.key, "' is read as '", now, "' with device cpu"));
    if (!device->given()) *device = {Offload::kCpu, old.key, old.where};
  }

  void ReadZero() {
    const std::string zero = "/zero_optimization";
    const json* block = Find(zero);
    if (block == nullptr) return;
    Setting<int64_t> stage;
    if (block->is_object()) Integer(zero + "/stage", 0, 3, &stage);
    if (stage.value) config_.decided_by_plan.push_back(stage.key);
    ReadOffload(zero + "/offload_param", &config_.offload_param, &config_.param_nvme_path);
    ReadOffload(zero + "/offload_optimizer", &config_.offload_optimizer,
                &config_.optimizer_nvme_path);
    ReadOldOffload(zero + "/cpu_offload", "offload_optimizer", &config_.offload_optimizer);
    ReadOldOffload(zero + "/cpu_offload_param", "offload_param", &config_.offload_param);
    ReadOldOffload(zero + "/cpu_offload_params", "offload_param", &config_.offload_param);
    if (Find(zero + "/aio") != nullptr) {
      config_.notes.push_back(absl::StrCat(document_.Where(zero + "/aio"),
                                           ": 'aio' inside 'zero_optimization' is read as if it "
                                           "stood at the top, where DeepSpeed wants it"));
    }
  }

  void ReadAio(const std::string& block) {
    Integer(block + "/block_size", 4096, 1 << 30, &config_.aio_block_size);
    Integer(block + "/queue_depth", 1, 4096, &config_.aio_queue_depth);
    Integer(block + "/thread_count", 1, 256, &config_.aio_threads);
    Integer(block + "/intra_op_parallelism", 1, 256, &config_.aio_threads);
    const std::optional<int64_t> size = config_.aio_block_size.value;
    if (size && *size % 4096 != 0) {
      Fail(block + "/block_size", "a multiple of 4096", json(*size));
    }
  }

  const JsonDocument& document_;
  DeepSpeedConfig& config_;
  absl::Status status_;
};

absl::StatusOr<DeepSpeedConfig> FromDocument(const JsonDocument& document) {
  DeepSpeedConfig config;
  config.file = document.file;
  KeyReview review;
  RETURN_IF_ERROR(ReviewDeepSpeedKeys(document, &review));
  config.decided_by_plan = std::move(review.decided_by_plan);
  config.without_effect = std::move(review.without_effect);
  RETURN_IF_ERROR(Reader(document, &config).Read());
  return config;
}

constexpr JsonLimits kLimits = {.max_bytes = 4 << 20, .max_depth = 64, .allow_comments = true};

}  // namespace

absl::StatusOr<DeepSpeedConfig> ReadDeepSpeedConfig(absl::string_view path) {
  ASSIGN_OR_RETURN(const JsonDocument document, ReadStrictJson(path, kLimits));
  return FromDocument(document);
}

absl::StatusOr<DeepSpeedConfig> ParseDeepSpeedConfig(absl::string_view text,
                                                     absl::string_view file) {
  ASSIGN_OR_RETURN(const JsonDocument document, ParseStrictJson(text, file, kLimits));
  return FromDocument(document);
}

}  // namespace spillway
