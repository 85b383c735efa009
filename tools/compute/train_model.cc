// spillway train, after its flags are checked: from a model directory and data to a trained model.
#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/civil_time.h"
#include "engine/adapters/adapter_choice.h"
#include "engine/adapters/adapter_export.h"
#include "engine/adapters/adapter_file.h"
#include "engine/adapters/adapter_layout.h"
#include "engine/adapters/tied_logits.h"
#include "engine/base/progress.h"
#include "engine/base/shell_line.h"
#include "engine/base/stop_signal.h"
#include "engine/chat/chat_format.h"
#include "engine/config/run_config.h"
#include "engine/data/char_tokenizer.h"
#include "engine/data/data_encoder.h"
#include "engine/data/data_file.h"
#include "engine/data/load_tokenizer.h"
#include "engine/estimate/model_costs.h"
#include "engine/families/model_config.h"
#include "engine/families/model_task.h"
#include "engine/layers/build_model.h"
#include "engine/machine/memory_limits.h"
#include "engine/report/metrics.h"
#include "engine/run/committed_run.h"
#include "engine/run/kept_state.h"
#include "engine/tasks/evaluation_metric.h"
#include "engine/tasks/task.h"
#include "engine/tokenizers/tokenizer.h"
#include "engine/torch/adapted_model.h"
#include "engine/torch/init_source.h"
#include "engine/torch/train.h"
#include "engine/train/run_context.h"
#include "engine/weights/model_directory.h"
#include "engine/weights/model_files.h"
#include "engine/weights/named_weights.h"
#include "engine/weights/safetensors_model.h"
#include "engine/weights/state_source.h"
#include "engine/weights/weight_source.h"
#include "io/base/format_bytes.h"
#include "io/base/log.h"
#include "io/base/status.h"
#include "io/base/terminal.h"
#include "io/checksum.h"
#include "io/file_system.h"
#include "tools/compute/compute_commands.h"

