// spillway train, once its flags are checked: from a model directory and data to a trained model.
#include "engine/torch/train.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "engine/adapters/adapter_export.h"
#include "engine/adapters/adapter_file.h"
#include "engine/base/progress.h"
#include "engine/base/stop_signal.h"
#include "engine/config/run_config.h"
#include "engine/data/labelled_samples.h"
#include "engine/data/load_tokenizer.h"
#include "engine/data/sample_rows.h"
#include "engine/data/token_source.h"
#include "engine/data/tokenizer.h"
#include "engine/estimate/run_forecast.h"
#include "engine/families/model_config.h"
#include "engine/layers/decoder.h"
#include "engine/machine/memory_limits.h"
#include "engine/report/metrics.h"
#include "engine/torch/adapted_model.h"
#include "engine/torch/init_source.h"
#include "engine/torch/labelled_dataset.h"
#include "engine/torch/sample_dataset.h"
#include "engine/torch/token_dataset.h"
#include "engine/weights/model_files.h"
#include "engine/weights/named_weights.h"
#include "engine/weights/safetensors_model.h"
#include "io/base/format_bytes.h"
#include "io/base/log.h"
#include "io/base/status.h"
#include "io/checksum.h"
#include "io/file.h"
#include "tools/compute/commands.h"

namespace spillway {
namespace {

namespace fs = std::filesystem;

// Tokens, and how they are laid into batches; or labelled texts.
struct LaidData {
  std::unique_ptr<LabelledSamples> labelled;  // null: the rest is there
  std::unique_ptr<TokenSource> tokens;
  SampleLayout layout = SampleLayout::kWindows;
  std::unique_ptr<SampleRows> rows;  // null: windows
  std::unique_ptr<Dataset> dataset;  // null: there are no data
};

// Everything that was checked before OUTPUT is touched.
struct Inputs {
  RunConfig config;
  ModelConfig model_config;
  Model model;
  std::unique_ptr<SafetensorsModel> weights_files;
  std::unique_ptr<WeightSource> new_head;      // what of the head the files may lack
  std::unique_ptr<WeightSource> base_weights;  // null: initialised
  // Of adapters, where there are some.
  nlohmann::json adapter_config;
  std::unique_ptr<AdapterFile> adapter;  // null: they are new
  std::unique_ptr<WeightSource> initial;
  std::unique_ptr<WeightSource> weights;  // null: base_weights
  std::unique_ptr<Tokenizer> tokenizer;
  LaidData data, evaluation;
};

// Where temporary token files go: the nearest folder above OUTPUT that exists.
std::string ScratchDirectory(const std::string& output) {
  std::error_code error;
  fs::path path = fs::weakly_canonical(fs::absolute(output), error);
  while (!path.empty() && path.has_relative_path() && !fs::is_directory(path, error)) {
    path = path.parent_path();
  }
  return path.empty() ? "." : path.string();
}

absl::StatusOr<std::unique_ptr<TokenSource>> OpenTokens(const Inputs& inputs,
                                                        const std::vector<std::string>& files) {
  TokenSourceOptions options;
  options.files = files;
  options.tokenizer = inputs.tokenizer.get();
  options.scratch_directory = ScratchDirectory(inputs.config.train.output);
  options.vocabulary = inputs.model_config.decoder.vocabulary;
  return TokenSource::Open(options);
}

absl::StatusOr<LaidData> LayLabelled(const Inputs& in, const std::vector<std::string>& files) {
  LabelledSamplesOptions options;
  options.tokenizer = in.tokenizer.get();
  options.keys = in.config.text_keys;
  options.seq_len = in.config.seq_len;
  options.scratch_directory = ScratchDirectory(in.config.train.output);
  LaidData laid;
  ASSIGN_OR_RETURN(laid.labelled, LabelledSamples::Read(files, in.model_config.decoder, options));
  LogInfo(absl::StrCat(absl::StrJoin(files, ", "), ": ", laid.labelled->size(),
                       " texts; the longest has ", laid.labelled->longest(), " tokens"));
  return laid;
}

// All but the dataset. What is `evaluated` beside the data is laid as they are, but for what has no
// samples.
absl::StatusOr<LaidData> Lay(const Inputs& in, const std::vector<std::string>& files,
                             bool evaluated) {
  if (in.model_config.decoder.classifier) return LayLabelled(in, files);
  LaidData laid;
  ASSIGN_OR_RETURN(laid.tokens, OpenTokens(in, files));
  const TokenSource& tokens = *laid.tokens;
  if (!evaluated || tokens.has_samples()) laid.layout = in.config.samples;
  RETURN_IF_ERROR(CheckSampleLayout(laid.layout, tokens));
  const int64_t seq_len = in.config.seq_len;
  if (laid.layout == SampleLayout::kWindows) {
    RETURN_IF_ERROR(tokens.CheckWindow(seq_len));
    return laid;
  }
  const bool pack = laid.layout == SampleLayout::kPacked;
  ASSIGN_OR_RETURN(laid.rows, SampleRows::Lay(tokens, {seq_len, pack,
                                                       ScratchDirectory(in.config.train.output)}));
  const SampleRows& rows = *laid.rows;
  std::string text = absl::StrCat(tokens.names(), ": ", rows.samples(), " samples");
  if (pack) {
    absl::StrAppendFormat(
        &text, " packed into %d rows, which are %.0f%% full", rows.size(),
        100.0 * static_cast<double>(rows.positions()) / static_cast<double>(rows.size() * seq_len));
  } else {
    absl::StrAppend(&text, ", padded; the longest has ", rows.longest(), " positions");
  }
  LogInfo(text);
  return laid;
}

// `evaluated_positions`: of the longest row that is evaluated beside it.
void OpenDataset(const Inputs& in, int64_t evaluated_positions, LaidData& laid) {
  const RunConfig& config = in.config;
  if (laid.labelled) {
    laid.dataset = std::make_unique<LabelledDataset>(
        laid.labelled.get(), &in.model_config.decoder,
        LabelledDatasetOptions{config.seq_len, config.pad_to_max_length, evaluated_positions});
    return;
  }
  if (laid.rows == nullptr) {
    laid.dataset = std::make_unique<TokenDataset>(laid.tokens.get(), config.seq_len);
    return;
  }
  laid.dataset = std::make_unique<SampleDataset>(
      laid.tokens.get(), laid.rows.get(),
      SampleDatasetOptions{config.seq_len, laid.layout == SampleLayout::kPacked,
                           config.pad_to_max_length, evaluated_positions});
}

absl::Status OpenAllData(Inputs& in) {
  const RunConfig& config = in.config;
  ASSIGN_OR_RETURN(in.data, Lay(in, config.data, false));
  int64_t evaluated_positions = 0;
  if (!config.eval_data.empty()) {
    ASSIGN_OR_RETURN(in.evaluation, Lay(in, config.eval_data, true));
    evaluated_positions = in.evaluation.labelled ? in.evaluation.labelled->longest()
                          : in.evaluation.rows   ? in.evaluation.rows->longest()
                                                 : config.seq_len;
    OpenDataset(in, 0, in.evaluation);
  }
  OpenDataset(in, evaluated_positions, in.data);
  return absl::OkStatus();
}

std::string DigestOf(const nlohmann::json& json) {
  const std::string text = json.dump();
  return absl::StrFormat("%016x", Checksum(text.data(), text.size()));
}

// Puts adapters into the model, where the run is to train some.
absl::Status AddAdapters(Inputs& in) {
  RunConfig& config = in.config;
  if (config.adapter.none()) return absl::OkStatus();
  ASSIGN_OR_RETURN(LoraConfig lora, ResolveLora(config.adapter, in.model_config.shape));
  std::string came_from = "new";
  if (!config.adapter.directory.empty()) {
    ASSIGN_OR_RETURN(in.adapter, AdapterFile::Open(config.adapter.directory));
    ASSIGN_OR_RETURN(came_from, in.adapter->Fingerprint());
  }
  ASSIGN_OR_RETURN(AdaptedModel adapted, AdaptModel(in.model, lora, /*training=*/true));
  const AdapterLayout& layout = adapted.layout;
  if (in.adapter) RETURN_IF_ERROR(in.adapter->Match(in.model_config.shape.model, layout));
  in.model = std::move(adapted.model);
  in.initial = std::make_unique<InitSource>(in.model, config.train.seed);
  in.weights =
      std::make_unique<AdaptedWeights>(in.base_weights.get(), in.adapter.get(), in.initial.get());
  std::error_code error;
  // As PEFT spells them out.
  if (lora.targets == std::vector<std::string>{kAllLinear}) {
    lora.targets = layout.targets();
    const std::vector<std::string> excluded = layout.excluded();
    lora.excluded.insert(lora.excluded.end(), excluded.begin(), excluded.end());
  }
  in.adapter_config = AdapterConfigJson(lora, fs::absolute(config.model, error).string(),
                                        in.model_config.decoder.conv1d);
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
  return absl::OkStatus();
}

// What of the config is about texts that are classified, and about those that are not.
absl::Status CheckTask(Inputs& in) {
  const RunConfig& config = in.config;
  auto& classifier = in.model_config.decoder.classifier;
  if (!classifier) {
    if (config.text_keys.texts.empty() && config.text_keys.label.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("--text-keys and --label-key are for models that classify texts, and ",
                     config.model, " is a language model"));
  }
  if (config.samples == SampleLayout::kPacked) {
    return absl::InvalidArgumentError(
        "--packing (--samples packed) is for language models: texts that are classified are "
        "padded");
  }
  if (classifier->problem) return absl::OkStatus();
  ASSIGN_OR_RETURN(classifier->problem, FindProblem(config.data.front(), config.text_keys));
  return absl::OkStatus();
}

// What comes quantised stays so, unless another form was asked for.
absl::Status KeepQuantised(Inputs& in) {
  FreezeRule& freeze = in.config.train.freeze;
  PackedFormat format = PackedFormat::kNone;
  for (const auto& [name, linear] : TensorNamesOf(in.model_config).linear) {
    format = std::max(format, in.base_weights->packed(name));
  }
  if (format == PackedFormat::kNone) return absl::OkStatus();
  const bool trains_all =
      in.config.adapter.none() && freeze.freeze.empty() && freeze.train_only.empty();
  if (trains_all) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the weights in ", in.config.model, " are quantised (",
        std::string(PackedFormatName(format)),
        "), which can't be trained themselves: train adapters beside them (--lora-r 16), or freeze "
        "them (--freeze)"));
  }
  if (!freeze.packing.any()) freeze.packing.format = format;
  return absl::OkStatus();
}

