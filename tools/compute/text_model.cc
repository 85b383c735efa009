#include "tools/compute/text_model.h"

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
#include "engine/data/turn_end.h"
#include "engine/layers/build_model.h"
#include "engine/machine/compute_precision.h"
#include "engine/machine/gpu_probe.h"
#include "engine/machine/process_limits.h"
#include "engine/run/committed_weights.h"
#include "engine/torch/adapted_model.h"
#include "engine/torch/open_compute.h"
#include "engine/torch/speech_dataset.h"
#include "engine/torch/text_batch.h"
#include "engine/tuning/tuned_io.h"
#include "engine/weights/model_directory.h"
#include "engine/weights/model_files.h"
#include "engine/weights/named_weights.h"
#include "io/base/format_bytes.h"
#include "io/base/log.h"
#include "io/base/status.h"
#include "io/file_system.h"
#include "tools/compute/text_sampling.h"

namespace spillway {
namespace {

constexpr int64_t kMostSourceTokens = 1024;

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

absl::Status OpenTokenizer(const TextTask& task, TextModel& opened) {
  if (opened.tokenizer) return absl::OkStatus();
  ASSIGN_OR_RETURN(
      opened.tokenizer,
      MakeTokenizer(task.tokenizer.empty() ? "model" : task.tokenizer, opened.files, {}));
  return absl::OkStatus();
}

// The task that the adapter was trained for, where the model's own architecture may be another, as
// of an encoder without a head.
std::optional<ModelTask> TaskOf(const TextModel& opened) {
  const bool classifies = opened.adapter && opened.adapter->config().task_type == kClassifierTask;
  return classifies ? std::optional(ModelTask::kClassify) : std::nullopt;
}

absl::Status ReparseConfig(nlohmann::json config, TextModel& opened) {
  ASSIGN_OR_RETURN(
      opened.config,
      ParseModelConfig({opened.files + "/config.json", std::move(config), {}}, "", TaskOf(opened)));
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
  RETURN_IF_ERROR(ReparseConfig(std::move(config), opened));
  LogInfo(absl::StrCat("the adapter's head tells ", labels, " labels apart, and config.json names ",
                       had, ": they are called LABEL_0 to LABEL_", labels - 1));
  return absl::OkStatus();
}

// An adapter that was trained with new tokens belongs to a model that has grown by them, as train
// has made it.
absl::Status GrowAsTrained(const TextTask& task, TextModel& opened) {
  if (opened.config.resnet) return absl::OkStatus();
  RETURN_IF_ERROR(OpenTokenizer(task, opened));
  const int64_t tokens = opened.tokenizer->vocabulary_size();
  if (tokens <= opened.config.decoder.vocabulary) return absl::OkStatus();
  nlohmann::json grown = opened.config.original;
  grown["vocab_size"] = tokens;
  RETURN_IF_ERROR(ReparseConfig(std::move(grown), opened));
  opened.grown = ParametersByToken(opened.config.decoder);
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

absl::Status OpenModel(const TextTask& task, TextModel& opened) {
  const std::string& directory = task.model;
  RETURN_IF_ERROR(CheckIsDirectory(directory));
  opened.files = directory;
  if (!HasConfig(directory)) RETURN_IF_ERROR(OpenRun(directory, opened));
  if (!task.adapter.empty() && !opened.run) {
    ASSIGN_OR_RETURN(opened.adapter, AdapterFile::Open(task.adapter));
  }
  ASSIGN_OR_RETURN(opened.config, ReadModelConfig(opened.files, TaskOf(opened)));
  if (opened.adapter) {
    RETURN_IF_ERROR(GrowAsTrained(task, opened));
    RETURN_IF_ERROR(LabelAsTrained(opened));
    RETURN_IF_ERROR(
        AnnotateAdapter(UntieForAdapter(task.adapter, opened.files, &opened.config), task.adapter));
  }
  ASSIGN_OR_RETURN(opened.model, BuildModel(opened.config));
  if (opened.run) {
    opened.weights = NewCommittedWeights(opened.run.get());
    opened.weights_name = absl::StrCat("step ", opened.run->state.step);
    if (task.adapter.empty()) return AdaptAsTrained(opened);
    return absl::InvalidArgumentError(
        "--adapter belongs to a model directory: a run has what it was trained with");
  }
  if (!task.adapter.empty()) {
    RETURN_IF_ERROR(AnnotateAdapter(ApplyAdapter(task.adapter, opened), task.adapter));
  }
  return OpenWeights(opened);
}

GeneratorOptions OptionsOf(const TextTask& task, const ComputeSettings& settings) {
  GeneratorOptions options;
  options.dtype = settings.dtype;
  options.fp32_products = settings.fp32_products;
  options.device_memory_bytes = settings.device_memory_bytes;
  options.host_memory_bytes = settings.host_memory_bytes;
  options.swap_paths = task.swap_paths;
  if (const auto tuned = FindTuning(options.swap_paths)) ApplyTuning(*tuned, {}, &options.io);
  options.threads = task.threads;
  return options;
}

absl::StatusOr<std::unique_ptr<EncodedSources>> EncodeSources(const TextTask& task,
                                                              const ComputeSettings& settings,
                                                              const std::vector<Prompt>& prompts,
                                                              const TextModel& model) {
  const ForwardOptions options = ForwardOptionsOf(task, settings, model);
  SourceList sources;
  sources.size = prompts.size();
  const DecoderConfig& decoder = model.config.decoder;
  std::optional<LogMel> mel;
  SoundReader sounds;
  if (decoder.hears()) {
    mel.emplace(decoder.encoder->speech->bands);
    sources.longest = decoder.encoder->positions;
    sources.get = [&](size_t i) -> absl::StatusOr<Batch> {
      ASSIGN_OR_RETURN(const std::vector<float> frames,
                       sounds.Frames(prompts[i].sound, *mel, SpeechFramesOf(decoder)));
      return Batch{SpeechInput(frames, mel->bands()), {}};
    };
  } else {
    for (size_t i = 0; i < prompts.size(); ++i) {
      const auto length = static_cast<int64_t>(prompts[i].source.size());
      if (length <= sources.longest) continue;
      sources.longest = length;
      sources.largest = i;
    }
    sources.get = [&](size_t i) -> absl::StatusOr<Batch> {
      const std::vector<int64_t>& tokens = prompts[i].source;
      const auto length = static_cast<int64_t>(tokens.size());
      Batch batch = BatchOfTexts({{tokens, {}}}, length, /*padding=*/0);
      batch.fields[kSourceField] = batch.inputs;
      return batch;
    };
  }
  const std::string directory =
      task.swap_paths.empty() ? TemporaryDirectory() : task.swap_paths.front();
  return EncodedSources::Encode(model.model, model.weights.get(), options, sources, directory);
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

// What the command says and the model has no use for is a mistake.
absl::Status RefuseOthersFlags(const TextTask& task, const ModelConfig& config) {
  const DecoderConfig& decoder = config.decoder;
  const bool makes = !config.resnet && !decoder.classifier && !decoder.masked;
  const SamplingFlags& how = task.sampling;
  const bool chooses = how.temperature || how.top_p || how.repetition_penalty || how.top_k ||
                       how.no_repeat_ngram || how.min_tokens || how.beams || how.length_penalty ||
                       how.early_stopping || how.tokens || task.ignore_end || !task.ends.empty() ||
                       !task.stops.empty() || !task.generation_config.empty();
  const SpeechTask& speech = task.speech;
  const struct {
    bool given, fit;
    const char *flags, *models;
  } rules[] = {
      {!speech.language.empty() || !task.speech_task.empty() || speech.timestamps,
       makes && decoder.hears(), "--language, --transcribe-task, --timestamps",
       "make texts from sounds"},
      {!task.source_prefix.empty() || task.max_source_length,
       makes && decoder.encoder && !decoder.hears(), "--source-prefix, --max-source-length",
       "make texts from texts"},
      {chooses, makes, "--tokens, --num-beams and whatever else says how a text is written",
       "make texts"},
  };
  for (const auto& rule : rules) {
    if (!rule.given || rule.fit) continue;
    return absl::InvalidArgumentError(absl::StrCat(rule.flags, ": for models that ", rule.models,
                                                   ", and ", task.model, " is none of them"));
  }
  if (task.max_source_length && *task.max_source_length > decoder.longest_sequence()) {
    return absl::InvalidArgumentError(absl::StrCat("--max-source-length ", *task.max_source_length,
                                                   " is more than the ", decoder.longest_sequence(),
                                                   " positions of the model"));
  }
  return absl::OkStatus();
}

// What the command and the model's generation_config.json say of how sounds are heard.
absl::Status ResolveSounds(const TextTask& task, const GenerationConfig& config, TextModel& model) {
  RETURN_IF_ERROR(CheckSpeechPreprocessor(model.files, *model.config.decoder.encoder->speech));
  model.speech_tokens = SpeechTokens::Of(*model.tokenizer, config.multilingual);
  model.speech = task.speech;
  SpeechTask& speech = model.speech;
  if (speech.language.empty()) {
    absl::string_view language = config.language;  // a code, or <|de|>
    if (absl::ConsumePrefix(&language, "<|")) absl::ConsumeSuffix(&language, "|>");
    speech.language = std::string(language);
  }
  const std::string job = task.speech_task.empty() ? config.task : task.speech_task;
  speech.translates = job == "translate";
  if (speech.language.empty() && job.empty()) {
    // What older files say in their place.
    const auto forced = [&](int64_t at) {
      const auto found = config.forced_decoder.find(at);
      return found == config.forced_decoder.end() ? -1 : found->second;
    };
    for (const auto& [code, token] : model.speech_tokens.languages()) {
      if (token == forced(1)) speech.language = code;
    }
    speech.translates = model.speech_tokens.translate().value_or(-2) == forced(2);
  }
  const std::optional<int64_t> no_timestamps = model.speech_tokens.no_timestamps();
  if (config.no_timestamps && no_timestamps && config.no_timestamps != no_timestamps) {
    return absl::InvalidArgumentError(
        absl::StrCat("no_timestamps_token_id of generation_config.json is ", *config.no_timestamps,
                     ", which is not <|notimestamps|> of the tokenizer: mend the file, or say "
                     "--generation-config none (or a FILE)"));
  }
  speech.timestamps |= config.timestamps.value_or(false);
  SpeechTask some = speech;
  if (some.language.empty() && model.speech_tokens.multilingual()) {
    some.language = model.speech_tokens.languages().front().first;
  }
  ASSIGN_OR_RETURN(const std::vector<int64_t> prefix, model.speech_tokens.Prefix(some));
  if (model.speech_tokens.no_timestamps()) {
    model.sampling.unwritten_from = *model.speech_tokens.no_timestamps() + 1;
  }
  if (speech.timestamps) {
    model.sampling.first_timestamp = model.sampling.unwritten_from;
    if (config.max_initial_timestamp) {
      model.sampling.last_first_timestamp =
          model.sampling.first_timestamp + *config.max_initial_timestamp;
    }
  }
  // The start token and these have their positions, too.
  const int64_t left = model.config.decoder.positions - 1 - static_cast<int64_t>(prefix.size());
  if (left < 1) {
    return absl::InvalidArgumentError("the model has no positions for a text");
  }
  model.new_tokens = std::min(model.new_tokens, left);
  // Of such a model transformers' max_length counts new tokens.
  if (!task.sampling.tokens && !config.max_new_tokens) {
    model.new_tokens = std::min(left, config.max_length.value_or(left));
  }
  model.sampling.max_tokens = model.new_tokens;
  return absl::OkStatus();
}

// What --eos-token and --stop say, and with --chat what ends a turn of the assistant.
absl::Status AddAskedEnds(const TextTask& task, TextModel& model) {
  for (const std::string& text : task.ends) {
    const std::optional<uint32_t> token = model.tokenizer->Find(text);
    if (!token) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--eos-token ", text, ": the tokenizer (", std::string(model.tokenizer->kind()),
          ") has no such token; --stop ends ", "texts at any other text"));
    }
    AddEnds({*token}, model.sampling);
  }
  if (task.chat && !task.ignore_end) AddTurnEnd(model);
  model.sampling.stops = task.stops;
  if (task.stops.empty() || model.sampling.beams == 1) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "--stop is for texts that are written token by token, and beams look for the likeliest whole "
      "one: give --num-beams 1");
}

}  // namespace