namespace spillway {
namespace {

// Everything that is checked before OUTPUT is changed.
struct Inputs {
  RunConfig config;
  const Task* task = nullptr;
  ModelConfig model_config;
  Model model;
  std::unique_ptr<SafetensorsModel> weights_files;
  std::unique_ptr<WeightSource> new_head;      // the head's parameters that the files may lack
  std::set<std::string> grown;                 // parameters with more rows than in the files
  std::unique_ptr<WeightSource> base_weights;  // null: drawn randomly
  // Adapters, if any.
  nlohmann::json adapter_config;
  std::unique_ptr<AdapterFile> adapter;  // null: new adapters
  std::unique_ptr<WeightSource> initial;
  std::unique_ptr<WeightSource> weights;  // null: base_weights
  std::unique_ptr<Tokenizer> tokenizer;
  std::unique_ptr<Tokenizer> exported_tokenizer;  // the model's, if data has token ids
  std::unique_ptr<TaskData> data;
  bool began = false;  // this process takes steps: an export is removed
};

std::string DigestOf(const nlohmann::json& json) {
  const std::string text = json.dump();
  return absl::StrFormat("%016x", Checksum(text.data(), text.size()));
}

// Names of tensors in the model's files, as this run reads them.
TensorNames NamesOf(const Inputs& in) {
  TensorNames names = TensorNamesOf(in.model_config);
  names.ignores_sizes = in.config.ignore_mismatched_sizes;
  names.grown = in.grown;
  return names;
}

// Modules with parameters that the model's files lack: those of a new head.
std::vector<std::string> NewModules(const Inputs& in) {
  if (!in.weights_files) return {};
  std::set<std::string> known;
  const auto there = ParametersOfTensors(NamesOf(in), *in.weights_files);
  for (const auto& [tensor, parameter] : there) known.insert(parameter);
  std::vector<std::string> modules;
  for (const UnitDescription& unit : in.model_config.shape.model.units) {
    for (const ParameterDescription& parameter : unit.parameters) {
      if (known.count(parameter.name) == 0) modules.push_back(ModuleOf(parameter.name));
    }
  }
  return modules;
}

// Reports how rows of new tokens are trained beside adapters.
void SayWhatTrainsNewTokens(const Inputs& in, const AdapterLayout& layout) {
  if (in.grown.empty()) return;
  std::vector<std::string> left;
  for (const std::string& name : in.grown) {
    if (layout.trained.contains(name)) continue;
    const std::string module = ModuleOf(name);
    left.push_back(module.substr(module.rfind('.') + 1));
  }
  if (!left.empty()) {
    LogWarning(absl::StrCat("adapters leave the rows of new tokens as they are: --modules-to-save ",
                            absl::StrJoin(left, ","), " trains them"));
  }
  LogInfo(
      absl::StrCat("before PEFT loads the adapter, its model has to grow likewise: "
                   "model.resize_token_embeddings(",
                   in.model_config.transformer.vocabulary, ")"));
}

// Adds adapters to the model. REQUIRES: the run trains adapters.
absl::Status AddAdapters(Inputs& in) {
  RunConfig& config = in.config;
  config.adapter.new_modules = NewModules(in);
  ASSIGN_OR_RETURN(LoraConfig lora, ResolveLora(config.adapter, in.model_config.shape));
  std::string came_from = "new";
  if (!config.adapter.directory.empty()) {
    ASSIGN_OR_RETURN(in.adapter, AdapterFile::Open(config.adapter.directory));
    ASSIGN_OR_RETURN(came_from, in.adapter->Fingerprint());
  }
  ASSIGN_OR_RETURN(AdaptedModel adapted, AdaptModel(in.model, lora, /*training=*/true));
  const AdapterLayout& layout = adapted.layout;
  if (in.adapter) {
    RETURN_IF_ERROR(
        in.adapter->Match(in.model_config.shape.model, layout, TensorNamesOf(in.model_config)));
  }
  for (const std::string& pattern : lora.UnusedPatterns(layout.modules())) {
    LogWarning(absl::StrCat("LoRA: ", pattern, " is the pattern of no layer that is adapted"));
  }
  in.model = std::move(adapted.model);
  in.initial = std::make_unique<InitSource>(in.model, config.train.seed);
  in.weights =
      std::make_unique<AdaptedWeights>(in.base_weights.get(), in.adapter.get(), in.initial.get());
  // PEFT expands this name to the list of modules.
  if (lora.targets == std::vector<std::string>{kAllLinear}) {
    lora.targets = layout.targets();
    const std::vector<std::string> excluded = layout.excluded();
    lora.excluded.insert(lora.excluded.end(), excluded.begin(), excluded.end());
  }
  ASSIGN_OR_RETURN(const std::string model, AbsolutePath(config.model));
  in.adapter_config = AdapterConfigJson(lora, model, in.model_config.transformer.conv1d);
  nlohmann::json decisive = in.adapter_config;
  decisive.erase("base_model_name_or_path");
  config.train.identity.emplace_back("adapters",
                                     absl::StrCat("LoRA ", DigestOf(decisive), " ", came_from));
  const size_t matrices = layout.weights().size();
  std::string text = absl::StrCat("LoRA: ", layout.parameters(), " parameters beside ", matrices,
                                  matrices == 1 ? " matrix" : " matrices");
  if (!layout.trained.empty()) {
    absl::StrAppend(&text, "; trained as well: ", *layout.trained.begin());
    const size_t more = layout.trained.size() - 1;
    if (more > 0) absl::StrAppend(&text, " and ", more, " more");
  }
  LogInfo(text);
  SayWhatTrainsNewTokens(in, layout);
  return absl::OkStatus();
}

// Quantised weights stay quantised, unless another form was requested.
absl::Status KeepQuantised(Inputs& in) {
  FreezeRule& freeze = in.config.train.freeze;
  PackedMatrices packed = PackedMatricesOf(TensorNamesOf(in.model_config), *in.base_weights);
  if (packed.format == PackedFormat::kNone) return absl::OkStatus();
  const bool trains_all =
      in.config.adapter.none() && freeze.freeze.empty() && freeze.train_only.empty();
  if (trains_all) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the weights in ", in.config.model, " are quantised (",
        std::string(PackedFormatName(packed.format)),
        "), which can't be trained themselves: train adapters beside them (--lora-r 16), or freeze "
        "them (--freeze)"));
  }
  if (freeze.packing.any()) return absl::OkStatus();
  freeze.packing.format = packed.format;
  // Excludes what bitsandbytes excluded (llm_int8_skip_modules).
  freeze.packed = std::move(packed.names);
  return absl::OkStatus();
}

