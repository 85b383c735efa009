#include "engine/config/training_settings.h"

#include <algorithm>
#include <array>
#include <utility>

#include "engine/config/schedule_settings.h"
#include "engine/config/trainer_flags.h"
#include "engine/machine/compute_precision.h"
#include "engine/numeric/optimizer_spec.h"
#include "engine/numeric/optimizer_state.h"
#include "io/base/status.h"

namespace spillway {
namespace {

// Micro-batches, and samples of one: of each a rank notes down some bytes that no budget counts.
constexpr int64_t kMostOfStep = int64_t{1} << 20;

class TrainingSettings : SettingPicker {
 public:
  explicit TrainingSettings(const SettingSources& sources)
      : SettingPicker(sources), all_(sources) {}

  void Resolve() {
    ResolveBatch();
    ResolveLength();
    ResolvePrecision();
    ResolveOptimizer();
    ResolveScheduleSettings(all_);
    ResolveUpdate();
    ResolveFreeze();
  }

 private:
  void ResolveBatch();
  void ResolveLength();
  void ResolvePrecision();
  void ResolveCompute();
  void ResolveOptimizer();
  void ResolveAdafactor();  // or what has no meaning without it
  void ResolveAdam();
  void ResolveSgd();
  void ResolveUpdate();
  void ResolveFreeze();
  // The file's type, where it counts.
  const DeepSpeedConfig::OneBit* OneBit() const;

