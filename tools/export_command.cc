// spillway export: the last commit of a run as a Hugging Face directory.
#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/adapters/adapter_export.h"
#include "engine/base/flag_value.h"
#include "engine/base/shallow_json.h"
#include "engine/families/model_config.h"
#include "engine/run/committed_run.h"
#include "engine/run/last_commit.h"
#include "engine/weights/model_files.h"
#include "engine/weights/named_weights.h"
#include "engine/weights/safetensors_model.h"
#include "io/base/log.h"
#include "io/base/status.h"
#include "io/file_system.h"
#include "tools/commands.h"

namespace spillway {
namespace {

struct ExportFlags {
  std::string from, to, dtype, max_shard_size, model;
  bool merge = false;
};

// Where the config and tokenizer of the run are.
absl::StatusOr<std::string> FindModelFiles(const std::string& from) {
  for (const std::string& folder : {SourceDirectory(from), from + "/model"}) {
    if (Exists(folder + "/config.json")) return folder;
  }
  LogWarning(absl::StrCat(from, " keeps no config.json of its model: only weights are exported"));
  return std::string();
}

// The model that OUTPUT's run was started from, as it was told; "" where nothing says it.
std::string GivenModel(const std::string& from) {
  const auto text = FileSystem::Real().ReadSmallFile(from + "/config.resolved.json");
  const nlohmann::json settings = ParseShallowJson(text.ok() ? *text : "");
  const auto at = nlohmann::json::json_pointer("/model/value");
  if (!settings.contains(at) || !settings.at(at).is_string()) return "";
  return settings.at(at).get<std::string>();
}

// The weights that a run was started from, under its model's names.
struct Originals {
  std::unique_ptr<SafetensorsModel> files;
  std::unique_ptr<WeightSource> weights;  // null: none are needed
};

// Whether the run may hold what it does not train otherwise than the model's files have it.
bool RoundsFrozen(const StateSource& state) {
  for (const UnitDescription& unit : state.model.units) {
    for (const ParameterDescription& parameter : unit.parameters) {
      if (unit.frozen && (state.dtype != DType::kFloat32 || parameter.packing.any())) return true;
    }
  }
  return false;
}

absl::StatusOr<Originals> OpenOriginals(const std::string& directory, const std::string& source,
                                        const RunState& state) {
  Originals originals;
  ASSIGN_OR_RETURN(originals.files, SafetensorsModel::Open(directory));
  ASSIGN_OR_RETURN(const std::string fingerprint, originals.files->Fingerprint());
  for (const auto& [name, value] : state.identity) {
    if (name != "model" || absl::StrContains(value, fingerprint)) continue;
    return absl::FailedPreconditionError("it has other weights than the run was started from");
  }
  ASSIGN_OR_RETURN(const ModelConfig config, ReadModelConfig(source));
  TensorNames names = TensorNamesOf(config);
  // An adapter of PEFT's may have untied the logits.
  names.untied_from = config.transformer.names.tokens;
  std::set<std::string> any;
  for (const auto& [name, shape] : names.shapes) any.insert(name);
  ASSIGN_OR_RETURN(originals.weights, OpenNamedWeights(names, originals.files.get(), nullptr, any));
  return originals;
}

// What the run does not train is exported as the model's files have it, where they are there.
absl::StatusOr<Originals> FindOriginals(const ExportFlags& flags, const std::string& files,
                                        const CommittedRun& run,
                                        const std::optional<nlohmann::json>& adapter) {
  const auto& identity = run.state.identity;
  const bool had_files = std::any_of(identity.begin(), identity.end(), [](const auto& one) {
    return one.first == "model" && !absl::EndsWith(one.second, "initialised");
  });
  const bool exports_model = !adapter || flags.merge;
  if (!had_files || !exports_model || !RoundsFrozen(run.source())) return Originals();
  std::string directory = flags.model;
  if (directory.empty() && adapter) directory = adapter->value("base_model_name_or_path", "");
  if (directory.empty()) directory = GivenModel(flags.from);
  auto originals = OpenOriginals(directory, files, run.state);
  if (originals.ok()) return originals;
  LogWarning(absl::StrCat("what the run has not trained is written as it holds it, in ",
                          std::string(DTypeName(run.state.dtype)),
                          ", and not as the model's files have it: ", originals.status().message(),
                          " (--model ", directory.empty() ? "DIR" : directory,
                          "; --model names where they lie now)"));
  return Originals();
}

absl::StatusOr<DType> ExportState(const ExportFlags& flags, const CommittedRun& run,
                                  ModelExportOptions options) {
  ASSIGN_OR_RETURN(const std::string files, FindModelFiles(flags.from));
  std::optional<nlohmann::json> adapter;
  Originals originals;
  const StateSource state = run.source();
  if (!files.empty()) {
    ASSIGN_OR_RETURN(adapter, SavedAdapterConfig(files));
    ASSIGN_OR_RETURN(originals, FindOriginals(flags, files, run, adapter));
    options.original = originals.weights.get();
  }
  if (!adapter) {
    if (!flags.merge) return ExportModel(state, files, flags.to, options);
    return absl::InvalidArgumentError(
        absl::StrCat("--merge: the run in ", flags.from, " has no adapters to be merged"));
  }
  if (flags.merge) return ExportMerged(state, *adapter, files, flags.to, options);
  const DType dtype = options.dtype.value_or(DType::kFloat32);
  ASSIGN_OR_RETURN(const ModelConfig config, ReadModelConfig(files));
  RETURN_IF_ERROR(ExportAdapter(state, *adapter, dtype, flags.to, TensorNamesOf(config)));
  return dtype;
}

// An export replaces the weights in --to, of which the run may have but a part itself.
absl::Status RefuseModelOf(const CommittedRun& run, const ExportFlags& flags) {
  std::set<std::string> directories = {GivenModel(flags.from)};
  for (const SwapStore* shard : run.shards()) {
    if (shard->in_place() == nullptr) continue;
    for (const ModelFile& file : shard->in_place()->places().files) {
      directories.insert(ParentPath(file.path));
    }
  }
  for (const std::string& directory : directories) {
    if (!SameFile(directory, flags.to)) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "--to ", flags.to, " is the model that the run in ", flags.from,
        " was started from, which it needs to go on and to be exported again: give another"));
  }
  return absl::OkStatus();
}