// All but the config, which is there.
absl::Status ReadInputs(Inputs& in) {
  RunConfig& config = in.config;
  ASSIGN_OR_RETURN(in.model_config, ReadModelConfig(config.model));
  for (const std::string& warning : in.model_config.warnings) LogWarning(warning);
  RETURN_IF_ERROR(CheckTask(in));
  ASSIGN_OR_RETURN(in.model, BuildDecoder(in.model_config.decoder));

  const int64_t positions = in.model_config.decoder.longest_sequence();
  if (config.seq_len == 0) config.seq_len = std::min<int64_t>(positions, 1024);
  if (config.seq_len > positions) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--seq-len ", config.seq_len, " is more than the ", positions, " positions of the model"));
  }

  std::string weights_identity = "initialised";
  auto files = SafetensorsModel::Open(config.model);
  if (files.ok()) {
    in.weights_files = *std::move(files);
    std::error_code error;
    config.train.model_directory = fs::absolute(config.model, error).string();
    in.new_head = std::make_unique<InitSource>(in.model, config.train.seed);
    ASSIGN_OR_RETURN(in.base_weights, OpenNamedWeights(TensorNamesOf(in.model_config),
                                                       in.weights_files.get(), in.new_head.get()));
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

  const bool classifies = in.model_config.decoder.classifier.has_value();
  const std::string choice = classifies && config.tokenizer.empty() ? "model" : config.tokenizer;
  ASSIGN_OR_RETURN(in.tokenizer, MakeTokenizer(choice, config.model, config.data));
  RETURN_IF_ERROR(OpenAllData(in));
  const std::string description = in.model_config.original.dump();
  config.train.identity = {
      {"model",
       absl::StrFormat("%016x, weights %s", Checksum(description.data(), description.size()),
                       weights_identity)},
      {"tokenizer", in.tokenizer ? in.tokenizer->fingerprint() : "none"},
      {"seq-len", absl::StrCat(config.seq_len)},
  };
  if (classifies) {
    config.train.identity.emplace_back("task",
                                       ProblemName(*in.model_config.decoder.classifier->problem));
  }
  // Of windows it is not said: commits of before there was anything else do not either.
  if (in.data.layout != SampleLayout::kWindows) {
    config.train.identity.emplace_back(
        "samples", absl::StrCat(in.data.layout == SampleLayout::kPacked ? "packed" : "padded",
                                config.pad_to_max_length ? " to the maximum" : ""));
  }
  return AddAdapters(in);
}