  const SettingSources& all_;
};

void TrainingSettings::ResolveFreeze() {
  FreezeRule& freeze = config_.train.freeze;
  freeze.freeze = String("freeze");
  freeze.train_only = String("train-only");
  freeze.packing.format = Choice<PackedFormat>(
      "base-dtype", {PackedFormat::kNone, PackedFormat::kNone, PackedFormat::kNone,
                     PackedFormat::kNone, PackedFormat::kInt8, PackedFormat::kNf4Nested});
  const auto base = DTypeFromName(flags_.base_dtype.value_or(""));
  if (base && *base != config_.train.dtype) {
    Invalid(absl::StrCat("--base-dtype ", *flags_.base_dtype, " and --dtype ",
                         std::string(DTypeName(config_.train.dtype)),
                         ": frozen weights are held in the run's dtype, or packed (--base-dtype "
                         "int8 or nf4): leave --base-dtype out, or give both the same"));
  }
  freeze.packing.word_bytes = DTypeBytes(config_.train.dtype);
}

// train_batch_size = train_micro_batch_size_per_gpu x gradient_accumulation_steps x ranks;
// what is missing is derived as DeepSpeed derives it.
void TrainingSettings::ResolveBatch() {
  TrainOptions& train = config_.train;
  const Setting<int64_t>& total = file_.train_batch_size;
  Setting<int64_t> micro = file_.micro_batch;
  Setting<int64_t> accumulate = file_.accumulate;
  const bool micro_known = flags_.micro_batch || micro.value;
  const bool accumulate_known = flags_.accumulate || accumulate.value;

  // Records are made at the end, when the derived values are known.
  const auto known = [&](const Text& flag, const std::string& name,
                         const Setting<int64_t>& setting) -> int64_t {
    if (!flag) return setting.value.value_or(1);
    const absl::StatusOr<int64_t> parsed = IntegerFlag(FlagName(name), *flag, 1, kMostSteps);
    Fail(parsed.status());
    return parsed.value_or(1);
  };
  int64_t m = known(flags_.micro_batch, "micro-batch", micro);
  int64_t a = known(flags_.accumulate, "accumulate", accumulate);
  const int64_t ranks = config_.train.ranks;
  std::string micro_source = SourceOf("micro-batch", flags_.micro_batch, micro);
  std::string accumulate_source = SourceOf("accumulate", flags_.accumulate, accumulate);

  if (total.value && !(micro_known && accumulate_known)) {
    const std::string derived = absl::StrCat("derived from train_batch_size (", total.where, ")");
    const int64_t divisor = (micro_known ? m : a) * ranks;
    const bool divides = *total.value % divisor == 0;
    if (!divides && !flags_.micro_batch && !flags_.accumulate) {
      return Invalid(
          absl::StrCat(total.where, ": train_batch_size ", *total.value, " is not a multiple of ",
                       micro_known ? "micro-batch " : "accumulation ", micro_known ? m : a, " (",
                       micro_known ? micro_source : accumulate_source, ") x ranks ", ranks));
    }
    if (divides) {
      (micro_known ? a : m) = *total.value / divisor;
      (micro_known ? accumulate_source : micro_source) = derived;
    }
  }
  const auto bound = [&](const std::string& source, const char* what, int64_t& count) {
    if (count <= kMostOfStep) return;
    Invalid(absl::StrCat(source, ": ", count, " ", what, "; there can be ", kMostOfStep));
    count = kMostOfStep;
  };
  bound(micro_source, "samples a micro-batch", m);
  bound(accumulate_source, "micro-batches a step", a);
  if (total.value && *total.value != m * a * ranks) {
    const std::string product =
        absl::StrCat("micro-batch ", m, " (", micro_source, ") x accumulation ", a, " (",
                     accumulate_source, ") x ranks ", ranks, " = ", m * a * ranks);
    if (flags_.micro_batch || flags_.accumulate) {
      Note(absl::StrCat(total.where, ": train_batch_size ", *total.value,
                        " gives way to the flags: ", product));
    } else {
      Invalid(
          absl::StrCat(total.where, ": train_batch_size ", *total.value, " contradicts ", product));
    }
  }
  train.micro_batch = m;
  train.accumulate = a;
  Record("micro-batch", m, micro_source);
  if (flags_.micro_batch && micro.value) RecordOverridden(*micro.value, micro.where);
  Record("accumulate", a, accumulate_source);
  if (flags_.accumulate && accumulate.value) RecordOverridden(*accumulate.value, accumulate.where);
  const bool as_said = total.value == m * a * ranks;
  Record("train_batch_size", m * a * ranks,
         as_said ? total.where : "micro-batch x accumulate x ranks");
  if (total.value && !as_said) RecordOverridden(*total.value, total.where);
}

void TrainingSettings::ResolveLength() {
  TrainOptions& train = config_.train;
  config_.seq_len = Integer("seq-len");
  train.steps = Integer("steps");
  train.epochs = Number("epochs");
  if (train.epochs == 0) Invalid("--epochs 0: give a number above 0");
  if (flags_.steps && flags_.epochs) {
    Note(absl::StrCat("--steps ", train.steps, " decides; --epochs ", *flags_.epochs,
                      " is not used"));
  }
  train.seed = Pick<uint64_t>("seed", {}, 42, SeedFlag);
  train.order = Choice<SampleOrder>("order", {SampleOrder::kShuffle, SampleOrder::kSequential});
  config_.samples = Choice<SampleLayout>("samples", {SampleLayout::kByData, SampleLayout::kWindows,
                                                     SampleLayout::kPadded, SampleLayout::kPacked});
  config_.pad_to_max_length = Switch("pad-to-max-length");
  const std::string date = String("chat-date");
  absl::CivilDay day;
  if (flags_.chat_date && !absl::ParseCivilTime(date, &day)) {
    Invalid(absl::StrCat("--chat-date ", date, ": a day is YYYY-MM-DD"));
  }
  if (flags_.chat_date) config_.chat_clock = absl::CivilSecond(day);
}

void TrainingSettings::ResolvePrecision() {
  Setting<DType> from_file;
  if (file_.fp16.value.value_or(false)) {
    from_file = {DType::kFloat16, file_.fp16.key, file_.fp16.where};
  } else if (file_.bf16.value.value_or(false)) {
    from_file = {DType::kBFloat16, file_.bf16.key, file_.bf16.where};
  } else if (file_.bf16.is_auto()) {
    from_file = {std::nullopt, file_.bf16.key, file_.bf16.where};
  } else if (file_.fp16.is_auto()) {
    from_file = {std::nullopt, file_.fp16.key, file_.fp16.where};
  } else if (has_file_) {
    from_file = {DType::kFloat32, "", absl::StrCat("no bf16 or fp16 enabled in ", file_.file)};
    if (!flags_.dtype) {
      Note(absl::StrCat(file_.file, " enables neither bf16 nor fp16: fp32, as in DeepSpeed"));
    }
  }
  TrainOptions& train = config_.train;
  train.dtype =
      Choice<DType>("dtype", {DType::kBFloat16, DType::kFloat16, DType::kFloat32}, from_file);
  if (from_file.is_auto() && !flags_.dtype) {
    Note(absl::StrCat(from_file.where, ": '", from_file.key,
                      "' is auto: bf16; --dtype (or --bf16, --fp16) says otherwise"));
  }
  ResolveCompute();
  if (train.dtype != DType::kFloat16) return;

  LossScaleSpec& scale = train.loss_scale;
  scale.static_scale = FromFile<double>("fp16.loss_scale", file_.loss_scale, 0);
  scale.initial_scale_power = static_cast<int>(
      FromFile<int64_t>("fp16.initial_scale_power", file_.initial_scale_power, 16));
  scale.window = FromFile<int64_t>("fp16.loss_scale_window", file_.loss_scale_window, 1000);
  scale.hysteresis = FromFile<int64_t>("fp16.hysteresis", file_.hysteresis, 2);
  scale.min_scale = FromFile<double>("fp16.min_loss_scale", file_.min_loss_scale, 1);
  scale.consecutive_hysteresis =
      FromFile<bool>("fp16.consecutive_hysteresis", file_.consecutive_hysteresis, false);
  Fail(ValidateLossScale(scale));
}

// What `auto` comes to is known with the device.
void TrainingSettings::ResolveCompute() {
  TrainOptions& train = config_.train;
  train.compute = Choice<std::optional<DType>>(
      "compute", {std::nullopt, DType::kFloat32, DType::kBFloat16, DType::kFloat16, std::nullopt},
      {}, std::optional<DType>());
  train.layers_in_fp8 = flags_.compute == "fp8";
  Fail(CheckCompute(train.compute, train.dtype));
}

// The Trainer's optimizers that are not there, by the beginnings of their names, and what is
// nearest.
const char* NearestOptimizer(const std::string& name) {
  static constexpr std::pair<absl::string_view, const char*> kNearest[] = {
      {"rmsprop",
       "adamw_torch with --adam_beta1 0 --adam_beta2 0.99 is RMSprop with bias correction"},
      {"adagrad", "adafactor, which also adds up squares, forgets old ones"},
      {"ademamix_8bit", "adamw_8bit has the same moments but for the slow one"},
      {"paged_ademamix_8bit", "adamw_8bit has the same moments but for the slow one"},
      {"ademamix", "adamw_torch has the same moments but for the slow one"},
      {"paged_ademamix", "adamw_torch has the same moments but for the slow one"},
      {"adamw_torch_4bit", "adamw_torch_8bit keeps moments in 8 bits"},
      {"adamw_anyprecision", "adamw_torch with --moments bf16 --master none"},
      {"adamw_torch_xla", "adamw_torch computes the same"},
      {"adamw_torch_npu", "adamw_torch computes the same"},
      {"galore", "--lora-r trains matrices of low rank, and moments can be kept on disk"},
      {"apollo", "--lora-r trains matrices of low rank, and moments can be kept on disk"},
      {"lomo", "sgd with --update immediate --clip 0 updates each layer in the backward pass"},
      {"adalomo", "adafactor with --update immediate --clip 0"},
      {"grokadamw", "adamw_torch"},
      {"schedule_free_sgd", "sgd with --schedule constant"},
      {"schedule_free", "adamw_torch with --schedule constant"},
      {"stable_adamw", "adamw_torch with --clip 1, or adafactor, which bounds updates likewise"}};
  for (const auto& [begin, nearest] : kNearest) {
    if (absl::StartsWith(name, begin)) return nearest;
  }
  return nullptr;
}

void TrainingSettings::ResolveOptimizer() {
  using Kind = OptimizerSpec::Kind;
  OptimizerSpec& spec = config_.train.optimizer;
  if (const char* const nearest = NearestOptimizer(flags_.optimizer.value_or(""))) {
    Invalid(absl::StrCat("--optimizer ", *flags_.optimizer, " is not there; nearest: ", nearest));
    return;
  }
  // Those with "_" are Hugging Face Trainer's: pages, fused and the library that computes them do
  // not change what is computed.
  spec.kind = Choice<Kind>(
      "optimizer",
      {Kind::kAdamW, Kind::kAdam, Kind::kLion, Kind::kLamb, Kind::kAdafactor, Kind::kSgd},
      file_.optimizer, {},
      {{"adamw_torch", Kind::kAdamW},
       {"adamw_torch_fused", Kind::kAdamW},
       {"adamw_torch_8bit", Kind::kAdamW},
       {"adamw_apex_fused", Kind::kAdamW},
       {"adamw_hf", Kind::kAdamW},
       {"adamw_8bit", Kind::kAdamW},
       {"adamw_bnb_8bit", Kind::kAdamW},
       {"paged_adamw", Kind::kAdamW},
       {"paged_adamw_32bit", Kind::kAdamW},
       {"paged_adamw_8bit", Kind::kAdamW},
       {"lion_32bit", Kind::kLion},
       {"lion_8bit", Kind::kLion},
       {"paged_lion_32bit", Kind::kLion},
       {"paged_lion_8bit", Kind::kLion}});
  // The Trainer's names of optimizers say what their moments are.
  const bool named_8bit = flags_.optimizer && absl::EndsWith(*flags_.optimizer, "8bit");
  using Moments = MomentFormat;
  spec.moments = Choice<Moments>(
      "moments", {Moments::kFloat32, Moments::kBFloat16, Moments::kEightBit, Moments::kFloat8},
      named_8bit ? Setting<Moments>() : file_.moments,
      named_8bit ? Moments::kEightBit : Moments::kFloat32);
  using Masters = OptimizerSpec::Masters;
  spec.masters = Choice<Masters>("master", {Masters::kExact, Masters::k24Bit, Masters::kNone},
                                 file_.masters, {}, {{"fp32", Masters::kExact}});
  Fail(CheckMasters(spec, config_.train.dtype));
  const bool kind_from_file = file_.has_optimizer && !flags_.optimizer;
  const bool decoupled = spec.kind == Kind::kAdamW;

  // A file's optimizer without a rate or decay has DeepSpeed's defaults, not ours.
  const bool file_rate = kind_from_file && !file_.lr.given();
  spec.learning_rate = Number("lr", file_.lr, file_rate ? std::optional(1e-3) : std::nullopt);
  if (file_rate && !flags_.lr) {
    Note(absl::StrCat(file_.optimizer.where, ": no lr: 0.001, DeepSpeed's default"));
  }
  const auto* const one_bit = OneBit();
  const Setting<double>& given_decay = one_bit ? one_bit->weight_decay : file_.weight_decay;
  const bool file_decay = kind_from_file && !given_decay.given();
  spec.weight_decay = Number("weight-decay", given_decay,
                             file_decay && !decoupled ? std::optional(0.0) : std::nullopt);
  if (file_decay && !flags_.weight_decay) {
    Note(absl::StrCat(file_.optimizer.where, ": no weight_decay: ", spec.weight_decay,
                      decoupled ? ", torch's default of AdamW (DeepSpeed's own kernels have 0)"
                                : ", the default of this optimizer"));
  }
  using Decay = OptimizerSpec::Decay;
  // The Trainer's own optimizers spare norms and biases; one that DeepSpeed makes from its file
  // does not.
  const bool spares = flags_.trainer_weight_decay && !kind_from_file;
  spec.decay = Choice<Decay>("decay", {Decay::kAll, Decay::kMatrices, Decay::kTrainer}, {},
                             spares ? Decay::kTrainer : Decay::kAll);
  if (flags_.trainer_weight_decay && !flags_.decay && spec.weight_decay > 0) {
    Note(spares ? "--weight_decay spares norms and biases, as the Trainer does; --weight-decay or "
                  "--decay all would not"
                : absl::StrCat(file_.optimizer.where,
                               ": the optimizer decays norms and biases, too, as with the Trainer; "
                               "--decay trainer would not"));
  }
  ResolveAdafactor();
  if (spec.kind == Kind::kSgd) {
    ResolveSgd();
  } else if (spec.kind != Kind::kAdafactor) {
    ResolveAdam();
  }
  Fail(ValidateOptimizer(spec));

  config_.train.label_smoothing = Number("label-smoothing");
  const bool clip_default = has_file_ && !file_.gradient_clipping.given() && !flags_.clip;
  config_.train.clip = Number("clip", file_.gradient_clipping);
  if (clip_default) {
    Note(absl::StrCat(file_.file,
                      " has no gradient_clipping: 1.0, DeepSpeed's default since "
                      "mid-2026 (0, which is none, before)"));
  }
  if (one_bit) Note(one_bit->note);
}

const DeepSpeedConfig::OneBit* TrainingSettings::OneBit() const {
  return flags_.optimizer || !file_.one_bit ? nullptr : &*file_.one_bit;
}

void TrainingSettings::ResolveAdafactor() {
  OptimizerSpec& spec = config_.train.optimizer;
  const bool adafactor = spec.kind == OptimizerSpec::Kind::kAdafactor;
  const auto meaningless = [&](const std::optional<std::string>& value, const char* flag,
                               const char* where) {
    if (value) Invalid(absl::StrCat(flag, " has no meaning ", where, " --optimizer adafactor"));
  };
  if (!adafactor) {
    meaningless(flags_.decay_rate, "--decay-rate", "without");
    meaningless(flags_.clip_threshold, "--clip-threshold", "without");
    meaningless(flags_.scale_parameter, "--scale-parameter", "without");
    return;
  }
  meaningless(flags_.betas, "--betas", "with");
  meaningless(flags_.momentum, "--momentum", "with");
  meaningless(flags_.trust_ratio, "--trust-ratio", "with");
  if (spec.moments != MomentFormat::kFloat32) {
    Invalid(absl::StrCat(
        "--moments ", MomentFormatName(spec.moments),
        " cannot be had with --optimizer adafactor, which keeps one fp32 moment a row and one a "
        "column: leave it out"));
  }
  spec.eps = Number("eps", {}, 1e-30);
  spec.decay_rate = Number("decay-rate");
  spec.clip_threshold = Number("clip-threshold");
  spec.scale_parameter = Switch("scale-parameter");
}

void TrainingSettings::ResolveAdam() {
  OptimizerSpec& spec = config_.train.optimizer;
  if (flags_.momentum) Invalid("--momentum has no meaning without --optimizer sgd");
  using Betas = std::array<double, 2>;
  const auto two = [](double high, const char* must) {
    return [=](const std::string& flag, const std::string& text) -> absl::StatusOr<Betas> {
      const absl::StatusOr<std::vector<std::string>> parts = ListFlag(flag, text);
      if (!parts.ok() || parts->size() != 2) return BadFlagValue(flag, text, must);
      Betas numbers;
      for (size_t i = 0; i < 2; ++i) {
        ASSIGN_OR_RETURN(numbers[i], NumberFlag(flag, (*parts)[i], 0, high, false));
      }
      return numbers;
    };
  };
  const bool lion = spec.kind == OptimizerSpec::Kind::kLion;
  // Lion's paper has 0.99; DeepSpeed and the Trainer have Adam's default for it too.
  const double beta2 = flags_.optimizer == "lion" ? 0.99 : 0.999;
  const Betas betas =
      Pick<Betas>("betas", file_.betas, {0.9, beta2},
                  two(RowOf("betas").bounds.high, "two numbers in [0, 1), such as 0.9,0.999"));
  spec.beta1 = betas[0];
  spec.beta2 = betas[1];
  const bool lamb = spec.kind == OptimizerSpec::Kind::kLamb;
  if (!lamb && flags_.trust_ratio) Invalid("--trust-ratio has no meaning without --optimizer lamb");
  if (lamb) {
    const double least = file_.least_trust_ratio.value.value_or(spec.least_trust_ratio);
    const double most = file_.most_trust_ratio.value.value_or(spec.most_trust_ratio);
    const Betas bounds = Pick<Betas>("trust-ratio", {}, {least, most},
                                     two(RowOf("trust-ratio").bounds.high,
                                         "two numbers, the least and the most, such as 0.01,10"));
    if (bounds[0] > bounds[1]) Invalid("--trust-ratio: the least comes first, as in 0.01,10");
    spec.least_trust_ratio = bounds[0];
    spec.most_trust_ratio = bounds[1];
  }
  const auto* const one_bit = OneBit();
  if (one_bit) {
    spec.second_moments = one_bit->second_moments;
    Record("last step of second moments", spec.second_moments.last_step, file_.optimizer.where);
  }
  if (lion && flags_.eps) Invalid("--eps has no meaning with --optimizer lion");
  if (lion) return;
  spec.eps = Number("eps", file_.eps);
  const Setting<bool>& bias_correction = one_bit ? one_bit->bias_correction : file_.bias_correction;
  spec.bias_correction = FromFile<bool>("bias_correction", bias_correction, true);
}

void TrainingSettings::ResolveSgd() {
  OptimizerSpec& spec = config_.train.optimizer;
  if (flags_.betas) Invalid("--betas has no meaning with --optimizer sgd");
  if (flags_.eps) Invalid("--eps has no meaning with --optimizer sgd");
  spec.momentum = Number("momentum", file_.momentum);
  spec.dampening = Pick<double>(
      "dampening", flags_.dampening, file_.dampening, 0,
      [](const std::string& flag, const std::string& t) { return NumberFlag(flag, t, 0, 1e30); });
  spec.nesterov =
      Pick<bool>("nesterov", flags_.nesterov, file_.nesterov, false,
                 [](const std::string& flag, const Text& text) { return SwitchFlag(flag, text); });
}

void TrainingSettings::ResolveUpdate() {
  TrainOptions& train = config_.train;
  train.update = Choice<UpdateChoice>(
      "update", {UpdateChoice::kAuto, UpdateChoice::kImmediate, UpdateChoice::kDeferred});
  train.update_device = Choice<UpdateDevice>(
      "update-device", {UpdateDevice::kAuto, UpdateDevice::kCpu, UpdateDevice::kGpu});
  train.recompute = Choice<Recompute>("recompute", {Recompute::kAuto, Recompute::kAll});
  // Of optimizers that measure first the plan says that it cannot be.
  if (train.update != UpdateChoice::kImmediate || MeasuresFirst(train.optimizer)) return;
  if (train.dtype == DType::kFloat16) {
    Invalid(
        "--update immediate contradicts fp16, whose loss scale needs all gradients before any "
        "update: use --update deferred (or auto), or --dtype bf16");
  }
  if (train.clip > 0) {
    Invalid(absl::StrCat("--update immediate contradicts clipping at ", train.clip,
                         ", which needs all gradients before any update: use --clip 0, or "
                         "--update deferred (or auto)"));
  }
}

}  // namespace

void ResolveTrainingSettings(const SettingSources& sources) { TrainingSettings(sources).Resolve(); }

}  // namespace spillway