// Memory for reading before the budgets are in use.
uint64_t ReadingBytes(const Inputs& in) {
  return MemoryForReading(in.config.train.device_memory_bytes, in.config.train.host_memory_bytes);
}

// Data of token ids needs no tokenizer, but users of the export do.
void LoadExportedTokenizer(Inputs& in) {
  const std::string& model = in.config.model;
  const auto load = [&]() -> absl::StatusOr<std::unique_ptr<Tokenizer>> {
    RETURN_IF_ERROR(CheckTokenizerMemory(model, ReadingBytes(in)));
    return LoadTokenizer(model, in.config.eos_token);
  };
  auto loaded = load();
  if (loaded.ok()) {
    in.exported_tokenizer = *std::move(loaded);
  } else if (!absl::IsNotFound(loaded.status())) {
    LogWarning(
        absl::StrCat("the model's tokenizer will not be exported: ", loaded.status().message()));
  }
}

// Checks that the data files exist, and have formats that the task reads.
absl::Status CheckData(const Inputs& in) {
  const RunConfig& config = in.config;
  for (const auto& [flag, files] :
       {std::pair{"--data", &config.data}, std::pair{"--eval-data", &config.eval_data}}) {
    for (const std::string& file : *files) {
      RETURN_IF_ERROR(in.task->CheckFile(flag, file, config.model));
    }
  }
  return absl::OkStatus();
}

// Adds rows for tokens of the tokenizer that the model lacks to the matrices of tokens and logits.
absl::Status GrowVocabulary(Inputs& in) {
  if (!in.tokenizer || in.tokenizer->kind() == "chars" || in.tokenizer->kind() == "bytes") {
    return absl::OkStatus();
  }
  const int64_t had = in.model_config.transformer.vocabulary;
  const int64_t has = in.tokenizer->vocabulary_size();
  if (has <= had) return absl::OkStatus();
  nlohmann::json config = in.model_config.original;
  config["vocab_size"] = has;
  ASSIGN_OR_RETURN(in.model_config, ParseAgain(in.model_config, std::move(config),
                                               in.config.model + "/config.json", in.config.task));
  in.grown = ParametersByToken(in.model_config.transformer);
  LogInfo(absl::StrCat("the tokenizer has ", has, " tokens, and the model ", had, ": ",
                       absl::StrJoin(in.grown, ", "), " grow by ", has - had,
                       has - had == 1 ? " row" : " rows", ", the mean of the others"));
  return absl::OkStatus();
}

// REQUIRES: the task reads texts.
absl::Status OpenRunTokenizer(Inputs& in) {
  const RunConfig& config = in.config;
  const std::string choice =
      !in.task->reads_token_ids() && config.tokenizer.empty() ? "model" : config.tokenizer;
  RETURN_IF_ERROR(CheckTokenizerMemory(TokenizerDirectory(choice, config.model), ReadingBytes(in)));
  ASSIGN_OR_RETURN(in.tokenizer,
                   MakeTokenizer(choice, config.model, config.data, config.eos_token));
  const bool has_prompts = !config.sample_prompts.file.empty();
  if (!in.tokenizer &&
      (has_prompts || std::any_of(config.eval_data.begin(), config.eval_data.end(), IsText))) {
    // Held-out texts and prompts need a tokenizer, even if the training data is token ids.
    auto loaded = LoadTokenizer(config.model, config.eos_token);
    if (!loaded.ok() && !absl::IsNotFound(loaded.status())) return loaded.status();
    if (loaded.ok()) in.tokenizer = *std::move(loaded);
  }
  return absl::OkStatus();
}