void AddTurnEnd(TextModel& model) {
  if (const auto end = EndOfTurn(*model.tokenizer)) AddEnds({*end}, model.sampling);
}

absl::StatusOr<std::unique_ptr<TextModel>> OpenTextModel(const TextTask& task, double temperature) {
  auto opened = std::make_unique<TextModel>();
  RETURN_IF_ERROR(OpenModel(task, *opened));
  RETURN_IF_ERROR(RefuseOthersFlags(task, opened->config));
  if (opened->config.resnet) return opened;
  const DecoderConfig& decoder = opened->config.decoder;
  ASSIGN_OR_RETURN(
      opened->sampling,
      FindSampling({task.sampling, task.generation_config, opened->files, temperature}, decoder));
  opened->new_tokens = opened->sampling.max_tokens;
  RETURN_IF_ERROR(OpenTokenizer(task, *opened));
  // As training refuses it. Others' tokenizers may have tokens that their models never read.
  if (decoder.encoder == nullptr && !decoder.classifier && !decoder.masked) {
    RETURN_IF_ERROR(CheckVocabulary(*opened->tokenizer, decoder.vocabulary));
  }
  FindEnds(decoder, *opened->tokenizer, opened->sampling);
  if (task.ignore_end) opened->sampling.ends.clear();
  RETURN_IF_ERROR(AddAskedEnds(task, *opened));
  if (decoder.hears()) {
    ASSIGN_OR_RETURN(const GenerationConfig config,
                     FindGenerationConfig(task.generation_config, opened->files, decoder));
    RETURN_IF_ERROR(ResolveSounds(task, config, *opened));
  }
  return opened;
}

