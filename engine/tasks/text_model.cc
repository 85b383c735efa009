#include "engine/tasks/text_model.h"

#include <algorithm>
#include <optional>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "engine/adapters/adapter_choice.h"
#include "engine/adapters/adapter_export.h"
#include "engine/adapters/tied_logits.h"
#include "engine/data/load_tokenizer.h"
#include "engine/data/paired_samples.h"
#include "engine/datasets/speech_dataset.h"
#include "engine/layers/build_model.h"
#include "engine/machine/compute_precision.h"
#include "engine/machine/gpu_probe.h"
#include "engine/machine/process_limits.h"
#include "engine/run/committed_weights.h"
#include "engine/tasks/text_sampling.h"
#include "engine/tokenizers/turn_end.h"
#include "engine/torch/adapted_model.h"
#include "engine/torch/open_compute.h"
#include "engine/torch/text_batch.h"
#include "engine/tuning/tuned_io.h"
#include "engine/weights/model_directory.h"
#include "engine/weights/model_files.h"
#include "engine/weights/named_weights.h"
#include "io/base/format_bytes.h"
#include "io/base/log.h"
#include "io/base/status.h"
#include "io/file_system.h"

namespace spillway {

absl::Status OpenTokenizer(const TextRequest& request, TextModel& opened) {
  if (opened.tokenizer) return absl::OkStatus();
  ASSIGN_OR_RETURN(
      opened.tokenizer,
      MakeTokenizer(request.tokenizer.empty() ? "model" : request.tokenizer, opened.files, {}));
  return absl::OkStatus();
}

namespace {

bool HasConfig(const std::string& directory) { return Exists(directory + "/config.json"); }

absl::Status OpenRun(const std::string& output, TextModel& opened) {
  auto run = OpenCommittedRun(output);
  if (absl::IsNotFound(run.status()) && HasConfig(output + "/model")) {
    opened.files = output + "/model";  // --no-commit leaves only this
    return absl::OkStatus();
  }
  if (absl::IsNotFound(run.status())) {
    return DescribeNoModel(output);
  }
  RETURN_IF_ERROR(run.status());
  RETURN_IF_ERROR(run->OpenOtherParts());
  if (!HasConfig(SourceDirectory(output))) {
    return absl::FailedPreconditionError(absl::StrCat(
        output, "/source/config.json is missing: that run was not made by spillway train"));
  }
  opened.files = SourceDirectory(output);
  opened.dtype = run->state.dtype;
  opened.run = std::make_unique<CommittedRun>(*std::move(run));
  LogInfo(absl::StrCat("the model after step ", opened.run->state.step, " of ", output));
  return absl::OkStatus();
}

// What a run was trained with.
absl::Status AdaptAsTrained(TextModel& opened) {
  ASSIGN_OR_RETURN(const auto saved, SavedAdapterConfig(opened.files));
  if (!saved) return absl::OkStatus();
  ASSIGN_OR_RETURN(const LoraConfig lora, ParseAdapterConfig(saved->dump(), kAdapterConfigName));
  ASSIGN_OR_RETURN(AdaptedModel adapted, AdaptModel(opened.model, lora, /*training=*/false));
  opened.model = std::move(adapted.model);
  return absl::OkStatus();
}

// With that of --adapter.
absl::Status ApplyAdapter(const std::string& directory, TextModel& opened) {
  ASSIGN_OR_RETURN(const LoraConfig lora,
                   ResolveLora({.directory = directory}, opened.config.shape));
  ASSIGN_OR_RETURN(AdaptedModel adapted, AdaptModel(opened.model, lora, /*training=*/false));
  RETURN_IF_ERROR(opened.adapter->Match(opened.config.shape.model, adapted.layout,
                                        TensorNamesOf(opened.config)));
  opened.model = std::move(adapted.model);
  return absl::OkStatus();
}

// The task that the adapter was trained for, where the model's own architecture may be another, as
// of an encoder without a head.
std::optional<ModelTask> TrainedTask(const TextModel& opened) {
  const bool classifies = opened.adapter && opened.adapter->config().task_type == kClassifierTask;
  return classifies ? std::optional(ModelTask::kClassify) : std::nullopt;
}

absl::Status ParseAgain(nlohmann::json config, TextModel& opened) {
  ASSIGN_OR_RETURN(opened.config,
                   ParseModelConfig({opened.files + "/config.json", std::move(config), {}}, "",
                                    TrainedTask(opened)));
  return absl::OkStatus();
}

// An adapter has a classifier's head whole, so that head says how many labels there are, as it does
// for PEFT with a base of another num_labels.
absl::Status LabelAsTrained(TextModel& opened) {
  const ModelShape& shape = opened.config.shape;
  const ClassifierConfig* const classifier = opened.config.classifier();
  if (!opened.adapter || classifier == nullptr) return absl::OkStatus();
  uint64_t labels = 0;  // rows of what is last in the head
  for (const UnitDescription& unit : shape.model.units) {
    for (const ParameterDescription& parameter : unit.parameters) {
      if (!absl::StartsWith(parameter.name, shape.classifier + ".")) continue;
      labels = opened.adapter->RowsWritten(parameter.name);
    }
  }
  const size_t had = classifier->labels.size();
  if (labels == 0 || labels == had) return absl::OkStatus();
  nlohmann::json config = opened.config.original;
  for (const char* key : {"id2label", "label2id", "_num_labels"}) config.erase(key);
  config["num_labels"] = labels;
  RETURN_IF_ERROR(ParseAgain(std::move(config), opened));
  LogInfo(absl::StrCat("the adapter's head tells ", labels, " labels apart, and config.json names ",
                       had, ": they are called LABEL_0 to LABEL_", labels - 1));
  return absl::OkStatus();
}

// An adapter that was trained with new tokens belongs to a model that has grown by them, as train
// has made it.
absl::Status GrowAsTrained(const TextRequest& request, TextModel& opened) {
  if (!TaskOf(opened.config).reads_texts()) return absl::OkStatus();
  RETURN_IF_ERROR(OpenTokenizer(request, opened));
  const int64_t tokens = opened.tokenizer->vocabulary_size();
  if (tokens <= opened.config.transformer.vocabulary) return absl::OkStatus();
  nlohmann::json grown = opened.config.original;
  grown["vocab_size"] = tokens;
  RETURN_IF_ERROR(ParseAgain(std::move(grown), opened));
  opened.grown = ParametersByToken(opened.config.transformer);
  return absl::OkStatus();
}

// What of a model directory the adapter, where there is one, has not got.
absl::Status OpenWeights(TextModel& opened) {
  ASSIGN_OR_RETURN(opened.safetensors, SafetensorsModel::Open(opened.files));
  const AdapterFile* const adapter = opened.adapter.get();
  TensorNames names = TensorNamesOf(opened.config);
  names.grown = opened.grown;
  ASSIGN_OR_RETURN(opened.weights,
                   OpenNamedWeights(names, opened.safetensors.get(), /*initial=*/nullptr,
                                    adapter ? adapter->parameters() : std::set<std::string>()));
  ASSIGN_OR_RETURN(opened.weights_name, opened.safetensors->Fingerprint());
  opened.dtype = opened.safetensors->dtype();
  if (adapter == nullptr) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::string fingerprint, adapter->Fingerprint());
  absl::StrAppend(&opened.weights_name, " adapter ", fingerprint);
  opened.base_weights = std::move(opened.weights);
  opened.weights =
      std::make_unique<AdaptedWeights>(opened.base_weights.get(), opened.adapter.get(), nullptr);
  return absl::OkStatus();
}

absl::Status OpenModel(const TextRequest& request, TextModel& opened) {
  const std::string& directory = request.model;
  RETURN_IF_ERROR(CheckIsDirectory(directory));
  opened.files = directory;
  if (!HasConfig(directory)) RETURN_IF_ERROR(OpenRun(directory, opened));
  if (!request.adapter.empty() && !opened.run) {
    ASSIGN_OR_RETURN(opened.adapter, AdapterFile::Open(request.adapter));
  }
  ASSIGN_OR_RETURN(opened.config, ReadModelConfig(opened.files, TrainedTask(opened)));
  if (opened.adapter) {
    RETURN_IF_ERROR(GrowAsTrained(request, opened));
    RETURN_IF_ERROR(LabelAsTrained(opened));
    RETURN_IF_ERROR(AnnotateAdapter(UntieForAdapter(request.adapter, opened.files, &opened.config),
                                    request.adapter));
  }
  ASSIGN_OR_RETURN(opened.model, BuildModel(opened.config));
  if (opened.run) {
    opened.weights = NewCommittedWeights(opened.run.get());
    opened.weights_name = absl::StrCat("step ", opened.run->state.step);
    if (request.adapter.empty()) return AdaptAsTrained(opened);
    return absl::InvalidArgumentError(
        "--adapter belongs to a model directory: a run has what it was trained with");
  }
  if (!request.adapter.empty()) {
    RETURN_IF_ERROR(AnnotateAdapter(ApplyAdapter(request.adapter, opened), request.adapter));
  }
  return OpenWeights(opened);
}

GeneratorOptions OptionsOf(const TextRequest& request, const ComputeSettings& settings) {
  GeneratorOptions options;
  options.dtype = settings.dtype;
  options.fp32_products = settings.fp32_products;
  options.device_memory_bytes = settings.device_memory_bytes;
  options.host_memory_bytes = settings.host_memory_bytes;
  options.swap_paths = request.swap_paths;
  if (const auto tuned = FindTuning(options.swap_paths)) ApplyTuning(*tuned, {}, &options.io);
  options.threads = request.threads;
  return options;
}

const char* PlaceOf(Tier tier) {
  switch (tier) {
    case Tier::kDevice:
      return "device memory";
    case Tier::kHost:
      return "host memory";
    case Tier::kNvme:
      return "files below --swap";
  }
  return "";
}

// What --eos-token and --stop say, and with --chat what ends a turn of the assistant.
absl::Status AddAskedEnds(const TextRequest& request, TextModel& model) {
  for (const std::string& text : request.ends) {
    const std::optional<uint32_t> token = model.tokenizer->Find(text);
    if (!token) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--eos-token ", text, ": the tokenizer (", std::string(model.tokenizer->kind()),
          ") has no such token; --stop ends ", "texts at any other text"));
    }
    AddEnds({*token}, model.sampling);
  }
  if (request.chat && !request.ignore_end) AddTurnEnd(model);
  model.sampling.stops = request.stops;
  if (request.stops.empty() || model.sampling.beams == 1) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "--stop is for texts that are written token by token, and beams look for the likeliest whole "
      "one: give --num-beams 1");
}

}  // namespace

