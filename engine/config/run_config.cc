#include "engine/config/run_config.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "engine/base/utf8_repair.h"
#include "engine/config/adapter_settings.h"
#include "engine/config/rank_settings.h"
#include "engine/config/recipe.h"
#include "engine/config/trainer_flags.h"
#include "engine/config/training_settings.h"
#include "engine/data/token_masking.h"
#include "engine/families/model_task.h"
#include "engine/machine/swap_paths.h"
#include "engine/numeric/quality.h"
#include "engine/options/run_change.h"
#include "io/base/status.h"
#include "io/file_system.h"

namespace spillway {
namespace {

constexpr int64_t kMost = int64_t{1} << 31;

// The directory that a path means, links resolved; it need not be there.
std::string DirectoryOf(const std::string& path) {
  return NormalPath(FileSystem::Real().Resolve(AbsolutePath(path).value_or(path)));
}

// A number between 0 and 1, as the Trainer has it for its --eval_steps and --save_steps; 0: it is
// none.
double PartOfRun(const TrainFlags::Text& text) {
  double part = 0;
  const bool is_part = text && absl::SimpleAtod(*text, &part) && part > 0 && part < 1;
  return is_part ? part : 0;
}

// The groups of settings in their order, and those of them that say what is trained and where.
class RunSettings : SettingPicker {
 public:
  explicit RunSettings(const SettingSources& sources) : SettingPicker(sources), all_(sources) {}

  void Resolve() {
    ResolveInputs();
    ResolveEvaluation();
    ResolveEvaluationTexts();
    ResolveSamplePrompts();
    ResolveRankSettings(all_);
    ResolveTrainingSettings(all_);
    ResolveAdapterSettings(all_);
    ResolveMachine();
    ResolvePlacement();
    ResolveCommits();
    ResolveTrace();
    ResolveWrites();
    CheckPaths();
    NoteOtherKeys();
  }

 private:
  void ResolveInputs();
  void ResolveEvaluation();
  void ResolveEvaluationTexts();
  void ResolveSamplePrompts();
  void ResolveMachine();
  void ResolvePlacement();
  Offload ResolveOffload(const std::string& name, const Text& flag, const Text& general,
                         const Setting<Offload>& setting);
  void ResolveSwapPaths();
  void ResolveCommits();
  void ResolveCommitTimes();
  void ResolveAllowedChanges();
  void ResolveTrace();
  void ResolveWrites();
  void CheckPaths();
  void NoteOtherKeys();