int64_t LongestSource(const TextTask& task, const DecoderConfig& model) {
  return std::min(task.max_source_length.value_or(kMostSourceTokens), model.longest_sequence());
}

Conversation UserMessage(const std::string& content) {
  const JinjaValue message = {{"role", "user"}, {"content", content}};
  Conversation chat;
  chat.messages = JinjaValue::array({message});
  return chat;
}

absl::StatusOr<Prompt> EncodePrompt(const TextTask& task, const TextModel& model,
                                    const std::string& prompt, const Conversation& chat,
                                    PromptCounts* counts) {
  const DecoderConfig& decoder = model.config.decoder;
  return EncodePrompt({*model.tokenizer, decoder, task.source_prefix, LongestSource(task, decoder)},
                      prompt, chat, counts);
}

absl::StatusOr<Prompt> EncodePrompt(const PromptForm& form, const std::string& prompt,
                                    const Conversation& chat, PromptCounts* counts) {
  const Tokenizer& tokenizer = form.tokenizer;
  const DecoderConfig& decoder = form.model;
  Prompt encoded;
  if (decoder.hears()) {
    return absl::InvalidArgumentError(
        "the model makes texts from sounds: give generate --audio FILE, or predict a .jsonl of "
        "rows with \"audio\"");
  }
  if (decoder.encoder) {
    if (!chat.messages.is_null()) {
      return absl::InvalidArgumentError(
          "conversations are for language models: this one makes a text from a text");
    }
    ASSIGN_OR_RETURN(encoded.source,
                     EncodeWithin(tokenizer, form.source_prefix + prompt, form.longest_source,
                                  decoder.vocabulary, "--max-source-length", &counts->cut));
    encoded.tokens = {decoder.start_token};
    return encoded;
  }
  std::vector<int64_t>& tokens = encoded.tokens;
  if (!chat.messages.is_null()) {
    ASSIGN_OR_RETURN(const ChatFormat* const format, tokenizer.chat());
    ASSIGN_OR_RETURN(const JinjaText written, format->RenderText(chat, true, form.chat_clock));
    ASSIGN_OR_RETURN(tokens, tokenizer.Encode(written.text));
  } else {
    ASSIGN_OR_RETURN(const std::vector<int64_t> text, tokenizer.Encode(prompt));
    tokens = tokenizer.BeforeText();
    counts->doubled += !tokens.empty() && !text.empty() && tokens.back() == text.front();
    tokens.insert(tokens.end(), text.begin(), text.end());
  }
  encoded.continues_text = true;
  const int64_t vocabulary = decoder.vocabulary;
  for (const int64_t token : tokens) {
    if (token < vocabulary) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("the prompt has token ", token, " and the model knows ", vocabulary,
                     ": the tokenizer (", std::string(tokenizer.kind()), ") is not the model's"));
  }
  const int64_t positions = decoder.longest_sequence();
  if (tokens.empty())
    return absl::InvalidArgumentError("the prompt has no tokens: give a longer one");
  if (static_cast<int64_t>(tokens.size()) > positions) {
    return absl::InvalidArgumentError(absl::StrCat("the prompt has ", tokens.size(),
                                                   " tokens and the model knows ", positions,
                                                   " positions: give a shorter one"));
  }
  return encoded;
}