void AddTurnEnd(TextModel& model) {
  if (const auto end = EndOfTurn(*model.tokenizer)) AddEnds({*end}, model.sampling);
}

absl::StatusOr<std::unique_ptr<TextModel>> OpenTextModel(const TextRequest& request,
                                                         double temperature) {
  auto opened = std::make_unique<TextModel>();
  RETURN_IF_ERROR(OpenModel(request, *opened));
  opened->task = &TaskOf(opened->config);
  opened->usual_temperature = temperature;
  RETURN_IF_ERROR(opened->task->Prepare(request, *opened));
  return opened;
}

absl::Status RefuseRequest(bool given, absl::string_view flags, absl::string_view models,
                           const TextRequest& request, const TextModel& model) {
  if (!given) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(flags, ": for models that ", models, ", and ",
                                                 request.model, " ", model.task->model_does()));
}

absl::Status RefuseSpeechFlags(const TextRequest& request, const TextModel& model) {
  const SpeechMode& speech = request.speech;
  return RefuseRequest(
      !speech.language.empty() || !request.speech_task.empty() || speech.timestamps,
      "--language, --transcribe-task, --timestamps", "make texts from sounds", request, model);
}

absl::Status RefuseSourceFlags(const TextRequest& request, const TextModel& model) {
  return RefuseRequest(!request.source_prefix.empty() || request.max_source_length,
                       "--source-prefix, --max-source-length", "make texts from texts", request,
                       model);
}

