#include "engine/run/run_state.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <iterator>
#include <limits>
#include <map>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "engine/base/shallow_json.h"
#include "io/base/log.h"
#include "io/base/status.h"
#include "io/file_system.h"

namespace spillway {
namespace {

constexpr absl::string_view kManifestName = "manifest-rank";

// The shortest text that reads back as the same value.
std::string Exact(double value) {
  char text[32];
  return std::string(text, std::to_chars(text, text + sizeof(text), value).ptr);
}

// The run state nests no deeper than model -> unit -> parameters -> parameter -> shape.
constexpr int kMaxDepth = 8;

// Version of the set of values in an identity; commits of other versions (1 does not name it) lack
// the values added since.
constexpr char kIdentityVersionName[] = "identity version";
constexpr char kIdentityVersion[] = "3";

constexpr char kMicroBatchesName[] = "accumulate";
constexpr char kMicroBatchesText[] = "micro-batches a step";
constexpr char kNotGiven[] = "not given";

// Values of the machine, or that --resume may change: if they differ, the run continues, with a
// warning that its numbers differ.
constexpr absl::string_view kCircumstances[] = {"compute",         "device", "LibTorch",
                                                "instruction set", "shard",  "steps"};
// Worded differently since version 3; the data's tokens, which follow from it, are compared too.
constexpr absl::string_view kSaidAnew[] = {"tokenizer"};
// Values about exchanges between ranks, which a single rank does not have.
constexpr absl::string_view kOfSeveralRanks[] = {"communication-dtype", "shard"};

template <size_t count>
bool IsAmong(const absl::string_view (&names)[count], absl::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

bool DependsOnSteps(const ScheduleSpec& schedule) {
  switch (schedule.kind) {
    case ScheduleSpec::Kind::kConstant:
    case ScheduleSpec::Kind::kWarmupLr:
    case ScheduleSpec::Kind::kLrRangeTest:
    case ScheduleSpec::Kind::kOneCycle:
    case ScheduleSpec::Kind::kInverseSqrt:
    case ScheduleSpec::Kind::kReduceOnPlateau:
    case ScheduleSpec::Kind::kGreedy:
      return false;
    case ScheduleSpec::Kind::kLinear:
    case ScheduleSpec::Kind::kCosine:
    case ScheduleSpec::Kind::kCosineWithRestarts:
    case ScheduleSpec::Kind::kPolynomial:
    case ScheduleSpec::Kind::kCosineWithMinLr:
    case ScheduleSpec::Kind::kCosineWarmupWithMinLr:
      return true;
    case ScheduleSpec::Kind::kWarmupStableDecay:
      return !schedule.num_stable_steps;
    case ScheduleSpec::Kind::kWarmupDecayLr:
    case ScheduleSpec::Kind::kWarmupCosineLr:
      return !schedule.total_num_steps;
  }
  return true;
}

std::string Described(const ScheduleSpec::RangeTest& test) {
  return absl::StrCat(Exact(test.min_lr), ",", Exact(test.step_rate), ",", test.step_size, ",",
                      test.staircase ? "staircase" : "even");
}

std::string Described(const ScheduleSpec::OneCycle& cycle) {
  return absl::StrCat(
      Exact(cycle.min_lr), ",", Exact(cycle.max_lr), ",", cycle.first_steps, ",",
      cycle.second_steps, ",", cycle.first_stairs, ",", cycle.second_stairs, ",",
      Exact(cycle.decay_rate), ",", cycle.decay_steps, ",",
      cycle.moves_betas ? absl::StrCat(Exact(cycle.min_beta1), ",", Exact(cycle.max_beta1)) : "-");
}

// transformers' lr_scheduler_kwargs of the kinds that were added later.
std::string DescribedArguments(const ScheduleSpec& s) {
  const auto or_none = [](const auto& value) {
    return value ? Exact(static_cast<double>(*value)) : std::string("-");
  };
  const MetricScheduleSpec& m = s.metric;
  return absl::StrCat(Exact(s.lr_end), ",", Exact(s.power), ",", or_none(s.timescale), ",",
                      Exact(s.min_lr_rate), ",", or_none(s.min_lr), ",", or_none(s.warmup_lr_rate),
                      ",", s.num_decay_steps, ",", or_none(s.num_stable_steps), ",",
                      static_cast<int>(s.warmup_curve), ",", static_cast<int>(s.decay_curve), ",",
                      Exact(s.min_lr_ratio), ",", m.higher_is_better, ",", Exact(m.factor), ",",
                      m.patience, ",", Exact(m.threshold), ",", m.relative_threshold, ",",
                      m.cooldown, ",", m.warmup, ",", Exact(m.min_lr), ",", Exact(m.max_lr), ",",
                      Exact(m.eps), ",", m.window_size, ",", m.reset_start);
}

std::string DecayName(OptimizerSpec::Decay decay) {
  switch (decay) {
    case OptimizerSpec::Decay::kAll:
      return "all";
    case OptimizerSpec::Decay::kMatrices:
      return "matrices";
    case OptimizerSpec::Decay::kTrainer:
      return "trainer";
  }
  return "";
}

// Encodes numbers as bytes: there may be millions of them.
std::string Base64Of(const std::vector<float>& values) {
  const auto* const bytes = reinterpret_cast<const char*>(values.data());
  return absl::Base64Escape(absl::string_view(bytes, values.size() * sizeof(float)));
}

absl::StatusOr<std::vector<float>> FromBase64(const std::string& text) {
  std::string bytes;
  if (!absl::Base64Unescape(text, &bytes) || bytes.size() % sizeof(float) != 0) {
    return WrongBytesError("the commit's run state: factored_moments are no numbers");
  }
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

// The samples of a commit by an earlier version, whose steps all had the same size.
int64_t SamplesByIdentity(const RunState& state) {
  int64_t samples = state.step;
  for (const auto& [name, value] : state.identity) {
    int64_t factor = 0;
    if (name != "micro-batch" && name != kMicroBatchesName) continue;
    if (!absl::SimpleAtoi(value, &factor) || factor < 0 || factor > (int64_t{1} << 31)) continue;
    if (__builtin_mul_overflow(samples, factor, &samples)) return 0;
  }
  return samples;
}

// A short form, whatever the commit contains.
std::string Shown(const nlohmann::json& value) {
  return value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace).substr(0, 40);
}

// Reads an integer from `least` to the maximum of T; get() would convert any number.
template <typename T>
absl::Status ReadCount(const nlohmann::json& object, const char* key, T* value, int64_t least = 0) {
  const nlohmann::json& member = object.at(key);
  const bool fits = member.is_number_integer() &&
                    (!member.is_number_unsigned() ||
                     member.get<uint64_t>() <= uint64_t{std::numeric_limits<T>::max()});
  if (!fits || member.get<int64_t>() < least) {
    return WrongBytesError(absl::StrCat("the commit's run state: ", key, " is ", Shown(member),
                                        ", which is no count"));
  }
  *value = static_cast<T>(member.get<int64_t>());
  return absl::OkStatus();
}

// Whether two fingerprints of data differ at most in the layout of samples, which follows a slash.
bool SameData(const std::string& a, const std::string& b) {
  return a.substr(0, a.find('/')) == b.substr(0, b.find('/'));
}

}  // namespace

std::string ManifestPath(const std::string& directory, int rank) {
  return absl::StrCat(directory, "/", kManifestName, rank);
}

std::string PreparedManifestPath(const std::string& directory, int rank) {
  return ManifestPath(directory, rank) + ".prepared";
}

std::string FreedManifestPath(const std::string& directory, int rank) {
  return ManifestPath(directory, rank) + ".freed";
}

int RankByName(const std::string& directory) {
  int rank = 0;
  const bool is_rank =
      FileName(ParentPath(directory)) == kRanksName && absl::SimpleAtoi(FileName(directory), &rank);
  return is_rank ? rank : 0;
}

std::string PreparedManifestPath(const std::string& directory) {
  return PreparedManifestPath(directory, RankByName(directory));
}

std::string CommitManifestPath(const std::string& directory, FileSystem& files) {
  // A later rank's own folder never has the first rank's manifest.
  for (const int rank : {0, RankByName(directory)}) {
    const std::string path = ManifestPath(directory, rank);
    if (!absl::IsNotFound(files.Stat(path).status())) return path;
  }
  const std::string path = ManifestPath(directory, RankByName(directory));
  const auto moved = MovedManifestPath(directory, files);
  return moved.ok() && !moved->empty() ? *moved : path;
}

absl::StatusOr<std::string> MovedManifestPath(const std::string& directory, FileSystem& files) {
  const auto names = files.List(directory);
  if (absl::IsNotFound(names.status())) return "";
  RETURN_IF_ERROR(names.status());
  // Sorted, so that the first rank's is before others.
  for (const absl::string_view name : *names) {
    absl::string_view number = name;
    int rank = 0;
    if (absl::ConsumePrefix(&number, kManifestName) && absl::SimpleAtoi(number, &rank) &&
        rank != RankByName(directory)) {
      return ManifestPath(directory, rank);
    }
  }
  return "";
}

std::string RankOutput(const std::string& output, int rank) {
  return rank == 0 ? output : absl::StrCat(output, "/", kRanksName, "/", rank);
}

absl::Status CheckEncodable(const RunState& state) {
  const auto check = [](absl::string_view name, const std::string& value,
                        absl::string_view remedy) {
    try {
      (void)nlohmann::json(value).dump();
      return absl::OkStatus();
    } catch (const nlohmann::json::type_error&) {
      return absl::InvalidArgumentError(absl::StrCat(
          name, " ", value, " is no UTF-8, and a commit could not say it: give another ", remedy));
    }
  };
  for (const std::string& path : state.parents) {
    RETURN_IF_ERROR(check("the path", path, "--swap, or where there is none another --output"));
  }
  for (const auto& [name, value] : state.identity) RETURN_IF_ERROR(check(name, value, "value"));
  return absl::OkStatus();
}

std::string EncodeRunState(const RunState& state) {
  nlohmann::json json;
  json["version"] = 1;
  json["step"] = state.step;
  json["samples"] = state.samples;
  json["applied_steps"] = state.applied_steps;
  json["finished"] = state.finished;
  json["loss_scale"] = {{"scale", state.loss_scale.scale},
                        {"iteration", state.loss_scale.iteration},
                        {"last_overflow_iteration", state.loss_scale.last_overflow_iteration},
                        {"hysteresis_left", state.loss_scale.hysteresis_left}};
  if (state.metric_schedule != MetricScheduleState()) {
    json["metric_schedule"] = ToJson(state.metric_schedule);
  }
  if (state.loss_scale.overflows_in_a_row > 0) {
    json["loss_scale"]["overflows_in_a_row"] = state.loss_scale.overflows_in_a_row;
  }
  json["dtype"] = std::string(DTypeName(state.dtype));
  json["threads"] = state.threads;
  json["identity"] = state.identity;
  if (!state.changes.empty()) json["changes"] = ToJson(state.changes);
  json["model"] = ToJson(state.model);
  if (!state.buffers.empty()) json["buffers"] = ToJson(state.buffers);
  if (!state.factored_moments.empty()) {
    json["factored_moments"] = Base64Of(state.factored_moments);
  }
  json["parents"] = state.parents;
  json["store_number"] = state.store_number;
  if (state.part.ranks > 1) {
    json["part"] = {{"rank", state.part.rank},
                    {"ranks", state.part.ranks},
                    {"group", state.part.group},
                    {"commit_id", state.part.commit_id}};
  }
  return json.dump();
}

absl::StatusOr<RunState> DecodeRunState(const std::string& text) {
  RunState state;
  const nlohmann::json json = ParseShallowJson(text, kMaxDepth);
  if (!json.is_object()) return WrongBytesError("the commit's run state is not a JSON object");
  try {
    if (json.at("version") != 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("the commit was made by another version of the program (run state version ",
                       Shown(json.at("version")), ", this one reads 1)"));
    }
    RETURN_IF_ERROR(ReadCount(json, "step", &state.step));
    RETURN_IF_ERROR(ReadCount(json, "applied_steps", &state.applied_steps));
    state.finished = json.at("finished").get<bool>();
    if (json.contains("metric_schedule")) {
      state.metric_schedule = MetricScheduleStateFromJson(json.at("metric_schedule"));
    }
    const auto& scale = json.at("loss_scale");
    state.loss_scale.scale = scale.at("scale").get<double>();
    RETURN_IF_ERROR(ReadCount(scale, "iteration", &state.loss_scale.iteration));
    RETURN_IF_ERROR(
        ReadCount(scale, "last_overflow_iteration", &state.loss_scale.last_overflow_iteration, -1));
    RETURN_IF_ERROR(ReadCount(scale, "hysteresis_left", &state.loss_scale.hysteresis_left));
    if (scale.contains("overflows_in_a_row")) {
      RETURN_IF_ERROR(ReadCount(scale, "overflows_in_a_row", &state.loss_scale.overflows_in_a_row));
    }
    const auto dtype = DTypeFromName(json.at("dtype").get<std::string>());
    if (!dtype) return WrongBytesError("the commit names an unknown dtype");
    state.dtype = *dtype;
    RETURN_IF_ERROR(ReadCount(json, "threads", &state.threads));
    state.identity = json.at("identity").get<std::vector<std::pair<std::string, std::string>>>();
    if (json.contains("samples")) {
      RETURN_IF_ERROR(ReadCount(json, "samples", &state.samples));
    } else {
      state.samples = SamplesByIdentity(state);
    }
    for (const auto& change : json.value("changes", nlohmann::json::array())) {
      RunChange& read = state.changes.emplace_back();
      RETURN_IF_ERROR(ReadCount(change, "step", &read.step));
      read.name = change.at("name").get<std::string>();
      read.from = change.at("from").get<std::string>();
      read.to = change.at("to").get<std::string>();
    }
    state.parents = json.at("parents").get<std::vector<std::string>>();
    RETURN_IF_ERROR(ReadCount(json, "store_number", &state.store_number));
    ASSIGN_OR_RETURN(state.model, ModelDescriptionFromJson(json.at("model")));
    if (json.contains("buffers")) {
      ASSIGN_OR_RETURN(state.buffers, StateBuffersFromJson(json["buffers"]));
    }
    if (json.contains("factored_moments")) {
      ASSIGN_OR_RETURN(state.factored_moments,
                       FromBase64(json["factored_moments"].get_ref<const std::string&>()));
    }
    if (json.contains("part")) {
      const auto& part = json.at("part");
      RETURN_IF_ERROR(ReadCount(part, "rank", &state.part.rank));
      RETURN_IF_ERROR(ReadCount(part, "ranks", &state.part.ranks, 1));
      RETURN_IF_ERROR(ReadCount(part, "group", &state.part.group, 1));
      state.part.commit_id = part.at("commit_id").get<std::string>();
      if (state.part.rank >= state.part.ranks || state.part.ranks > kMostRanks ||
          state.part.ranks % state.part.group != 0) {
        return WrongBytesError("the commit's run state names ranks that cannot be");
      }
    }
  } catch (const nlohmann::json::exception& error) {
    return WrongBytesError(absl::StrCat("the commit's run state: ", error.what()));
  }
  return state;
}

std::vector<std::pair<std::string, std::string>> RunIdentity(const TrainOptions& options) {
  auto identity = options.identity;
  auto add = [&](const char* name, std::string value) {
    identity.emplace_back(name, std::move(value));
  };
  const OptimizerSpec& o = options.optimizer;
  const ScheduleSpec& s = options.schedule;
  add("dtype", std::string(DTypeName(options.dtype)));
  add("compute", options.compute_name());
  add("micro-batch", absl::StrCat(options.micro_batch));
  // The number over all ranks: a step has the same samples on any number of ranks.
  add(kMicroBatchesName, absl::StrCat(options.accumulate * options.ranks));
  add("seed", absl::StrCat(options.seed));
  add("order", options.order == SampleOrder::kShuffle ? "shuffle" : "sequential");
  add("threads", absl::StrCat(options.threads));
  add("optimizer", OptimizerName(o.kind));
  add("lr", Exact(o.learning_rate));
  add("betas", absl::StrCat(Exact(o.beta1), ",", Exact(o.beta2)));
  add("eps", Exact(o.eps));
  add("weight-decay", Exact(o.weight_decay));
  add("decay", DecayName(o.decay));
  add("momentum", absl::StrCat(Exact(o.momentum), ",", Exact(o.dampening), ",",
                               o.nesterov ? "nesterov" : "plain"));
  add("clip", Exact(options.clip));
  add("schedule", std::string(ScheduleName(s.kind)));
  add("warmup", absl::StrCat(s.warmup_steps));
  add("schedule details",
      absl::StrCat(Exact(s.num_cycles), ",", static_cast<int>(s.warmup_type), ",",
                   Exact(s.warmup_min_lr), ",", s.warmup_max_lr ? Exact(*s.warmup_max_lr) : "-",
                   ",", Exact(s.warmup_min_ratio), ",", Exact(s.cos_min_ratio), ",",
                   s.total_num_steps ? absl::StrCat(*s.total_num_steps) : "-"));
  if (s.kind > ScheduleSpec::Kind::kOneCycle) add("schedule arguments", DescribedArguments(s));
  if (s.kind == ScheduleSpec::Kind::kLrRangeTest) add("range test", Described(s.range_test));
  if (s.kind == ScheduleSpec::Kind::kOneCycle) add("cycle", Described(s.one_cycle));
  if (o.moments != MomentFormat::kFloat32) add("moments", MomentFormatName(o.moments));
  if (o.masters != OptimizerSpec::Masters::kExact) add("master", MastersName(o.masters));
  if (!o.bias_correction) add("bias-correction", "none");
  if (o.kind == OptimizerSpec::Kind::kLamb) {
    add("trust-ratio", absl::StrCat(Exact(o.least_trust_ratio), ",", Exact(o.most_trust_ratio)));
  }
  if (o.kind == OptimizerSpec::Kind::kAdafactor) {
    add("decay-rate", Exact(o.decay_rate));
    add("clip-threshold", Exact(o.clip_threshold));
    if (o.scale_parameter) add("scale-parameter", "true");
  }
  if (o.second_moments != OptimizerSpec::SecondMoments()) {
    add("second moments",
        absl::StrCat(o.second_moments.last_step, ",", o.second_moments.moves_per_doubling));
  }
  if (options.label_smoothing > 0) add("label-smoothing", Exact(options.label_smoothing));
  if (!options.freeze.freeze.empty()) add("freeze", options.freeze.freeze);
  if (!options.freeze.train_only.empty()) add("train-only", options.freeze.train_only);
  if (options.freeze.packing.any()) {
    add("base-dtype", std::string(PackedFormatName(options.freeze.packing.format)));
  }
  if (options.dtype == DType::kFloat16) {
    const LossScaleSpec& l = options.loss_scale;
    add("loss scale",
        absl::StrCat(Exact(l.static_scale), ",", l.initial_scale_power, ",", l.window, ",",
                     l.hysteresis, ",", static_cast<int>(l.consecutive_hysteresis), ",",
                     Exact(l.min_scale)));
  }
  if (DependsOnSteps(s)) add("steps", absl::StrCat(options.steps));
  if (FollowsMetric(s.kind)) {
    add("eval-every", absl::StrCat(options.eval_every));
    add("metric", options.metric);
  }
  if (options.ranks > 1) {
    add("communication-dtype", std::string(ExchangeFormatName(options.communication_format)));
    // The copies of a shard are summed separately.
    add("shard", options.shard == Shard::kHybrid
                     ? absl::StrCat("hybrid of groups of ", options.shard_group_size)
                     : "one sum");
  }
  add(kIdentityVersionName, kIdentityVersion);
  return identity;
}

absl::StatusOr<std::vector<RunChange>> CompareIdentity(
    const RunState& committed, const std::vector<std::pair<std::string, std::string>>& now,
    const std::vector<std::string>& allowed, const std::string& data_name) {
  const std::map<std::string, std::string> then(committed.identity.begin(),
                                                committed.identity.end());
  const std::map<std::string, std::string> current(now.begin(), now.end());
  const auto version = then.find(kIdentityVersionName);
  const bool old = version == then.end() || version->second != kIdentityVersion;
  std::string differences, circumstances, unknown;
  const auto note = [](std::string& list, const auto&... words) {
    absl::StrAppend(&list, list.empty() ? "" : "; ", words...);
  };
  std::vector<RunChange> changes;
  std::vector<std::string> by;  // options that would allow more of them
  bool any_fixed = false;
  const auto differ = [&](const std::string& name, const std::string& from, const std::string& to,
                          const auto&... words) {
    const absl::string_view changeable = ChangeableBy(name);
    if (std::find(allowed.begin(), allowed.end(), changeable) != allowed.end()) {
      changes.push_back(
          {committed.step + 1, name == kMicroBatchesName ? kMicroBatchesText : name, from, to});
      return;
    }
    note(differences, words...);
    any_fixed |= changeable.empty();
    if (!changeable.empty() && std::find(by.begin(), by.end(), changeable) == by.end()) {
      by.emplace_back(changeable);
    }
  };
  for (const auto& [name, value] : current) {
    if (name == kIdentityVersionName) continue;
    const auto it = then.find(name);
    if (it == then.end()) {
      if (IsAmong(kOfSeveralRanks, name)) continue;
      if (old) {
        note(unknown, name);
      } else {
        differ(name, kNotGiven, value, name, " was not given and is now ", value);
      }
    } else if (it->second != value && old && IsAmong(kSaidAnew, name)) {
      note(unknown, name);
    } else if (it->second != value && name == kMicroBatchesName) {
      differ(name, it->second, value, kMicroBatchesText, " (--accumulate x ranks) were ",
             it->second, " and are now ", value, " (to keep them, --accumulate is ", it->second,
             " over the number of ranks)");
    } else if (it->second != value && name == "data" && !data_name.empty() &&
               !SameData(it->second, value)) {
      differ(name, it->second, value, "what --data ", data_name,
             " holds is not what the run was begun with");
    } else if (it->second != value && IsAmong(kCircumstances, name)) {
      note(circumstances, name, " was ", it->second, " and is now ", value);
    } else if (it->second != value) {
      differ(name, it->second, value, name, " was ", it->second, " and is now ", value);
    }
  }
  for (const auto& [name, value] : then) {
    if (current.contains(name) || IsAmong(kOfSeveralRanks, name)) continue;
    if (IsAmong(kCircumstances, name)) {
      note(circumstances, name, " was ", value, " and is now not given");
    } else {
      differ(name, value, kNotGiven, name, " was ", value, " and is now not given");
    }
  }
  if (!unknown.empty()) {
    LogInfo(absl::StrCat("the commit is of an earlier version of the program and does not say its ",
                         unknown, ": taken to be the same now"));
  }
  if (differences.empty() && !circumstances.empty()) {
    LogWarning(absl::StrCat("the run goes on, but not with the numbers it would have had: ",
                            circumstances));
  }
  if (differences.empty()) return changes;
  const std::string names = absl::StrJoin(by, ",");
  std::string remedy = "; give the old values, ";
  if (!names.empty() && !any_fixed) {
    absl::StrAppend(&remedy, "--allow-change ", names, " to go on with the new ones from step ",
                    committed.step + 1, " on, ");
  }
  absl::StrAppend(&remedy, "or another --output to start a new run");
  if (!names.empty() && any_fixed) {
    absl::StrAppend(&remedy, " (--allow-change can only change ", names, ")");
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--resume continues the same run, but ", differences, remedy));
}

}  // namespace spillway
