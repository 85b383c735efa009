// spillway estimate: what a run would take, from config.json alone; tools/compute/estimate_run.cc
// measures and reckons.
#include <cstdio>
#include <memory>
#include <string>

#include "engine/base/flag_value.h"
#include "engine/base/model_file.h"
#include "engine/config/recipe.h"
#include "engine/config/run_config.h"
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
#include "tools/print_json.h"
#include "tools/ranks.h"

namespace spillway {
namespace {

using DryRun = EstimateTask::DryRun;

struct EstimateFlags {
  TrainFlags train;
  TrainFlags::Text dry_run;
  bool as_json = false;
};

absl::StatusOr<RunConfig> Resolve(TrainFlags flags) {
  RETURN_IF_ERROR(TakeConfigFile(&flags));
  RETURN_IF_ERROR(ResolveGivenModels(HubFiles::kConfig, /*logs=*/true, flags));
  // Nothing is read or written; the resolver wants both.
  if (flags.data.empty()) flags.data = {"none"};
  if (!flags.output) flags.output = "none";
  return ResolveForRanks(flags, {});
}

absl::StatusOr<EstimateTask> ReadTask(const EstimateFlags& flags) {
  EstimateTask task;
  ASSIGN_OR_RETURN(task.config, Resolve(flags.train));
  TuneRunConfig(&task.config);
  for (const std::string& note : task.config.notes) LogInfo(note);
  for (const std::string& warning : task.config.warnings) LogWarning(warning);
  if (flags.dry_run) {
    ASSIGN_OR_RETURN(
        task.dry_run,
        ChoiceFlag<DryRun>("--dry-run", *flags.dry_run,
                           {{"auto", DryRun::kAuto}, {"yes", DryRun::kYes}, {"no", DryRun::kNo}}));
  }
  ASSIGN_OR_RETURN(task.device, ResolveDevice(&task.config));
  RETURN_IF_ERROR(CheckModelDirectory(task.config.model));
  ASSIGN_OR_RETURN(task.document, ReadModelJson(task.config.model, "config.json"));
  ASSIGN_OR_RETURN(task.shape, ReadModelShape(task.document, task.config.task));
  return task;
}

absl::StatusOr<Estimate> EstimateOf(const EstimateFlags& flags) {
  ASSIGN_OR_RETURN(const EstimateTask task, ReadTask(flags));
  ASSIGN_OR_RETURN(ComputeLibrary* const compute, OpenComputeLibrary());
  return compute->MakeEstimate(task);
}

CommandOutcome RunEstimate(const EstimateFlags& flags) {
  const auto estimate = EstimateOf(flags);
  if (!estimate.ok()) return {estimate.status()};
  if (flags.as_json) {
    PrintJson(EstimateJson(*estimate));
  } else {
    std::fputs(ShownText(EstimateText(*estimate), ShownLines::kAll).c_str(), stdout);
  }
  // A question that was answered, whether or not the run would fit.
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
      "Only config.json is read, so any model with a hidden size, layers, heads and a\n"
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