absl::Status RefuseGenerationFlags(const TextRequest& request, const TextModel& model) {
  RETURN_IF_ERROR(RefuseSpeechFlags(request, model));
  RETURN_IF_ERROR(RefuseSourceFlags(request, model));
  const SamplingFlags& how = request.sampling;
  const bool chooses = how.temperature || how.top_p || how.repetition_penalty || how.top_k ||
                       how.no_repeat_ngram || how.min_tokens || how.beams || how.length_penalty ||
                       how.early_stopping || how.tokens || request.ignore_end ||
                       !request.ends.empty() || !request.stops.empty() ||
                       !request.generation_config.empty();
  return RefuseRequest(chooses,
                       "--tokens, --num-beams and whatever else says how a text is written",
                       "make texts", request, model);
}

absl::Status CheckOneFile(const PredictRequest& request) {
  if (request.files.size() == 1) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--data: one file at a time, unless it is pictures; ", request.model,
                   " is a model of texts"));
}

absl::Status PrepareToGenerate(const TextRequest& request, TextModel& model) {
  const TransformerConfig& transformer = model.config.transformer;
  ASSIGN_OR_RETURN(model.sampling, FindSampling({request.sampling, request.generation_config,
                                                 model.files, model.usual_temperature},
                                                transformer));
  model.new_tokens = model.sampling.max_tokens;
  RETURN_IF_ERROR(OpenTokenizer(request, model));
  FindEnds(transformer, *model.tokenizer, model.sampling);
  if (request.ignore_end) model.sampling.ends.clear();
  return AddAskedEnds(request, model);
}