absl::StatusOr<ComputeSettings> OpenComputeFor(const TextTask& task, TextModel& model) {
  ComputeSettings settings;
  settings.dtype = task.dtype.value_or(model.dtype);
  settings.device_memory_bytes = task.device_memory_bytes;
  settings.host_memory_bytes = task.host_memory_bytes;
  RETURN_IF_ERROR(CheckLimitsForCompute(task.threads, 0));
  ASSIGN_OR_RETURN(const DeviceChoice choice,
                   ChooseComputeDevice(task.device, settings.dtype, settings.device_memory_bytes));
  if (const std::string notice = choice.Notice(HasNvidiaGpu());
      task.device == "auto" && !notice.empty()) {
    LogInfo(notice);
  }
  RETURN_IF_ERROR(CheckCompute(task.compute, settings.dtype));
  settings.fp32_products =
      settings.dtype != DType::kFloat32 &&
      ChooseCompute(task.compute, settings.dtype, choice.gpu.has_value()) == DType::kFloat32;
  ChooseBudgets(choice, &settings.device_memory_bytes, &settings.host_memory_bytes);
  ASSIGN_OR_RETURN(model.compute, OpenCompute(choice));
  return settings;
}

ForwardOptions ForwardOptionsOf(const TextTask& task, const ComputeSettings& settings,
                                const TextModel& model) {
  ForwardOptions options;
  options.dtype = settings.dtype;
  options.fp32_products = settings.fp32_products;
  options.threads = task.threads;
  options.device_memory_bytes = settings.device_memory_bytes;
  options.place = model.compute->place;
  return options;
}