// The state that --resume continues from, as far as it can be read now; none: there is none yet.
std::optional<RunState> StateToResume(const TrainOptions& options) {
  if (!options.resume) return std::nullopt;
  auto committed = ReadCommittedState(options.output);
  if (committed.ok()) return *std::move(committed);
  if (options.persist.empty()) return std::nullopt;
  // Tries the newest copy of a commit.
  FileSystem& files = FileSystem::Real();
  auto names = files.List(options.persist);
  if (!names.ok()) return std::nullopt;
  std::sort(names->rbegin(), names->rend());
  for (const std::string& name : *names) {
    auto copy =
        ReadManifestState(CommitManifestPath(absl::StrCat(options.persist, "/", name)), files);
    if (copy.ok()) return *std::move(copy);
  }
  return std::nullopt;
}

// Resolves the layout of samples and the date of a chat template if no flag sets them: a resumed
// run uses its previous values, a new one today's date.
void TakeFromCommit(Inputs& in) {
  RunConfig& config = in.config;
  const std::optional<RunState> state = StateToResume(config.train);
  if (!state) {
    if (!config.chat_clock) config.chat_clock = absl::CivilSecond(absl::CivilDay(*ChatTimeNow()));
    return;
  }
  std::string samples, date;
  for (const auto& [name, value] : state->identity) {
    if (name == kSamplesName) samples = value;
    if (name == kChatDateName) date = value;
  }
  absl::CivilDay day;
  if (!config.chat_clock && absl::ParseCivilTime(date, &day)) {
    config.chat_clock = absl::CivilSecond(day);
  }
  if (config.samples != SampleLayout::kByData) return;
  config.samples = absl::StartsWith(samples, "padded")   ? SampleLayout::kPadded
                   : absl::StartsWith(samples, "packed") ? SampleLayout::kPacked
                                                         : SampleLayout::kWindows;
  if (samples.empty() && !config.data.empty() && IsText(config.data.front())) {
    LogInfo("--samples windows, as the run began");
  }
}

// Reads everything except the config, which is known.
absl::Status ReadInputs(Inputs& in) {
  RunConfig& config = in.config;
  RETURN_IF_ERROR(CheckModelDirectory(config.model));
  RETURN_IF_ERROR(CheckSideFiles(config.model));
  ASSIGN_OR_RETURN(in.model_config, ReadModelConfig(config.model, config.task));
  for (const std::string& warning : in.model_config.warnings) LogWarning(warning);
  if (const std::string& adapter = config.adapter.directory; !adapter.empty()) {
    RETURN_IF_ERROR(
        AnnotateAdapter(UntieForAdapter(adapter, config.model, &in.model_config), adapter));
  }
  in.task = &TaskOf(in.model_config);
  const Task& task = *in.task;
  RETURN_IF_ERROR(CheckData(in));
  RETURN_IF_ERROR(CheckSettingsFitTask(config, task.kind(), task.model_does()));
  RETURN_IF_ERROR(task.ReadLabels(config, in.model_config));
  TakeFromCommit(in);
  RETURN_IF_ERROR(task.Resolve(config, in.model_config));
  if (task.reads_texts()) {
    RETURN_IF_ERROR(OpenRunTokenizer(in));
    RETURN_IF_ERROR(GrowVocabulary(in));
  }
  ASSIGN_OR_RETURN(in.model, BuildModel(in.model_config));
  RETURN_IF_ERROR(ResolveMetric(task, in.model, config));

  std::string weights_identity = "initialised";
  auto files = SafetensorsModel::Open(config.model);
  if (files.ok()) {
    in.weights_files = *std::move(files);
    ASSIGN_OR_RETURN(config.train.model_directory, AbsolutePath(config.model));
    in.new_head = std::make_unique<InitSource>(in.model, config.train.seed);
    auto base = OpenNamedWeights(NamesOf(in), in.weights_files.get(), in.new_head.get());
    if (!base.ok()) {
      return task.ExplainShapes(config, in.model_config, NamesOf(in), *in.weights_files,
                                base.status());
    }
    in.base_weights = *std::move(base);
    RETURN_IF_ERROR(KeepQuantised(in));
    ASSIGN_OR_RETURN(weights_identity, in.weights_files->Fingerprint());
  } else if (absl::IsNotFound(files.status())) {
    LogInfo(absl::StrCat("no weights in ", config.model,
                         ": starting from the architecture's "
                         "initial values, seed ",
                         config.train.seed));
  } else {
    return files.status();
  }

  ASSIGN_OR_RETURN(in.data, task.OpenData({config, in.model_config, in.tokenizer.get()}));
  if (task.reads_texts() && !in.tokenizer && config.train.rank == 0) LoadExportedTokenizer(in);
  if (auto measured = in.data->measured_loss()) in.model.loss = std::move(measured);
  config.samples = in.data->layout();
  config.train.data_size = in.data->train_size();
  config.train.evaluation_size = in.data->evaluation_size();
  config.train.data_name = absl::StrJoin(config.data, ",");
  // Everything that needs encoding has been encoded.
  for (Tokenizer* one : {in.tokenizer.get(), in.exported_tokenizer.get()}) {
    if (one != nullptr) one->ForgetEncoding();
  }
  const std::string description = in.model_config.original.dump();
  config.train.identity = {
      {"model",
       absl::StrFormat("%016x, weights %s", Checksum(description.data(), description.size()),
                       weights_identity)},
      {"tokenizer", in.tokenizer ? in.tokenizer->fingerprint() : "none"},
  };
  for (auto& one : in.data->Identity()) config.train.identity.push_back(std::move(one));
  if (config.adapter.none()) return absl::OkStatus();
  const absl::Status added = AddAdapters(in);
  const std::string& former = config.adapter.directory;
  return former.empty() ? added : AnnotateAdapter(added, former);
}

