#include "engine/train.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <thread>

#include "absl/strings/str_cat.h"
#include "engine/estimate/run_plan.h"
#include "engine/memory_limits.h"
#include "engine/run_storage.h"
#include "engine/stop_signal.h"
#include "engine/tokens/window_sampler.h"
#include "engine/torch/init_source.h"
#include "engine/torch/model_compute.h"
#include "engine/torch/open_compute.h"
#include "io/log.h"
#include "io/status.h"
#include "swap/format_bytes.h"

namespace spillway {
namespace {

absl::Status FinishWith(const TrainHooks& hooks, const StateSource& source) {
  return hooks.at_end ? hooks.at_end(source) : absl::OkStatus();
}

}  // namespace

absl::StatusOr<TrainResult> Train(const Model& model, Dataset& data, Dataset* evaluation,
                                  WeightSource* weights, const TrainOptions& given,
                                  const TrainHooks& hooks) {
  TrainOptions options = given;
  ASSIGN_OR_RETURN(const ModelDescription description, DescribeModel(model));
  if (data.size() < 1) return absl::InvalidArgumentError("the data has no samples");
  if (options.steps == 0) {
    options.steps =
        StepsForEpochs(options.epochs, data.size(), options.micro_batch * options.accumulate);
  }
  options.identity.emplace_back("data", data.fingerprint());

  StopSignal signals;
  ASSIGN_OR_RETURN(const auto storage, RunStorage::Open(options));
  const std::optional<RunState>& committed = storage->committed();
  if (options.resume && !committed) {
    LogInfo(absl::StrCat("no commit in ", storage->output(),
                         options.persist.empty() ? "" : " or in " + options.persist,
                         " to resume: starting at step 1"));
  }
  if (options.threads == 0) {
    options.threads =
        committed ? committed->threads : std::max(1u, std::thread::hardware_concurrency());
  }
  at::set_num_threads(options.threads);
  ASSIGN_OR_RETURN(const DeviceChoice choice,
                   ChooseComputeDevice(options.device, options.dtype, options.device_memory_bytes));
  if (options.device == "auto") LogInfo(choice.Sentence());
  options.device = choice.Text();
  ChooseBudgets(choice, &options.device_memory_bytes, &options.host_memory_bytes);

  TrainResult result;
  if (committed && committed->step >= options.steps) {
    RETURN_IF_ERROR(CompareIdentity(*committed, RunIdentity(options)));
    LogInfo(absl::StrCat("the run in ", storage->output(), " has already finished at step ",
                         committed->step));
    RETURN_IF_ERROR(storage->FinishCopies());
    if (storage->copies()) RETURN_IF_ERROR(storage->copies()->Wait());
    ASSIGN_OR_RETURN(const CommittedRun run, OpenCommittedRun(storage->committed_in()));
    RETURN_IF_ERROR(FinishWith(hooks, run.source()));
    result.end = TrainResult::End::kAlreadyFinished;
    result.step = committed->step;
    return result;
  }

  ASSIGN_OR_RETURN(const std::unique_ptr<OpenedPlace> opened, OpenCompute(choice));
  ComputePlace place = opened->place;
  if (hooks.device != nullptr) place.device = hooks.device;
  MemoryBudget device_budget("device", options.device_memory_bytes);
  // The dry run may take more than the budget, so that the refusal can say how much is needed.
  MemoryBudget dry_run_budget("device",
                              std::max(options.device_memory_bytes, place.memory->dry_run_bytes()));
  place.memory->SetBudget(&dry_run_budget);
  absl::Status status;
  {
    ModelCompute compute(model, description, &data, evaluation, options, place);
    InitSource init(model, options.seed);
    status = [&]() -> absl::Status {
      ASSIGN_OR_RETURN(const auto trainer, Trainer::Create(options, description, storage.get(),
                                                           &compute, &device_budget, place.device));
      place.memory->SetBudget(&device_budget);
      if (absl::Status started = trainer->Start(weights ? weights : &init); !started.ok()) {
        if (StopSignal::received() == 0) return started;
        result.end = TrainResult::End::kStopped;
        result.stop_signal = StopSignal::received();
        return absl::OkStatus();
      }
      if (hooks.at_start) RETURN_IF_ERROR(hooks.at_start());
      ASSIGN_OR_RETURN(result, trainer->Run());
      if (result.end != TrainResult::End::kFinished) return absl::OkStatus();
      StateSource source;
      source.model = description;
      source.layout = trainer->plan().layout;
      source.dtype = options.dtype;
      source.read = [&](int first, int last, const SwapManager::FillTile& visit) {
        return trainer->manager()->ReadState(first, last, visit);
      };
      return FinishWith(hooks, source);
    }();
  }
  place.memory->SetBudget(nullptr);
  RETURN_IF_ERROR(status);
  return result;
}

}  // namespace spillway
