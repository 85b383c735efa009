#include "engine/torch/train.h"

#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <torch/version.h>

#include <cmath>
#include <memory>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/base/stop_signal.h"
#include "engine/data/window_sampler.h"
#include "engine/machine/core_limits.h"
#include "engine/machine/gpu_probe.h"
#include "engine/machine/memory_limits.h"
#include "engine/machine/process_limits.h"
#include "engine/ranks/launch_environment.h"
#include "engine/ranks/patient_ranks.h"
#include "engine/ranks/shard_plan.h"
#include "engine/run/committed_run.h"
#include "engine/run/gathered_state.h"
#include "engine/run/run_commit.h"
#include "engine/run/run_storage.h"
#include "engine/torch/describe_model.h"
#include "engine/torch/guarded.h"
#include "engine/torch/init_source.h"
#include "engine/torch/model_compute.h"
#include "engine/torch/open_compute.h"
#include "engine/torch/precision_probe.h"
#include "engine/torch/rank_connection.h"
#include "engine/torch/torch_memory.h"
#include "engine/torch/train_ranks.h"
#include "engine/train/run_context.h"
#include "engine/train/trainer.h"
#include "engine/weights/packed_weights.h"
#include "engine/weights/state_source.h"
#include "engine/weights/weight_source.h"
#include "io/base/log.h"
#include "io/base/status.h"
#include "io/checksum.h"