// The dtype of an export: the requested one, or that of the weights the run started from.
DType ExportDType(const Inputs& in) {
  if (in.config.export_dtype) return *in.config.export_dtype;
  return in.weights_files ? in.weights_files->dtype() : DType::kFloat32;
}

std::string AdapterConfigIn(const std::string& directory) {
  return absl::StrCat(directory, "/", kAdapterConfigName);
}

// Values that follow from the model, the data and the machine; null: not used by the run.
void RecordDerived(Inputs& in, const TrainOptions& used) {
  RunConfig& config = in.config;
  const Task& task = *in.task;
  const auto record = [&](const char* name, bool has, nlohmann::json value) {
    const bool fits = has && SettingFitsTask(name, task.kind());
    RecordFound(&config, name, fits ? std::move(value) : nlohmann::json());
  };
  record("task", true, ModelTaskName(task.kind()));
  // Without a tokenizer file, text is read by characters.
  const bool by_characters = in.tokenizer && in.tokenizer->kind() == "chars" &&
                             !Exists(absl::StrCat(config.model, "/", kCharsFile));
  record("tokenizer", in.tokenizer != nullptr,
         !config.tokenizer.empty() ? config.tokenizer
         : by_characters           ? "chars"
                                   : "model");
  record("seq-len", true, config.seq_len);
  record("samples", task.lays_samples(),
         config.samples == SampleLayout::kPadded   ? "padded"
         : config.samples == SampleLayout::kPacked ? "packed"
                                                   : "windows");
  const auto chat = in.tokenizer ? in.tokenizer->chat() : absl::NotFoundError("");
  record("chat-date",
         task.lays_samples() && chat.ok() && (*chat)->reads_clock() && config.chat_clock,
         config.chat_clock ? absl::FormatCivilTime(absl::CivilDay(*config.chat_clock)) : "");
  const PairChoice& pairs = config.pairs;
  record("source-key", true, pairs.keys.source);
  record("target-key", true, pairs.keys.target);
  record("max-source-length", true, pairs.max_source_length);
  record("max-target-length", true, pairs.max_target_length);
  record("steps", used.steps > 0, used.steps);
  record("threads", used.threads > 0, used.threads);
  record("compute", used.compute.has_value(), used.compute_name());
  record("device-memory", used.device_memory_bytes > 0, used.device_memory_bytes);
  record("host-memory", used.host_memory_bytes > 0, used.host_memory_bytes);
}