// The dtype of an export: as told, or that of the weights the run started from.
DType ExportDType(const Inputs& in) {
  if (in.config.export_dtype) return *in.config.export_dtype;
  return in.weights_files ? in.weights_files->dtype() : DType::kFloat32;
}

std::string AdapterConfigIn(const std::string& directory) {
  return absl::StrCat(directory, "/", kAdapterConfigName);
}

// What OUTPUT says of the run beside its state, before the first step.
absl::Status WriteDescription(const Inputs& in) {
  const RunConfig& config = in.config;
  // An export of fewer steps (this run goes on) is no longer whole.
  for (const std::string& last : {std::string("/model/config.json"), AdapterConfigIn("/adapter")}) {
    std::error_code error;
    fs::remove(config.train.output + last, error);
    if (error) return ErrnoStatus(error.value(), "remove the export of an earlier step");
  }
  RETURN_IF_ERROR(SaveModelFiles(ExportedConfig(in.model_config, ExportDType(in)), config.model,
                                 in.tokenizer.get(), SourceDirectory(config.train.output)));
  RETURN_IF_ERROR(SaveAdapterConfig(in.adapter_config, SourceDirectory(config.train.output)));
  return WriteFileAtomically(
      config.train.output + "/config.resolved.json",
      ResolvedConfigJson(config).dump(2, ' ', false, nlohmann::json::error_handler_t::replace) +
          "\n");
}

