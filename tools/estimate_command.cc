// spillway estimate: checks its flags and reads config.json; tools/compute/estimate_run.cc measures
// and computes.
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "engine/base/flag_value.h"
#include "engine/base/model_file.h"
#include "engine/base/print_json.h"
#include "engine/config/recipe.h"
#include "engine/config/run_config.h"
#include "engine/data/data_encoder.h"
#include "engine/data/load_tokenizer.h"
#include "engine/estimate/estimate.h"
#include "engine/estimate/estimate_output.h"
#include "engine/families/read_model_shape.h"
#include "engine/weights/model_directory.h"
#include "io/base/log.h"
#include "io/base/status.h"
#include "io/base/terminal.h"
#include "tools/commands.h"
#include "tools/compute_library.h"
#include "tools/device_flag.h"
#include "tools/given_model.h"
#include "tools/ranks.h"

namespace spillway {
namespace {

using DryRun = EstimateRequest::DryRun;

constexpr char kNoData[] = "none";

struct EstimateFlags {
  TrainFlags train;
  TrainFlags::Text dry_run;
  bool as_json = false;
};

absl::StatusOr<RunConfig> Resolve(TrainFlags flags) {
  RETURN_IF_ERROR(TakeConfigFile(&flags));
  RETURN_IF_ERROR(ResolveGivenModels(HubFiles::kConfig, /*logs=*/true, flags));
  // No files are read or written, but the resolver requires both.
  if (flags.data.empty()) flags.data = {kNoData};
  if (!flags.output) flags.output = "none";
  return ResolveForRanks(flags, {});
}

// Tokens that the tokenizer has and the model does not count, as train adds rows for them
// (GrowVocabulary in tools/compute/train_model.cc). Of a tokenizer that can't be read nothing is
// known here; train says why.
absl::Status CountNewTokens(EstimateRequest& request) {
  const RunConfig& config = request.config;
  const bool texts =
      config.data[0] == kNoData || !config.tokenizer.empty() ||
      absl::c_any_of(config.data, [](const std::string& file) { return IsText(file); });
  const std::string directory = TokenizerDirectory(config.tokenizer, config.model);
  if (request.shape.vocabulary == 0 || !texts || directory.empty()) return absl::OkStatus();
  const auto tokenizer = LoadTokenizer(directory);
  if (!tokenizer.ok() || (*tokenizer)->kind() == "chars" || (*tokenizer)->kind() == "bytes") {
    return absl::OkStatus();
  }
  const int64_t had = request.shape.vocabulary, has = (*tokenizer)->vocabulary_size();
  if (has <= had) return absl::OkStatus();
  request.document.value["vocab_size"] = has;
  ASSIGN_OR_RETURN(request.shape, ReadModelShape(request.document, config.task));
  LogInfo(absl::StrCat("the tokenizer has ", has, " tokens, and the model ", had,
                       ": the rows that train adds for them are counted"));
  return absl::OkStatus();
}

absl::StatusOr<EstimateRequest> ReadEstimateRequest(const EstimateFlags& flags) {
  EstimateRequest request;
  ASSIGN_OR_RETURN(request.config, Resolve(flags.train));
  TuneRunConfig(&request.config);
  for (const std::string& note : request.config.notes) LogInfo(note);
  for (const std::string& warning : request.config.warnings) LogWarning(warning);
  if (flags.dry_run) {
    ASSIGN_OR_RETURN(
        request.dry_run,
        ChoiceFlag<DryRun>("--dry-run", *flags.dry_run,
                           {{"auto", DryRun::kAuto}, {"yes", DryRun::kYes}, {"no", DryRun::kNo}}));
  }
  ASSIGN_OR_RETURN(request.device, ResolveDevice(&request.config));
  RETURN_IF_ERROR(CheckModelDirectory(request.config.model));
  ASSIGN_OR_RETURN(request.document, ReadModelJson(request.config.model, "config.json"));
  ASSIGN_OR_RETURN(request.shape, ReadModelShape(request.document, request.config.task));
  RETURN_IF_ERROR(CountNewTokens(request));
  return request;
}

absl::StatusOr<Estimate> EstimateOf(const EstimateFlags& flags) {
  ASSIGN_OR_RETURN(const EstimateRequest request, ReadEstimateRequest(flags));
  ASSIGN_OR_RETURN(ComputeLibrary* const compute, OpenComputeLibrary());
  return compute->MakeEstimate(request);
}

CommandOutcome RunEstimate(const EstimateFlags& flags) {
  const auto estimate = EstimateOf(flags);
  if (!estimate.ok()) return {estimate.status()};
  if (flags.as_json) {
    PrintJson(EstimateJson(*estimate));
  } else {
    std::fputs(ShownText(EstimateText(*estimate), ShownLines::kAll).c_str(), stdout);
  }
  // The command succeeds whether or not the run would fit.
  return {};
}

}  // namespace

void AddEstimateCommand(CLI::App& app, CommandFunction* run, const TranslatedWords& words) {
  CLI::App* command = app.add_subcommand(
      "estimate", "Say what a run would take: memory, budgets, traffic and time");
  auto flags = std::make_shared<EstimateFlags>();
  command->add_flag("--json", flags->as_json, "one JSON object on stdout");
  command
      ->add_option("--dry-run", flags->dry_run,
                   "compute one layer of each kind to measure it: auto (where that is "
                   "quick), yes or no")
      ->type_name("auto|yes|no");
  AddTrainFlags(*command, flags->train);
  command->footer(
      "Of the model config.json and the number of its tokenizer's tokens are read, so any model "
      "with a hidden size, layers, heads and a\n"
      "vocabulary will do.\n"
      "Example:\n  spillway estimate --model gpt2/ --swap /nvme/swap --host-memory 1GiB "
      "--device-memory 1GiB");
  command->callback([run, flags, &words] {
    flags->train.without_effect = words.without_effect;
    flags->train.refused = words.refused;
    *run = [flags] { return RunEstimate(*flags); };
  });
}

}  // namespace spillway