// Writes OUTPUT's files about the run besides its state, before the first step.
absl::Status WriteDescription(Inputs& in, const TrainOptions& used) {
  RecordDerived(in, used);
  const RunConfig& config = in.config;
  // An export after fewer steps (if this run continues) is no longer complete.
  for (const std::string& last : {std::string("/model/config.json"), AdapterConfigIn("/adapter")}) {
    RETURN_IF_ERROR(Annotate(RemoveIfThere(FileSystem::Real(), config.train.output + last),
                             "remove the export of an earlier step"));
  }
  in.began = true;
  const nlohmann::json exported = ExportedConfig(in.model_config);
  const TensorNames names = TensorNamesOf(in.model_config);
  std::optional<DType> dtype = config.export_dtype;
  if (!dtype && !in.weights_files) dtype = DType::kFloat32;
  RETURN_IF_ERROR(
      SaveModelFiles({.config = exported,
                      .directory = config.model,
                      .tokenizer = in.tokenizer ? in.tokenizer.get() : in.exported_tokenizer.get(),
                      .names = &names,
                      .dtype = dtype,
                      .ends = in.data->LearntEnds()},
                     SourceDirectory(config.train.output)));
  for (const auto& [name, content] : in.data->ModelFiles()) {
    RETURN_IF_ERROR(
        WriteFileAtomically(absl::StrCat(SourceDirectory(config.train.output), "/", name), content,
                            FileAccess::kShared));
  }
  RETURN_IF_ERROR(SaveAdapterConfig(in.adapter_config, SourceDirectory(config.train.output)));
  return WriteFileAtomically(
      config.train.output + "/config.resolved.json",
      ResolvedConfigJson(config).dump(2, ' ', false, nlohmann::json::error_handler_t::replace) +
          "\n",
      FileAccess::kShared);
}

// A run that had finished writes nothing at its start, and its commit may be a copy of one whose
// OUTPUT was lost.
absl::Status DescribeIfMissing(Inputs& in) {
  if (Exists(SourceDirectory(in.config.train.output) + "/config.json")) return absl::OkStatus();
  return WriteDescription(in, in.config.train);
}

// Whether there is nothing to export. An export that appeared during the run belongs to another
// program, and is not replaced.
bool ExportStays(const Inputs& in, const std::string& config) {
  if (in.config.no_export) return true;
  if (!Exists(config)) return false;
  if (in.began) {
    LogWarning(absl::StrCat(config,
                            " appeared while the run worked and is not this run's: nothing is "
                            "exported there; spillway export --from ",
                            in.config.train.output, " --to DIR writes what was trained"));
  }
  return true;
}

// Exports OUTPUT/adapter/, if it does not exist.
absl::Status ExportTrainedAdapter(const Inputs& in, const StateSource& state) {
  const std::string directory = in.config.train.output + "/adapter";
  if (ExportStays(in, AdapterConfigIn(directory))) return absl::OkStatus();
  const DType dtype = in.config.export_dtype.value_or(DType::kFloat32);
  RETURN_IF_ERROR(
      ExportAdapter(state, in.adapter_config, dtype, directory, TensorNamesOf(in.model_config)));
  LogResult(absl::StrCat("the adapter is in ", directory, " (", std::string(DTypeName(dtype)),
                         " safetensors, as PEFT reads it); merged into the model: spillway export "
                         "--merge --from ",
                         in.config.train.output, " --to DIR"));
  if (!state.buffers.empty()) {
    LogInfo(
        "  the running statistics of its norms, which training has changed, are no part of an "
        "adapter: predict --model OUTPUT and export --merge have them");
  }
  return absl::OkStatus();
}

