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
#include "engine/base/progress.h"
#include "engine/base/stop_signal.h"
#include "engine/config/run_config.h"
#include "engine/data/load_tokenizer.h"
#include "engine/data/token_source.h"
#include "engine/data/tokenizer.h"
#include "engine/estimate/run_forecast.h"
#include "engine/families/gpt2.h"
#include "engine/families/gpt2_weights.h"
#include "engine/machine/memory_limits.h"
#include "engine/report/metrics.h"
#include "engine/torch/token_dataset.h"
#include "engine/weights/model_files.h"
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

// Everything that was checked before OUTPUT is touched.
struct Inputs {
  RunConfig config;
  Gpt2Config model_config;
  Model model;
  std::unique_ptr<SafetensorsModel> weights_files;
  std::unique_ptr<WeightSource> weights;  // null: initialised
  std::unique_ptr<Tokenizer> tokenizer;
  std::unique_ptr<TokenSource> tokens, evaluation_tokens;
  std::unique_ptr<TokenDataset> data, evaluation_data;
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
                                                        const std::vector<std::string>& files,
                                                        int64_t seq_len) {
  TokenSourceOptions options;
  options.files = files;
  options.tokenizer = inputs.tokenizer.get();
  options.scratch_directory = ScratchDirectory(inputs.config.train.output);
  options.vocabulary = inputs.model_config.vocab_size;
  options.window_tokens = seq_len;
  return TokenSource::Open(options);
}

// All but the config, which is there.
absl::Status ReadInputs(Inputs& in) {
  RunConfig& config = in.config;
  ASSIGN_OR_RETURN(in.model_config, ReadGpt2Config(config.model));
  for (const std::string& warning : in.model_config.warnings) LogWarning(warning);
  ASSIGN_OR_RETURN(in.model, BuildGpt2(in.model_config));

  const int64_t positions = in.model_config.n_positions;
  if (config.seq_len == 0) config.seq_len = std::min<int64_t>(positions, 1024);
  if (config.seq_len > positions) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--seq-len ", config.seq_len, " is more than the ", positions, " positions of the model"));
  }

  std::string weights_identity = "initialised";
  auto files = SafetensorsModel::Open(config.model);
  if (files.ok()) {
    in.weights_files = *std::move(files);
    ASSIGN_OR_RETURN(in.weights, OpenGpt2Weights(in.model_config, in.weights_files.get()));
    ASSIGN_OR_RETURN(weights_identity, in.weights_files->Fingerprint());
  } else if (absl::IsNotFound(files.status())) {
    LogInfo(absl::StrCat("no weights in ", config.model,
                         ": starting from the architecture's "
                         "initial values, seed ",
                         config.train.seed));
  } else {
    return files.status();
  }

  ASSIGN_OR_RETURN(in.tokenizer, MakeTokenizer(config.tokenizer, config.model, config.data));
  ASSIGN_OR_RETURN(in.tokens, OpenTokens(in, config.data, config.seq_len));
  in.data = std::make_unique<TokenDataset>(in.tokens.get(), config.seq_len);
  if (!config.eval_data.empty()) {
    ASSIGN_OR_RETURN(in.evaluation_tokens, OpenTokens(in, config.eval_data, config.seq_len));
    in.evaluation_data = std::make_unique<TokenDataset>(in.evaluation_tokens.get(), config.seq_len);
  }
  const std::string description = in.model_config.original.dump();
  config.train.identity = {
      {"model",
       absl::StrFormat("%016x, weights %s", Checksum(description.data(), description.size()),
                       weights_identity)},
      {"tokenizer", in.tokenizer ? in.tokenizer->fingerprint() : "none"},
      {"seq-len", absl::StrCat(config.seq_len)},
  };
  return absl::OkStatus();
}

// The dtype of an export: as told, or that of the weights the run started from.
DType ExportDType(const Inputs& in) {
  if (in.config.export_dtype) return *in.config.export_dtype;
  return in.weights_files ? in.weights_files->dtype() : DType::kFloat32;
}

// What OUTPUT says of the run beside its state, before the first step.
absl::Status WriteDescription(const Inputs& in) {
  const RunConfig& config = in.config;
  // An export of fewer steps (this run goes on) is no longer whole.
  std::error_code error;
  fs::remove(config.train.output + "/model/config.json", error);
  if (error) return ErrnoStatus(error.value(), "remove the export of an earlier step");
  RETURN_IF_ERROR(SaveModelFiles(Gpt2ConfigJson(in.model_config, ExportDType(in)), config.model,
                                 in.tokenizer.get(), SourceDirectory(config.train.output)));
  return WriteFileAtomically(
      config.train.output + "/config.resolved.json",
      ResolvedConfigJson(config).dump(2, ' ', false, nlohmann::json::error_handler_t::replace) +
          "\n");
}

// OUTPUT/model/, if it is not there yet.
absl::Status ExportTrained(const Inputs& in, const StateSource& state) {
  const std::string directory = in.config.train.output + "/model";
  if (in.config.no_export || fs::exists(directory + "/config.json")) return absl::OkStatus();
  ASSIGN_OR_RETURN(const DType dtype,
                   ExportModel(state, in.config.export_dtype,
                               SourceDirectory(in.config.train.output), directory));
  LogInfo(absl::StrCat("exported to ", directory, " (", std::string(DTypeName(dtype)),
                       " safetensors)"));
  return absl::OkStatus();
}

// Bytes a parameter of OUTPUT/model/.
uint64_t ExportBytes(const Inputs& in) {
  if (in.config.no_export) return 0;
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
                          PerplexityText(*result.evaluation_loss));
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
  hooks.at_end = [&](const StateSource& state) { return ExportTrained(in, state); };
  const auto result =
      Train(in.model, *in.data, in.evaluation_data.get(), in.weights.get(), in.config.train, hooks);
  if (!result.ok()) return {result.status()};
  if (result->end == TrainResult::End::kAlreadyFinished) return {};
  if (result->step > 0 && !result->speed.empty()) PrintSummary(in, *result);
  return result->end == TrainResult::End::kStopped ? StoppedOutcome(in, *result) : CommandOutcome{};
}

}  // namespace spillway