namespace spillway {
namespace {

absl::Status FinishWith(const TrainHooks& hooks, const StateSource& source) {
  if (!hooks.at_end) return absl::OkStatus();
  return Guarded(*HostTorchMemory(), "TrainHooks::at_end", [&] { return hooks.at_end(source); });
}

// Exports the trained state: this rank's own, or with several ranks that of all, on the first one.
absl::Status FinishTrained(const TrainHooks& hooks, const TrainOptions& options,
                           const ModelDescription& description, const StepCompute& compute,
                           Trainer& trainer, const RankGroups& ranks) {
  StateSource source;
  source.model = description;
  source.layout = trainer.plan().layout;
  source.dtype = options.dtype;
  source.buffers = compute.Buffers();
  source.read = [&](int first, int last, const SwapManager::FillTile& visit) {
    return trainer.manager()->ReadState(first, last, visit);
  };
  if (ranks.world == nullptr) return FinishWith(hooks, source);
  // No commit is under way any more.
  const std::unique_ptr<PatientRanks> patient = PatientRanks::Among(ranks);
  std::vector<uint64_t> parameters;
  for (const UnitDescription& unit : description.units) parameters.push_back(unit.flat_parameters);
  GatheredState gathered(GridOf(options), source.layout, std::move(parameters), patient.get(),
                         source.read);
  if (options.rank > 0) return gathered.Serve();
  source.read = [&](int first, int last, const SwapManager::FillTile& visit) {
    return gathered.Read(first, last, visit);
  };
  const absl::Status finished = FinishWith(hooks, source);
  const absl::Status ended = gathered.End(finished);
  return finished.ok() ? ended : finished;
}

// Exports the state of the last commit, which is that of the last step: by the first rank, while
// the others wait.
absl::Status FinishCommitted(const TrainHooks& hooks, const TrainOptions& options,
                             RunStorage& storage, const RankGroups& ranks) {
  const std::unique_ptr<PatientRanks> world = PatientRanks::Among(ranks);
  if (storage.committed()->part.ranks == options.ranks) {  // each has its part
    RETURN_IF_ERROR(storage.FinishCopies(world.get()));
    RETURN_IF_ERROR(AwaitCopies(storage, world.get()));
  }
  if (options.rank > 0) return Agree(*world, absl::OkStatus());
  const absl::Status finished = [&]() -> absl::Status {
    ASSIGN_OR_RETURN(CommittedRun run, OpenCommittedRun(storage.committed_in(), storage.files(),
                                                        options.model_directory));
    RETURN_IF_ERROR(run.OpenOtherParts(storage.files(), options.model_directory));
    return FinishWith(hooks, run.source());
  }();
  return AgreeAll(world.get(), finished);
}

// The existing export of a finished run, of whatever dtype, which is not made again.
std::string ExportThatStays(const RunStorage& storage) {
  for (const char* last : {"model/config.json", "adapter/adapter_config.json"}) {
    const std::string path = absl::StrCat(storage.output(), "/", last);
    if (!storage.files().Stat(path).ok()) continue;
    return absl::StrCat("; the export in ", ParentPath(path),
                        " stays as it is: for one in another --dtype, spillway export --from ",
                        storage.committed_in(), " --to DIR --dtype DTYPE");
  }
  return "";
}

// The result of --resume if the run has finished and its state was freed; an error if it should
// take more steps. None: it is no such run, or --persist may have its commit.
absl::StatusOr<std::optional<TrainResult>> FinishedAndFreed(TrainOptions options, bool by_epochs,
                                                            int64_t data_size, Collectives* world) {
  if (!options.resume || !options.persist.empty()) return std::nullopt;
  std::string text;
  if (options.rank == 0 && !Exists(CommitManifestPath(options.output))) {
    const auto freed = ReadFreedState(options.output);
    if (freed.ok()) text = EncodeRunState(*freed);
  }
  if (world != nullptr) {
    ASSIGN_OR_RETURN(text, FromFirstRank(*world, text));
  }
  if (text.empty()) return std::nullopt;
  ASSIGN_OR_RETURN(const RunState freed, DecodeRunState(text));
  if (by_epochs) {
    options.steps = StepsForEpochs(options.epochs, data_size, options.global_batch(),
                                   {freed.step, freed.samples});
  }
  const std::string text_of_run = DescribeFreed(options.output, freed);
  if (options.steps > freed.step) {
    return absl::InvalidArgumentError(
        absl::StrCat(text_of_run, ", so it cannot go on to step ", options.steps,
                     ": train its model further in another run (--model ", options.output,
                     "/model and another --output), or remove it with --overwrite"));
  }
  LogInfo(absl::StrCat(text_of_run, ": there is nothing left to do"));
  TrainResult result;
  result.end = TrainResult::End::kAlreadyFinished;
  result.step = freed.step;
  return result;
}

absl::StatusOr<TrainResult> TrainRank(const Model& model, const ModelDescription& description,
                                      Dataset& data, Dataset* evaluation, WeightSource* weights,
                                      TrainOptions options, const TrainHooks& hooks,
                                      const Launch& launch, RankConnection* connection,
                                      RunStorage& storage, bool by_epochs) {
  RankGroups ranks = connection ? connection->groups() : RankGroups();
  const std::optional<RunState>& committed = storage.committed();
  if (options.resume && !committed) {
    LogInfo(absl::StrCat("no commit in ", storage.output(),
                         options.persist.empty() ? "" : " or in " + options.persist,
                         " to resume: starting at step 1"));
  }
  if (committed) {
    options.cursor = {committed->step, committed->samples};
    if (by_epochs) {
      options.steps =
          StepsForEpochs(options.epochs, data.size(), options.global_batch(), options.cursor);
    }
  }
  options.ranks_here = launch.local_world;
  if (options.threads == 0) {
    options.threads = committed ? committed->threads : launch.default_threads(UsableCores());
  }
  RETURN_IF_ERROR(CheckLimitsForCompute(options.threads,
                                        options.device_memory_bytes + options.host_memory_bytes));
  at::set_num_threads(options.threads);
  ASSIGN_OR_RETURN(const DeviceChoice choice,
                   ChooseComputeDevice(options.device, options.dtype, options.device_memory_bytes));
  if (const std::string notice = choice.Notice(HasNvidiaGpu());
      options.device == "auto" && !notice.empty()) {
    LogInfo(notice);
  }
  if (ranks.world != nullptr) RETURN_IF_ERROR(AgreeOnDevice(choice, *ranks.world));
  options.device = choice.Text();
  if (options.layers_in_fp8) RETURN_IF_ERROR(CheckFp8(choice));
  RETURN_IF_ERROR(ChooseComputeByMeasuring(description, data, choice.gpu.has_value(),
                                           committed ? &committed->identity : nullptr, ranks.world,
                                           &options));
  // These values also affect numbers, but ranks do not choose them, so need not agree on them.
  options.identity.emplace_back("device", choice.gpu ? "cuda" : "cpu");
  options.identity.emplace_back("LibTorch", TORCH_VERSION);
  options.identity.emplace_back("instruction set", at::get_cpu_capability());
  RETURN_IF_ERROR(CheckGivenBudgets(choice, options.device_memory_bytes, options.host_memory_bytes,
                                    launch.local_world));
  ChooseBudgets(choice, &options.device_memory_bytes, &options.host_memory_bytes,
                launch.local_world);

  TrainResult result;
  if (committed && committed->finished && committed->step >= options.steps) {
    RETURN_IF_ERROR(
        CompareIdentity(*committed, RunIdentity(options), options.allow_change, options.data_name)
            .status());
    LogResult(absl::StrCat("the run in ", storage.output(), " has already finished at step ",
                           committed->step,
                           storage.committed_in() == storage.output()
                               ? ""
                               : absl::StrCat(", of which ", storage.committed_in(),
                                              " has the commit: inspect and export that"),
                           ExportThatStays(storage)));
    RETURN_IF_ERROR(FinishCommitted(hooks, options, storage, ranks));
    result.end = TrainResult::End::kAlreadyFinished;
    result.step = committed->step;
    return result;
  }
  if (committed && committed->step > options.steps) {
    LogInfo(absl::StrCat("the run in ", storage.output(), " is at step ", committed->step,
                         ", and ends there instead of at step ", options.steps));
    options.steps = committed->step;
  }

  ASSIGN_OR_RETURN(const std::unique_ptr<OpenedPlace> opened, OpenCompute(choice));
  ComputePlace place = opened->place;
  if (hooks.device != nullptr) place.device = hooks.device;
  RankConnection::OnGpu gpus;  // destroyed before the opened place
  if (connection != nullptr && choice.gpu) {
    ASSIGN_OR_RETURN(gpus, connection->ConnectGpus(*LinkedCuda(), place));
    ranks.group = gpus.group.get();
    ranks.replicas = gpus.replicas.get();
  }
  MemoryBudget device_budget("device", options.device_memory_bytes);
  MemoryBudget dry_run_budget(
      "device", place.memory->DryRunBytes(options.device_memory_bytes, options.host_memory_bytes));
  RETURN_IF_ERROR(place.memory->MoveTo(&dry_run_budget));
  absl::Status status;
  {
    ModelCompute compute(model, description, &data, evaluation, options, place);
    compute.MakeTextsBy(hooks.texts);
    compute.WriteSamplesBy(hooks.samples);
    InitSource init(model, options.seed);
    PackedWeights packed(weights ? weights : &init, description);
    status = [&]() -> absl::Status {
      auto created = Trainer::Create({options, description, &storage, &compute, &device_budget,
                                      place.device, ranks, weights ? &packed : nullptr,
                                      hooks.guess ? std::optional(*hooks.guess) : std::nullopt});
      RETURN_IF_ERROR(AgreeAll(ranks.world, created.status()));
      const std::unique_ptr<Trainer> trainer = *std::move(created);
      RETURN_IF_ERROR(place.memory->MoveTo(&device_budget));
      const absl::Status started = trainer->Start(&packed);
      if (absl::IsCancelled(started) && trainer->stop_signal() != 0) {
        result.end = TrainResult::End::kStopped;
        result.stop_signal = trainer->stop_signal();
        return absl::OkStatus();
      }
      RETURN_IF_ERROR(started);
      if (hooks.at_start && options.rank == 0) {
        RETURN_IF_ERROR(Guarded(*place.memory, "TrainHooks::at_start",
                                [&] { return hooks.at_start(options); }));
      }
      // The model's own code may throw.
      RETURN_IF_ERROR(Guarded(*place.memory, "training", [&]() -> absl::Status {
        ASSIGN_OR_RETURN(result, trainer->Run());
        return absl::OkStatus();
      }));
      if (result.end != TrainResult::End::kFinished) return absl::OkStatus();
      return FinishTrained(hooks, options, description, compute, *trainer, ranks);
    }();
  }
  place.memory->SetBudget(nullptr);
  RETURN_IF_ERROR(status);
  return result;
}

// Reports that a failed rank stays until its copy is complete.
void SayIfACopyIsMade(RunStorage& storage, const absl::Status& failure) {
  CommitCopies* const copies = storage.copies();
  if (copies == nullptr || copies->WaitFor(0)) return;
  LogWarning(absl::StrCat("this rank ends once its copy of the last commit in ",
                          copies->directory(), " is made: ", failure.message()));
}

// Converts settings given in epochs, or as a part of the run, to steps.
void ResolveSteps(int64_t samples, TrainOptions* options) {
  const int64_t batch = options->micro_batch * options->accumulate * options->ranks;
  if (options->steps == 0) options->steps = StepsForEpochs(options->epochs, samples, batch);
  if (options->eval_every_epoch) options->eval_every = StepsForEpochs(1, samples, batch);
  ScheduleSpec& schedule = options->schedule;
  for (const auto& [part, steps] : {std::pair{schedule.warmup_part, &schedule.warmup_steps},
                                    {options->eval_part, &options->eval_every},
                                    {options->commit_part, &options->commit_every}}) {
    if (part <= 0) continue;
    *steps = static_cast<int64_t>(std::ceil(part * static_cast<double>(options->steps)));
  }
  if (options->rank == 0 && schedule.warmup_steps >= options->steps) {
    LogWarning(absl::StrCat("the learning rate never reaches its full value: the warm-up takes ",
                            schedule.warmup_steps, " steps, and the run has ", options->steps));
  }
}

}  // namespace

absl::StatusOr<TrainResult> Train(const Model& model, Dataset& data, Dataset* evaluation,
                                  WeightSource* weights, const TrainOptions& given,
                                  const TrainHooks& hooks) {
  const StopSignal signals;
  TrainOptions options = given;
  RETURN_IF_ERROR(ValidateTrainOptions(options));
  ASSIGN_OR_RETURN(const ModelDescription description, DescribeModel(model, options.freeze));
  if (data.size() < 1) return absl::InvalidArgumentError("the data has no samples");
  ResolveSteps(data.size(), &options);
  options.identity.emplace_back("data", data.fingerprint());
  if (evaluation != nullptr) {
    const std::string print = evaluation->fingerprint();
    options.evaluation_data = absl::StrFormat("%016x", Checksum(print.data(), print.size()));
  }
  Launch launch;
  if (options.ranks > 1) {
    ASSIGN_OR_RETURN(launch, ReadLaunch(ThisEnvironment(), std::nullopt));
    // Only the first rank writes files that are not rank-specific.
    if (options.rank > 0) {
      options.tensorboard.clear();
      options.trace.path.clear();
    }
  }
  auto connected = ConnectRanks(
      options, launch, evaluation,
      {.makes_texts = hooks.texts != nullptr, .writes_samples = hooks.samples != nullptr});
  if (absl::IsCancelled(connected.status()) && StopSignal::received() != 0) {
    TrainResult stopped;
    stopped.end = TrainResult::End::kStopped;
    stopped.stop_signal = StopSignal::received();
    return stopped;
  }
  RETURN_IF_ERROR(connected.status());
  std::unique_ptr<RankConnection> connection = *std::move(connected);
  std::unique_ptr<RunStorage> storage;
  const bool by_epochs = given.steps == 0;
  const auto result = [&]() -> absl::StatusOr<TrainResult> {
    ASSIGN_OR_RETURN(const std::optional<TrainResult> finished,
                     FinishedAndFreed(options, by_epochs, data.size(),
                                      connection ? connection->groups().world : nullptr));
    if (finished) return *finished;
    ASSIGN_OR_RETURN(storage, RunStorage::OpenTogether(
                                  options, connection ? connection->groups().world : nullptr));
    return TrainRank(model, description, data, evaluation, weights, options, hooks, launch,
                     connection.get(), *storage, by_epochs);
  }();
  if (connection == nullptr) return result;
  if (!result.ok()) {
    const absl::Status failure = connection->FirstFailure(result.status());
    // Disconnects first, so that others learn of the failure before the storage waits for a copy.
    connection.reset();
    if (storage != nullptr) SayIfACopyIsMade(*storage, failure);
    return failure;
  }
  storage.reset();
  // All work is done, but a rank that is gone now may not have ended properly.
  if (const absl::Status closed = connection->Close(); !closed.ok()) {
    return connection->FirstFailure(closed);
  }
  return result;
}

}  // namespace spillway