// Exports OUTPUT/model/, if it does not exist.
absl::Status ExportTrained(const Inputs& in, const StateSource& state) {
  const std::string directory = in.config.train.output + "/model";
  if (ExportStays(in, directory + "/config.json")) return absl::OkStatus();
  ModelExportOptions options = {.dtype = in.config.export_dtype};
  options.original = in.base_weights.get();
  ASSIGN_OR_RETURN(const DType dtype,
                   ExportModel(state, SourceDirectory(in.config.train.output), directory, options));
  LogResult(absl::StrCat("exported to ", directory, " (", std::string(DTypeName(dtype)),
                         " safetensors)"));
  return absl::OkStatus();
}

// Bytes a parameter of OUTPUT/model/.
uint64_t ExportBytes(const Inputs& in) {
  if (in.config.no_export || !in.adapter_config.is_null()) return 0;
  return ExportDType(in) == DType::kFloat32 ? 4 : 2;
}

// None if batches may be smaller than the shape allows.
std::optional<ComputeGuess> GuessCompute(const Inputs& in) {
  const RunConfig& config = in.config;
  if (!in.task->all_batches_are_alike(config)) return std::nullopt;
  const ModelShape& shape = in.model_config.shape;
  const auto trained = DescribeTrained(shape, config.adapter, config.train.freeze);
  if (!trained.ok()) return std::nullopt;  // training reports the error
  // No machine has memory for more tokens, and byte counts do not overflow.
  constexpr int64_t kMostTokens = int64_t{1} << 40;
  StepShape step = {config.train.micro_batch, config.train.accumulate, config.seq_len};
  step.micro_batch = std::clamp<int64_t>(kMostTokens / step.seq_len, 1, step.micro_batch);
  step.accumulate = std::clamp<int64_t>(kMostTokens / step.tokens(), 1, step.accumulate);
  const Products products = config.train.products();
  return ComputeGuess{ComputeMemoryOf(shape, *trained, config.train.dtype, step, products),
                      DryRunCostOf(shape, *trained, config.train.dtype, step, products).seconds};
}

// Says which step --resume continues from.
std::string ResumeText(const std::string& output) {
  const auto committed = ReadCommittedState(output);
  if (committed.ok()) return absl::StrCat("--resume goes on after step ", committed->step);
  if (!absl::IsNotFound(committed.status())) return "the commit in --output cannot be read";
  return "no commit was made; --resume starts at step 1";
}

// Says what a finished run keeps on its drives, and how to free it.
void SayWhatStays(const TrainOptions& options) {
  if (options.rank > 0 || options.no_commit) return;
  const auto kept = FindKeptState(options.output);
  if (!kept.ok() || kept->runs.empty()) return;
  LogResult(absl::StrCat("state ", FormatBytes(kept->bytes()), " stays in ", kept->Places(),
                         " for --resume; free it: ",
                         ShellLine({"spillway", "clean", "--output", options.output, "--remove"})));
}

void PrintSummary(const Inputs& in, const TrainResult& result) {
  const bool finished = result.end == TrainResult::End::kFinished;
  std::string text = absl::StrCat(finished ? "done" : "stopped", ": step ", result.step, " in ",
                                  FormatDuration(result.seconds));
  if (result.first_loss) {
    absl::StrAppendFormat(&text, "\n  loss       %.4f at the start, %.4f at the end",
                          *result.first_loss, *result.last_loss);
  }
  if (result.evaluation_loss) {
    absl::StrAppendFormat(&text, "\n  held out   %.4f%s", *result.evaluation_loss,
                          BesideLossText(*result.evaluation_loss, result.evaluation_quality));
    if (result.first_evaluation_loss) {
      absl::StrAppendFormat(&text, " (%.4f before training)", *result.first_evaluation_loss);
    }
    if (result.best_evaluation && result.best_evaluation_step != result.step) {
      const std::string& metric = in.config.train.metric;
      absl::StrAppendFormat(&text, "; best %s%.4f at step %d", metric == "loss" ? "" : metric + " ",
                            *result.best_evaluation, result.best_evaluation_step);
    } else if (result.best_evaluation) {
      absl::StrAppend(&text, "; the best of all evaluations");
    }
  }
  absl::StrAppend(&text, "\n  moved      ", FormatBytes(result.nvme_read_bytes),
                  " read from NVMe and ", FormatBytes(result.nvme_written_bytes),
                  " written to it (", result.io_engine, ")");
  absl::StrAppend(&text, "\n  memory     ", FormatBytes(result.peak_rss_bytes),
                  " of RAM at the peak; of budgets ", FormatBytes(result.peak_device_bytes),
                  " device, ", FormatBytes(result.peak_host_bytes), " host");
  if (!result.missed_copies.empty()) {
    absl::StrAppend(&text, "\n  copies     ", result.missed_copies);
  }
  absl::StrAppend(&text, result.speed, "\n  report     ", in.config.train.output, "/report.html");
  LogResult(FoldText(text, kPageColumns));
}