// OUTPUT/adapter/, if it is not there yet.
absl::Status ExportTrainedAdapter(const Inputs& in, const StateSource& state) {
  const std::string directory = in.config.train.output + "/adapter";
  if (in.config.no_export || fs::exists(AdapterConfigIn(directory))) return absl::OkStatus();
  const DType dtype = in.config.export_dtype.value_or(DType::kFloat32);
  RETURN_IF_ERROR(ExportAdapter(state, in.adapter_config, dtype, directory));
  LogInfo(absl::StrCat("the adapter is in ", directory, " (", std::string(DTypeName(dtype)),
                       " safetensors, as PEFT reads it); merged into the model: spillway export "
                       "--merge --from ",
                       in.config.train.output, " --to DIR"));
  return absl::OkStatus();
}

// OUTPUT/model/, if it is not there yet.
absl::Status ExportTrained(const Inputs& in, const StateSource& state) {
  const std::string directory = in.config.train.output + "/model";
  if (in.config.no_export || fs::exists(directory + "/config.json")) return absl::OkStatus();
  ASSIGN_OR_RETURN(const DType dtype, ExportModel(state, SourceDirectory(in.config.train.output),
                                                  directory, {.dtype = in.config.export_dtype}));
  LogInfo(absl::StrCat("exported to ", directory, " (", std::string(DTypeName(dtype)),
                       " safetensors)"));
  return absl::OkStatus();
}

// Bytes a parameter of OUTPUT/model/.
uint64_t ExportBytes(const Inputs& in) {
  if (in.config.no_export || !in.adapter_config.is_null()) return 0;
  return ExportDType(in) == DType::kFloat32 ? 4 : 2;
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
    if (result.best_evaluation_loss && result.best_evaluation_step != result.step) {
      absl::StrAppendFormat(&text, "; best %.4f at step %d", *result.best_evaluation_loss,
                            result.best_evaluation_step);
    } else if (result.best_evaluation_loss) {
      absl::StrAppend(&text, "; the best of all evaluations");
    }
  }
  absl::StrAppend(&text, "\n  moved      ", FormatBytes(result.nvme_read_bytes), " read and ",
                  FormatBytes(result.nvme_written_bytes), " written on NVMe by ", result.io_engine);
  absl::StrAppend(&text, "\n  memory     ", FormatBytes(result.peak_rss_bytes),
                  " resident at the peak; device ", FormatBytes(result.peak_device_bytes),
                  ", host ", FormatBytes(result.peak_host_bytes));
  absl::StrAppend(&text, result.speed, "\n  report     ", in.config.train.output, "/report.html");
  LogInfo(text);
}

CommandOutcome StoppedOutcome(const Inputs& in, const TrainResult& result) {
  const bool by_signal = result.stop_signal != 0;
  const std::string by = by_signal ? StopSignal::Name(result.stop_signal) : "--max-bytes-written";
  if (in.config.train.no_commit) {
    return {absl::AbortedError(absl::StrCat("stopped by ", by, " at step ", result.step,
                                            "; with --no-commit nothing can be resumed"))};
  }
  if (by_signal) {
    LogInfo(absl::StrCat("stopped by ", by, " after step ", result.step,
                         "; continue with the same command and --resume"));
  } else {
    LogInfo(absl::StrCat("stopped by ", by, " ", FormatBytes(in.config.train.max_bytes_written),
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
  if (absl::Status status = ReadInputs(in); !status.ok()) return {status};
  in.config.train.export_bytes_per_parameter = ExportBytes(in);
  TrainHooks hooks;
  hooks.at_start = [&] { return WriteDescription(in); };
  hooks.at_end = [&](const StateSource& state) {
    return in.adapter_config.is_null() ? ExportTrained(in, state) : ExportTrainedAdapter(in, state);
  };
  const auto result =
      Train(in.model, *in.data.dataset, in.evaluation.dataset.get(),
            in.weights ? in.weights.get() : in.base_weights.get(), in.config.train, hooks);
  if (!result.ok()) return {result.status()};
  if (result->end == TrainResult::End::kAlreadyFinished) return {};
  if (result->step > 0 && !result->speed.empty()) PrintSummary(in, *result);
  return result->end == TrainResult::End::kStopped ? StoppedOutcome(in, *result) : CommandOutcome{};
}

}  // namespace spillway