absl::Status ExportOnce(const ExportFlags& flags, const ModelExportOptions& options) {
  FileSystem& files = FileSystem::Real();
  ASSIGN_OR_RETURN(CommittedRun run, OpenCommittedRun(flags.from, files, flags.model));
  RETURN_IF_ERROR(run.OpenOtherParts(files, flags.model));
  RETURN_IF_ERROR(RefuseModelOf(run, flags));
  ASSIGN_OR_RETURN(const DType written, ExportState(flags, run, options));
  LogResult(absl::StrCat("exported step ", run.state.step, " of ", flags.from, " to ", flags.to,
                         " (", std::string(DTypeName(written)), " safetensors)"));
  return absl::OkStatus();
}

absl::Status Export(const ExportFlags& flags) {
  ModelExportOptions options;
  if (!flags.dtype.empty()) {
    options.dtype = DTypeFromName(flags.dtype);
    if (!options.dtype) {
      return absl::InvalidArgumentError(
          absl::StrCat("--dtype ", flags.dtype, " is unknown: fp32, bf16 or fp16"));
    }
  }
  if (!flags.max_shard_size.empty()) {
    ASSIGN_OR_RETURN(options.max_shard_bytes, SizeFlag("--max-shard-size", flags.max_shard_size));
  }
  for (const char* own : {"", "/source"}) {
    if (SameFile(flags.from + own, flags.to)) {
      return absl::InvalidArgumentError(
          absl::StrCat("--to ", flags.to, " is the run's own directory: give another"));
    }
  }
  return ReadLastCommit(flags.from, [&] { return ExportOnce(flags, options); });
}

}  // namespace

void AddExportCommand(CLI::App& app, CommandFunction* run) {
  CLI::App* command =
      app.add_subcommand("export", "Write a run's last commit as a Hugging Face directory");
  auto flags = std::make_shared<ExportFlags>();
  command->add_option("--from", flags->from, "OUTPUT of a run, or a copy of a commit")
      ->required()
      ->type_name("DIR");
  command->add_option("--to", flags->to, "directory to write")->required()->type_name("DIR");
  command->add_option("--dtype", flags->dtype, "precision of the weights (as the input model's)")
      ->type_name("fp32|bf16|fp16");
  command->add_option("--max-shard-size", flags->max_shard_size, "bytes a file (5GB)")
      ->type_name("SIZE");
  command
      ->add_option("--model", flags->model,
                   "where the model lies now, of a run that reads frozen weights in its files")
      ->type_name("DIR");
  command->add_flag("--merge", flags->merge,
                    "of a run with LoRA the whole model with the adapters merged into its weights, "
                    "and not the adapter");
  command->footer(
      "A run may go on meanwhile.\n"
      "Example:\n  spillway export --from run --to model --dtype bf16");
  command->callback(
      [run, flags] { *run = [flags]() -> CommandOutcome { return {Export(*flags)}; }; });
}

}  // namespace spillway