CommandOutcome StoppedOutcome(const Inputs& in, const TrainResult& result) {
  const bool by_signal = result.stop_signal != 0;
  const std::string by = by_signal ? StopSignal::Name(result.stop_signal) : "--max-bytes-written";
  const TrainOptions& train = in.config.train;
  if (by_signal && result.step == 0) {
    const bool committed = train.resume && ReadCommittedState(train.output).ok();
    LogResult(absl::StrCat("stopped by ", by, " before a step was taken: ",
                           committed ? "what was committed stands" : "nothing was begun",
                           "; continue with the same command",
                           train.no_commit || train.overwrite ? "" : " and --resume"));
    return {absl::OkStatus(), 75};
  }
  if (train.no_commit) {
    return {absl::AbortedError(
        absl::StrCat("stopped by ", by, " at step ", result.step,
                     ", which is lost (--no-commit): ", ResumeText(train.output)))};
  }
  if (by_signal) {
    LogResult(absl::StrCat("stopped by ", by, " after step ", result.step,
                           "; continue with the same command and --resume"));
  } else {
    LogResult(absl::StrCat("stopped by ", by, " ", FormatBytes(train.max_bytes_written),
                           " after step ", result.step, ": the run has written ",
                           FormatBytes(result.run_written_bytes),
                           ", and a step more could pass it; continue with --resume and a higher "
                           "limit"));
  }
  return {absl::OkStatus(), 75};
}

}  // namespace

CommandOutcome Train(const RunConfig& config) {
  Inputs in;
  in.config = config;
  // All ranks read the same files: only the first one logs warnings.
  if (config.train.rank > 0) SetLogLevel(LogLevel::kError);
  const absl::Status read = ReadInputs(in);
  if (config.train.rank > 0) SetLogLevel(LogLevel::kWarning);
  if (absl::IsCancelled(read) && StopSignal::received() != 0) {
    TrainResult stopped;
    stopped.stop_signal = StopSignal::received();
    return StoppedOutcome(in, stopped);
  }
  if (!read.ok()) return {read};
  in.config.train.export_bytes_per_parameter = ExportBytes(in);
  TrainHooks hooks;
  hooks.at_start = [&](const TrainOptions& used) { return WriteDescription(in, used); };
  hooks.at_end = [&](const StateSource& state) -> absl::Status {
    RETURN_IF_ERROR(DescribeIfMissing(in));
    return in.adapter_config.is_null() ? ExportTrained(in, state) : ExportTrainedAdapter(in, state);
  };
  hooks.texts = in.data->compared_texts();
  hooks.samples = in.data->sample_texts();
  const std::optional<ComputeGuess> guess = GuessCompute(in);
  hooks.guess = guess ? &*guess : nullptr;
  const auto result =
      Train(in.model, *in.data->train(), in.data->evaluation(),
            in.weights ? in.weights.get() : in.base_weights.get(), in.config.train, hooks);
  if (!result.ok()) return {result.status()};
  if (result->step > 0 && !result->speed.empty()) PrintSummary(in, *result);
  if (result->end != TrainResult::End::kStopped) SayWhatStays(in.config.train);
  if (result->end == TrainResult::End::kAlreadyFinished) return {};
  return result->end == TrainResult::End::kStopped ? StoppedOutcome(in, *result) : CommandOutcome{};
}

}  // namespace spillway