  const SettingSources& all_;
};

void RunSettings::ResolveInputs() {
  config_.model = String("model");
  using Task = ModelTask;
  config_.task = Choice<std::optional<Task>>(
      "task",
      {std::nullopt, Task::kCausalLm, Task::kSeq2Seq, Task::kTranscribe, Task::kTranscribe,
       Task::kClassify, Task::kQuestionAnswering, Task::kMaskedLm, Task::kClassifyImage},
      {}, std::optional<Task>());
  config_.ignore_mismatched_sizes = Switch("ignore-mismatched-sizes");
  config_.train.output = String("output");
  config_.data = flags_.data;
  Record("data", flags_.data, "--data");
  if (!flags_.model) Invalid("--model DIR is missing: a Hugging Face model directory");
  if (flags_.data.empty()) {
    Invalid("--data FILE... is missing: .txt, .jsonl, .csv, .bin or .npy files (docs/DATA.md)");
  }
  if (!flags_.output) Invalid("--output DIR is missing: where the run's results go");
  config_.tokenizer = String("tokenizer");
  config_.eos_token = String("eos-token");
  if (flags_.config) Record("config", *flags_.config, "--config");
  Record("download", flags_.download, flags_.download ? "--download" : "default");

  config_.text_keys.texts = Pick<std::vector<std::string>>("text-keys", {}, {}, ParseTextKeys);
  config_.text_keys.label = String("label-key");
  const double probability = Number("mask-probability");
  if (flags_.mask_probability) config_.mask_probability = probability;
  if (probability == 0) Invalid("--mask-probability 0: nothing would be learnt");
  QuestionOptions& questions = config_.questions;
  questions.doc_stride = Integer("doc-stride");
  questions.most_answer_tokens = Integer("max-answer-length");
  const double threshold = Number("null-score-threshold", {}, 0);
  if (flags_.null_score_threshold) questions.null_threshold = threshold;
  PairChoice& pairs = config_.pairs;
  pairs.given = flags_.source_key || flags_.target_key || flags_.source_prefix ||
                flags_.max_source_length || flags_.max_target_length;
  pairs.source_key_given = flags_.source_key.has_value();
  pairs.target_key_given = flags_.target_key.has_value();
  pairs.keys.source = String("source-key", pairs.keys.source);
  pairs.keys.target = String("target-key", pairs.keys.target);
  pairs.keys.source_prefix = String("source-prefix");
  pairs.max_source_length = Integer("max-source-length", {}, 0);
  pairs.max_target_length = Integer("max-target-length", {}, 0);
  config_.speech_given = flags_.language || flags_.transcribe_task;
  config_.speech.language = String("language");
  config_.speech.translates = Choice<bool>("transcribe-task", {false, true});
  config_.pictures.augment = Choice<std::optional<Augment>>(
      "augment", {std::nullopt, Augment::kNone, Augment::kCropFlip}, {}, std::optional<Augment>());
  config_.pictures.side = Integer("picture-size", {}, 0);
  config_.train.explain = flags_.explain;
  Record("explain", flags_.explain, flags_.explain ? "--explain" : "default");
  config_.train.tensorboard = Pick<std::string>(
      "tensorboard", file_.tensorboard, "",
      [](const std::string&, const std::string& text) -> absl::StatusOr<std::string> {
        return text;
      });
  config_.no_export = flags_.no_export;
  Record("no-export", flags_.no_export, flags_.no_export ? "--no-export" : "default");
  if (flags_.export_dtype) {
    config_.export_dtype =
        Choice<DType>("export-dtype", {DType::kFloat32, DType::kBFloat16, DType::kFloat16});
    if (flags_.no_export) Invalid("--export-dtype and --no-export contradict each other");
  }
}

void RunSettings::ResolveEvaluation() {
  config_.eval_data = flags_.eval_data;
  Record("eval-data", flags_.eval_data, flags_.eval_data.empty() ? "default" : "--eval-data");
  config_.train.eval_every_epoch = flags_.eval_every == "epoch";
  if (config_.train.eval_every_epoch) {
    Record("eval-every", "epoch", "--eval-every");
  } else if (const double part = PartOfRun(flags_.eval_every); part > 0) {
    config_.train.eval_part = part;
    Record("eval-every", part, "--eval-every");
  } else {
    config_.train.eval_every = Integer("eval-every");
  }
  if (flags_.eval_every && flags_.eval_data.empty()) {
    Invalid("--eval-every needs --eval-data FILE: data to evaluate on");
  }
  FlagChoices<std::string> metrics;
  for (const MeasureKind& kind : MeasureKinds()) metrics.emplace_back(kind.name, kind.name);
  Text metric = flags_.metric;
  // The Trainer's names are those of its logs.
  if (metric && absl::StartsWith(*metric, "eval_")) metric->erase(0, 5);
  config_.train.metric = ChoiceOf<std::string>("metric", metric, {}, "loss", metrics);
  if (flags_.metric && flags_.eval_data.empty()) {
    Invalid("--metric needs --eval-data FILE: data to evaluate on");
  }
}

void RunSettings::ResolveEvaluationTexts() {
  EvaluationTextsChoice& texts = config_.evaluation_texts;
  texts.made = Switch("predict-with-generate");
  if (texts.made && flags_.eval_data.empty()) {
    Invalid("--predict-with-generate needs --eval-data FILE: data of whose sources texts are made");
  }
  const auto how = [&](const char* name) {
    const bool given = Given(name).has_value();
    if (given && !texts.made) {
      Invalid(absl::StrCat("--", name,
                           " says how evaluations make texts: give --predict-with-generate, too"));
    }
    return given;
  };
  SamplingFlags& sampling = texts.sampling;
  if (how("num-beams")) {
    sampling.beams = Integer("num-beams");
  }
  if (how("length-penalty")) {
    sampling.length_penalty = Number("length-penalty");
  }
  if (how("min-tokens")) {
    sampling.min_tokens = Integer("min-tokens");
  }
  if (how("no-repeat-ngram")) {
    sampling.no_repeat_ngram = Integer("no-repeat-ngram");
  }
  if (how("generation-max-length")) {
    texts.max_length = Integer("generation-max-length");
  }
}

void RunSettings::ResolveSamplePrompts() {
  SamplePromptsChoice& samples = config_.sample_prompts;
  samples.file = String("sample-prompts");
  samples.new_tokens = Integer("sample-tokens");
  if (flags_.sample_prompts && flags_.eval_data.empty()) {
    Invalid("--sample-prompts needs --eval-data FILE: prompts are continued at every evaluation");
  }
  if (flags_.sample_tokens && !flags_.sample_prompts) {
    Invalid("--sample-tokens says how long texts behind --sample-prompts get: give that, too");
  }
}

void RunSettings::ResolveMachine() {
  TrainOptions& train = config_.train;
  train.device = Choice<std::string>("device", {"auto", "cpu", "cuda"});
  train.threads = static_cast<int>(Integer("threads"));
  train.device_memory_bytes = Size("device-memory");
  train.host_memory_bytes = Size("host-memory");

  using Engine = IoEngineOptions::Kind;
  train.io.kind = Choice<Engine>("io-engine", {Engine::kAuto, Engine::kUring, Engine::kThreads});
  const auto from_file = [&](const Setting<int64_t>& setting, uint32_t* value) {
    if (!setting.value) return;
    *value = static_cast<uint32_t>(*setting.value);
    Record(setting.key, *value, setting.where);
  };
  from_file(file_.aio_block_size, &train.io.block_bytes);
  from_file(file_.aio_queue_depth, &train.io.depth);
  from_file(file_.aio_threads, &train.io.threads);
  config_.io_given = {flags_.io_engine.has_value(), file_.aio_block_size.value.has_value(),
                      file_.aio_queue_depth.value.has_value(), file_.aio_threads.value.has_value()};
}

Offload RunSettings::ResolveOffload(const std::string& name, const Text& flag, const Text& general,
                                    const Setting<Offload>& setting) {
  const FlagChoices<Offload> choices =
      Words<Offload>("offload", {Offload::kAuto, Offload::kNone, Offload::kCpu, Offload::kNvme});
  // `auto` leaves it to the file, and that to the plan.
  const Text& said = flag ? flag : general;
  const std::string said_name = flag ? name : "offload";
  Offload offload = Offload::kAuto;
  std::string source = "default";
  const auto word_of = [&](Offload wanted) -> std::string {
    for (const auto& [word, choice] : choices) {
      if (choice == wanted) return word;
    }
    return "";
  };
  if (said) {
    const absl::StatusOr<Offload> parsed = ChoiceFlag(FlagName(said_name), *said, choices);
    Fail(parsed.status());
    offload = parsed.value_or(Offload::kAuto);
    source = FlagName(said_name);
  }
  if (offload == Offload::kAuto && setting.value) {
    offload = *setting.value;
    source = setting.where;
  }
  Record(name, word_of(offload), source);
  if (setting.value && source != setting.where) {
    RecordOverridden(word_of(*setting.value), setting.where);
  }
  return offload;
}

void RunSettings::ResolvePlacement() {
  TrainOptions& train = config_.train;
  train.offload_param =
      ResolveOffload("offload-param", flags_.offload_param, flags_.offload, file_.offload_param);
  train.offload_optimizer = ResolveOffload("offload-optimizer", flags_.offload_optimizer,
                                           flags_.offload, file_.offload_optimizer);
  // Not meant by --offload, which is about state.
  train.offload_activations =
      ResolveOffload("offload-activations", flags_.offload_activations, {}, {});
  ResolveSwapPaths();
  if (!train.swap_paths.empty()) return;
  const auto needs_place = [&](Offload offload, const Setting<Offload>& setting) {
    if (offload != Offload::kNvme) return;
    if (setting.value == Offload::kNvme) {
      Invalid(absl::StrCat(setting.where, ": '", setting.key,
                           "' is nvme, which needs a place: give nvme_path beside it, or "
                           "--swap PATH[,PATH...]"));
    }
    Invalid(
        "offloading to nvme needs a place: give --swap PATH[,PATH...] (or nvme_path in the "
        "config's offload block)");
  };
  needs_place(train.offload_param, file_.offload_param);
  needs_place(train.offload_optimizer, file_.offload_optimizer);
  needs_place(train.offload_activations, {});
}

void RunSettings::ResolveSwapPaths() {
  std::vector<std::string>& paths = config_.train.swap_paths;
  // What the file says. A path counts where its block's device is used.
  std::vector<std::string> file_paths;
  std::string file_source;
  const auto add = [&](Offload offload, const Setting<std::string>& path) {
    if (offload != Offload::kNvme || !path.value) return;
    if (std::find(file_paths.begin(), file_paths.end(), *path.value) != file_paths.end()) return;
    file_paths.push_back(*path.value);
    absl::StrAppend(&file_source, file_source.empty() ? "" : ", ", path.where);
  };
  add(config_.train.offload_param, file_.param_nvme_path);
  add(config_.train.offload_optimizer, file_.optimizer_nvme_path);
  if (flags_.swap) {
    absl::StatusOr<std::vector<std::string>> parsed = ListFlag("--swap", *flags_.swap);
    Fail(parsed.status());
    if (parsed.ok()) paths = *std::move(parsed);
    Record("swap", paths, "--swap");
    if (!file_paths.empty()) RecordOverridden(file_paths, file_source);
  } else {
    paths = file_paths;
    Record("swap", paths, paths.empty() ? "default" : file_source);
  }
  // As given in config.resolved.json, filled in for the run.
  for (std::string& path : paths) path = SwapPathOfRank(path, launch_.local_rank);
  for (size_t i = 0; i < paths.size(); ++i) {
    if (std::find(paths.begin(), paths.begin() + i, paths[i]) != paths.begin() + i) {
      Invalid(absl::StrCat("--swap names ", paths[i], " twice"));
    }
  }
}

void RunSettings::ResolveCommits() {
  TrainOptions& train = config_.train;
  ResolveCommitTimes();
  train.no_commit = flags_.no_commit;
  Record("no-commit", flags_.no_commit, flags_.no_commit ? "--no-commit" : "default");
  train.resume = flags_.resume;
  Record("resume", flags_.resume, flags_.resume ? "--resume" : "default");
  ResolveAllowedChanges();
  train.overwrite = flags_.overwrite;
  Record("overwrite", flags_.overwrite, flags_.overwrite ? "--overwrite" : "default");
  if (flags_.resume && flags_.overwrite) {
    Invalid(
        "--resume and --overwrite contradict each other: go on with the earlier run, or "
        "remove it");
  }
  train.persist = String("persist");
  if (flags_.persist && flags_.output &&
      DirectoryOf(*flags_.output) == DirectoryOf(*flags_.persist)) {
    Invalid("--persist and --output are the same directory: copies of commits need another");
  }
  train.keep = static_cast<int>(Integer("keep"));
  if (flags_.no_commit) {
    if (flags_.commit_every) Invalid("--no-commit and --commit-every contradict each other");
    if (flags_.persist) Invalid("--no-commit and --persist contradict each other");
  }
  if (flags_.keep && !flags_.persist) {
    Note("--keep says how many commits stay in --persist DIR; without it there is one, the last");
  }
}

// Steps, a time, or auto.
void RunSettings::ResolveCommitTimes() {
  TrainOptions& train = config_.train;
  const std::string text = flags_.commit_every.value_or(flags_.no_commit ? "0" : "auto");
  const bool is_time = !text.empty() && std::string("smh").find(text.back()) != std::string::npos;
  nlohmann::json value = text;
  if (train.commit_part = PartOfRun(text); train.commit_part > 0) {
    value = train.commit_part;
  } else if (text == "auto") {
    train.commit_seconds = kAutoCommitSeconds;
    train.commit_cost_part = kAutoCommitCostPart;
  } else {
    absl::StatusOr<double> seconds = 0.0;
    absl::StatusOr<int64_t> steps = 0;
    if (is_time) {
      seconds = DurationFlag("--commit-every", text);
    } else {
      steps = IntegerFlag("--commit-every", text, 0, kMost);
    }
    if (!seconds.ok() || !steps.ok()) {
      Fail(BadFlagValue("--commit-every", text,
                        "auto (by time), so many steps (500), a time (15m), or 0 for none"));
    }
    train.commit_seconds = seconds.value_or(0);
    train.commit_every = steps.value_or(0);
    if (!is_time) value = train.commit_every;
  }
  Record("commit-every", std::move(value),
         flags_.commit_every ? "--commit-every"
         : flags_.no_commit  ? "--no-commit"
                             : "default");
}

void RunSettings::ResolveAllowedChanges() {
  std::vector<std::string>& allowed = config_.train.allow_change;
  if (flags_.allow_change) {
    absl::StatusOr<std::vector<std::string>> parsed =
        ListFlag("--allow-change", *flags_.allow_change);
    Fail(parsed.status());
    allowed = std::move(parsed).value_or(std::vector<std::string>());
    if (!flags_.resume) Invalid("--allow-change says what --resume may change: give --resume");
  }
  const std::vector<std::string>& names = ChangeableNames();
  for (const std::string& name : allowed) {
    if (name == "dtype") {
      Invalid(
          "--allow-change dtype: a commit holds the state in the run's dtype, which stays; to go "
          "on in another, export it (spillway export) and start a run from that model");
    } else if (std::find(names.begin(), names.end(), name) == names.end()) {
      Fail(BadFlagValue("--allow-change", name, absl::StrJoin(names, ", ")));
    }
  }
  Record("allow-change", allowed, flags_.allow_change ? "--allow-change" : "default");
}

// "20" is the first twenty of this process, "100-109" those ten.
void RunSettings::ResolveTrace() {
  TraceOptions& trace = config_.train.trace;
  trace.path = String("trace");
  String("trace-steps", DefaultOf("trace-steps"));
  if (!flags_.trace_steps) return;
  if (!flags_.trace) return Invalid("--trace-steps needs --trace FILE: where the trace goes");
  const std::string& text = *flags_.trace_steps;
  const size_t dash = text.find('-', 1);
  const auto number = [&](const std::string& part) -> int64_t {
    const absl::StatusOr<int64_t> value = IntegerFlag("--trace-steps", part, 1, kMost);
    if (!value.ok())
      Fail(BadFlagValue("--trace-steps", text,
                        "a count (20), or the first and the "
                        "last step (100-109)"));
    return value.value_or(1);
  };
  if (dash == std::string::npos) {
    trace.steps = number(text);
    return;
  }
  trace.first_step = number(text.substr(0, dash));
  const int64_t last = number(text.substr(dash + 1));
  if (last < trace.first_step) {
    Invalid(absl::StrCat("--trace-steps ", text, ": the last step is before the first"));
  }
  trace.steps = last - trace.first_step + 1;
}

void RunSettings::ResolveWrites() {
  TrainOptions& train = config_.train;
  train.max_bytes_written = Size("max-bytes-written");
  train.drive_bytes_per_day = static_cast<double>(Size("drive-writes-per-day"));
}

// Commits, and an adapter's config, name these paths in JSON.
void RunSettings::CheckPaths() {
  const auto check = [&](const char* flag, const std::string& path) {
    const std::string real = DirectoryOf(path);
    if (ValidUtf8Prefix(real) == real.size()) return;
    Invalid(
        absl::StrCat(flag, " ", absl::CHexEscape(path), ": ", absl::CHexEscape(real),
                     " is not UTF-8, in which the run writes its paths down: give one that is"));
  };
  if (flags_.output) check("--output", *flags_.output);
  for (const std::string& path : config_.train.swap_paths) check("--swap", path);
  if (flags_.persist) check("--persist", *flags_.persist);
  if (flags_.model && !config_.adapter.none()) check("--model", *flags_.model);
}

void RunSettings::NoteOtherKeys() {
  for (const std::string& note : file_.notes) Note(note);
  config_.warnings = file_.warnings;
  if (!file_.decided_by_plan.empty()) {
    Note(absl::StrCat(file_.file,
                      ": decided by the plan: ", absl::StrJoin(file_.decided_by_plan, ", ")));
    Record("decided_by_plan", file_.decided_by_plan, file_.file);
  }
  if (!file_.without_effect.empty()) {
    Note(absl::StrCat(file_.file,
                      ": without effect here: ", absl::StrJoin(file_.without_effect, ", ")));
    Record("without_effect", file_.without_effect, file_.file);
  }
}

// Says where a recipe has what came of its settings, and what it has that flags replaced.
void NamePlaces(const TrainFlags& flags, RunConfig& config, std::vector<absl::Status>& errors) {
  for (ResolvedValue& value : config.values) {
    const auto place = flags.places.find(value.source);
    const bool from_flag = absl::StartsWith(value.source, "--");
    if (place != flags.places.end()) value.source = place->second;
    for (const TrainFlags::Said& said : flags.overridden) {
      if (said.name != value.name || !from_flag || !value.file_source.empty()) continue;
      value.file_value = said.value;
      value.file_source = said.where;
    }
  }
  for (absl::Status& error : errors) {
    const std::string flag(error.message().substr(0, error.message().find_first_of(" :,")));
    const auto place = flags.places.find(flag);
    if (place != flags.places.end()) error = Annotate(error, place->second);
  }
}

// An earlier run's settings have to come to what they came to: its DeepSpeed file, or a value in
// its config.resolved.json, may have been changed since.
void CheckExpected(const TrainFlags& flags, const RunConfig& config,
                   std::vector<absl::Status>& errors) {
  // These had what was found on the machine.
  constexpr const char* kFound[] = {"device", "compute", "device-memory", "host-memory"};
  for (const TrainFlags::Said& said : flags.expected) {
    if (absl::c_linear_search(kFound, said.name)) continue;
    for (const ResolvedValue& value : config.values) {
      const bool open = value.value == "auto" || value.value == "" || value.value == 0;
      if (value.name != said.name || open || value.value.dump() == said.value) continue;
      errors.push_back(absl::InvalidArgumentError(absl::StrCat(
          said.where, ": ", said.name, " was ", std::string(said.value), ", and is now ",
          value.value.dump(), " (", value.source, "): change it by its flag, which wins")));
    }
  }
}

}  // namespace

absl::StatusOr<RunConfig> ResolveRunConfig(const TrainFlags& given, const Launch& launch) {
  TrainFlags flags = given;
  RunConfig config;
  RETURN_IF_ERROR(TakeConfigFile(&flags));
  config.given = GivenFlags(flags);
  std::vector<absl::Status> errors = TranslateTrainerFlags(&flags);
  DeepSpeedConfig file;
  if (flags.config) {
    absl::StatusOr<DeepSpeedConfig> read =
        flags.recipe ? ReadDeepSpeedConfig(*flags.config)
                     : ParseDeepSpeedConfig(*flags.config_text, *flags.config);
    if (!read.ok()) {
      errors.push_back(
          absl::InvalidArgumentError(absl::StrCat("--config: ", read.status().message())));
      NamePlaces(flags, config, errors);
      return AllErrors(errors);
    }
    file = *std::move(read);
  }
  if (!flags.without_effect.empty()) {
    config.notes.push_back(
        absl::StrCat("without effect here: ", absl::StrJoin(flags.without_effect, ", ")));
    config.values.push_back({"flags_without_effect", flags.without_effect, "flags"});
  }
  RunSettings({flags, file, launch, config, errors}).Resolve();
  NamePlaces(flags, config, errors);
  CheckExpected(flags, config, errors);
  RETURN_IF_ERROR(AllErrors(errors));
  if (flags.recipe) config.values.push_back({"recipe", *flags.recipe, "--config"});
  return config;
}

bool SettingFitsTask(absl::string_view setting, ModelTask task) {
  const TrainFlag* const row = FindTrainFlag(absl::StrCat("--", setting));
  return row == nullptr || row->tasks.empty() || absl::c_linear_search(row->tasks, task);
}

absl::Status CheckSettingsFitTask(const RunConfig& config, ModelTask task,
                                  absl::string_view model_does) {
  std::map<std::vector<ModelTask>, std::vector<std::string>> others;  // by what they are for
  for (const ResolvedValue& value : config.values) {
    const nlohmann::json& said = value.value;
    const bool off = said.empty() || said == false || said == 0 || said == "auto" || said == "";
    const bool given = !absl::StartsWith(value.source, "default") && value.source != "derived";
    if (!given || off || SettingFitsTask(value.name, task)) continue;
    const std::string flag = absl::StrCat("--", value.name);
    others[FindTrainFlag(flag)->tasks].push_back(flag);
  }
  std::vector<absl::Status> errors;
  for (const auto& [tasks, flags] : others) {
    const auto name = [](std::string* out, ModelTask one) {
      absl::StrAppend(out, ModelTaskName(one));
    };
    errors.push_back(absl::InvalidArgumentError(absl::StrCat(
        absl::StrJoin(flags, ", "), flags.size() == 1 ? " is" : " are", " for --task ",
        absl::StrJoin(tasks, ", ", name), ", and ", config.model, " ", model_does,
        flags[0] == "--seq-len" ? "; --max-source-length and --max-target-length limit pairs of "
                                  "texts, --max-target-length the texts of sounds"
                                : "")));
  }
  return AllErrors(errors);
}

nlohmann::json ResolvedConfigJson(const RunConfig& config) {
  nlohmann::json resolved = nlohmann::json::object();
  for (const ResolvedValue& value : config.values) {
    nlohmann::json& entry = resolved[value.name];
    entry = {{"value", value.value}, {"source", value.source}};
    if (!value.file_source.empty()) {
      entry["overrides"] = {{"value", value.file_value}, {"source", value.file_source}};
    }
  }
  if (!config.given.is_null()) resolved["given"] = {{"value", config.given}, {"source", "flags"}};
  return resolved;
}

void RecordFound(RunConfig* config, absl::string_view name, nlohmann::json value) {
  for (ResolvedValue& each : config->values) {
    if (each.name != name) continue;
    each.value = std::move(value);
    if (absl::StartsWith(each.source, "default")) each.source = "derived";
    return;
  }
}

void TuneRunConfig(RunConfig* config) {
  const std::optional<TunedEntry> entry = FindTuning(config->train.swap_paths);
  if (!entry) return;
  const IoGiven& given = config->io_given;
  IoEngineOptions& io = config->train.io;
  ApplyTuning(*entry, given, &io);
  const auto record = [&](bool is_given, const char* name, nlohmann::json value) {
    if (is_given) return;
    for (ResolvedValue& each : config->values) {
      if (each.name != name) continue;
      each.value = value;
      each.source = "tune";
      return;
    }
    config->values.push_back({name, std::move(value), "tune"});
  };
  record(given.kind, "io-engine", entry->engine);
  record(given.block_bytes, "aio.block_size", io.block_bytes);
  record(given.depth, "aio.queue_depth", io.depth);
  record(given.threads, "aio.intra_op_parallelism", io.threads);
}

}  // namespace spillway