Conversation UserMessage(const std::string& content) {
  const JinjaValue message = {{"role", "user"}, {"content", content}};
  Conversation chat;
  chat.messages = JinjaValue::array({message});
  return chat;
}

absl::StatusOr<ComputeSettings> OpenComputeFor(const TextRequest& request, TextModel& model) {
  ComputeSettings settings;
  settings.dtype = request.dtype.value_or(model.dtype);
  settings.device_memory_bytes = request.device_memory_bytes;
  settings.host_memory_bytes = request.host_memory_bytes;
  RETURN_IF_ERROR(CheckLimitsForCompute(request.threads, 0));
  ASSIGN_OR_RETURN(const DeviceChoice choice, ChooseComputeDevice(request.device, settings.dtype,
                                                                  settings.device_memory_bytes));
  if (const std::string notice = choice.Notice(HasNvidiaGpu());
      request.device == "auto" && !notice.empty()) {
    LogInfo(notice);
  }
  RETURN_IF_ERROR(CheckCompute(request.compute, settings.dtype));
  settings.fp32_products =
      settings.dtype != DType::kFloat32 &&
      ChooseCompute(request.compute, settings.dtype, choice.gpu.has_value()) == DType::kFloat32;
  ChooseBudgets(choice, &settings.device_memory_bytes, &settings.host_memory_bytes);
  ASSIGN_OR_RETURN(model.compute, OpenCompute(choice));
  return settings;
}

ForwardOptions ForwardOptionsOf(const TextRequest& request, const ComputeSettings& settings,
                                const TextModel& model) {
  ForwardOptions options;
  options.dtype = settings.dtype;
  options.fp32_products = settings.fp32_products;
  options.threads = request.threads;
  options.device_memory_bytes = settings.device_memory_bytes;
  options.place = model.compute->place;
  return options;
}

absl::Status StartGenerator(const TextRequest& request, int rows,
                            const std::vector<Prompt>& prompts, const SourceList* sources,
                            TextModel& model) {
  const TransformerConfig& transformer = model.config.transformer;
  ASSIGN_OR_RETURN(const ComputeSettings settings, OpenComputeFor(request, model));
  GeneratorOptions options = OptionsOf(request, settings);
  options.positions = transformer.longest_sequence();
  if (transformer.rotary.scaling == RotaryConfig::Scaling::kLong) {
    options.angles_change_behind = transformer.rotary.positions;
  }
  options.rows = rows * static_cast<int>(model.sampling.beams);
  for (const Prompt& prompt : prompts) {
    options.prompt_tokens =
        std::max(options.prompt_tokens, static_cast<int64_t>(prompt.tokens.size()));
  }
  if (model.finds_languages()) options.prompt_tokens += kMostSpeechPrefix;
  options.new_tokens = model.new_tokens;
  options.place = model.compute->place;
  if (sources != nullptr) {
    const std::string directory =
        request.swap_paths.empty() ? TemporaryDirectory() : request.swap_paths.front();
    ASSIGN_OR_RETURN(
        model.sources,
        EncodedSources::Encode(model.model, model.weights.get(),
                               ForwardOptionsOf(request, settings, model), *sources, directory));
    options.source_positions = model.sources->longest();
    options.source_width = model.sources->width();
  }
  ASSIGN_OR_RETURN(model.generator, Generator::Create(model.model, model.weights.get(), options));
  const int64_t positions = std::min(options.positions, options.prompt_tokens + options.new_tokens);
  LogInfo(absl::StrCat("key-value caches of ", options.rows, options.rows == 1 ? " text" : " texts",
                       model.sampling.beams > 1 ? ", a beam each," : "", " of ",
                       positions + options.source_positions,
                       " positions: ", FormatBytes(model.generator->kept_bytes()), " in ",
                       PlaceOf(model.generator->kept_tier())));
  return absl::OkStatus();
}

}  // namespace spillway