absl::Status StartGenerator(const TextTask& task, int rows, const std::vector<Prompt>& prompts,
                            TextModel& model) {
  const DecoderConfig& decoder = model.config.decoder;
  if (decoder.classifier || decoder.masked) {
    return absl::InvalidArgumentError(
        absl::StrCat(task.model, decoder.masked ? " finds masked tokens" : " classifies texts",
                     " and continues none: spillway predict answers a file of them"));
  }
  ASSIGN_OR_RETURN(const ComputeSettings settings, OpenComputeFor(task, model));
  GeneratorOptions options = OptionsOf(task, settings);
  options.positions = decoder.longest_sequence();
  if (decoder.rotary.scaling == RotaryConfig::Scaling::kLong) {
    options.angles_change_behind = decoder.rotary.positions;
  }
  options.rows = rows * static_cast<int>(model.sampling.beams);
  for (const Prompt& prompt : prompts) {
    options.prompt_tokens =
        std::max(options.prompt_tokens, static_cast<int64_t>(prompt.tokens.size()));
  }
  if (model.finds_languages()) options.prompt_tokens += kMostSpeechPrefix;
  options.new_tokens = model.new_tokens;
  options.place = model.compute->place;
  if (decoder.encoder) {
    ASSIGN_OR_RETURN(model.sources, EncodeSources(task, settings, prompts, model));
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
