// How a run begins: what is checked before anything is planned, and the state of the first step.
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/progress.h"
#include "engine/ranks/shard_plan.h"
#include "engine/stop_signal.h"
#include "engine/trainer.h"
#include "engine/weights/master_weights.h"
#include "io/check.h"
#include "io/log.h"
#include "io/status.h"

namespace spillway {

Trainer::Trainer(const TrainOptions& options, const ModelDescription& model, RunStorage* storage,
                 StepCompute* compute, Device* device, const RankGroups& ranks)
    : options_(options),
      model_(model),
      storage_(storage),
      compute_(compute),
      device_(device),
      ranks_(ranks),
      grid_(GridOf(options)),
      loss_scaler_(options.loss_scale) {}

absl::StatusOr<std::unique_ptr<Trainer>> Trainer::Create(const TrainOptions& options,
                                                         const ModelDescription& model,
                                                         RunStorage* storage, StepCompute* compute,
                                                         MemoryBudget* device_budget,
                                                         Device* device, const RankGroups& ranks) {
  RETURN_IF_ERROR(ValidateOptimizer(options.optimizer));
  RETURN_IF_ERROR(ValidateSchedule(options.schedule));
  RETURN_IF_ERROR(ValidateLossScale(options.loss_scale));
  SPILLWAY_CHECK(options.steps > 0);
  SPILLWAY_CHECK((options.ranks > 1) == (ranks.world != nullptr));
  auto trainer =
      std::unique_ptr<Trainer>(new Trainer(options, model, storage, compute, device, ranks));
  RunState& state = trainer->state_;
  if (storage->committed()) {
    state = *storage->committed();
    trainer->last_commit_step_ = state.step;
    RETURN_IF_ERROR(CompareIdentity(state, RunIdentity(options)));
    trainer->loss_scaler_.Restore(state.loss_scale);
  }
  state.finished = false;
  state.dtype = options.dtype;
  state.threads = options.threads;
  state.identity = RunIdentity(options);
  state.model = model;
  if (!options.tensorboard.empty()) {
    RETURN_IF_ERROR(TensorBoardWriter::PrepareDirectory(options.tensorboard));
  }
  std::vector<std::string> units;
  for (const UnitDescription& unit : model.units) units.push_back(unit.name);
  ASSIGN_OR_RETURN(trainer->recorder_, StepRecorder::Create(options.trace, std::move(units)));
  RETURN_IF_ERROR(trainer->PlanAndOpen(device_budget));
  return trainer;
}

absl::Status Trainer::Start(WeightSource* weights) {
  const absl::Status counted = [&]() -> absl::Status {
    ASSIGN_OR_RETURN(written_, WrittenBytes::Open(storage_->output(), written_before_));
    return CountWritten(write_plan_.initial_bytes);
  }();
  // Ranks leave together, or not at all: what they say to each other next would be misheard.
  RETURN_IF_ERROR(AgreeAll(ranks_.world, counted));
  RETURN_IF_ERROR(storage_->CommitMove(store_.get(), ranks_.world));
  if (storage_->committed()) {
    RETURN_IF_ERROR(manager_->LoadResident());
    LogInfo(absl::StrCat("resuming after step ", state_.step));
    RETURN_IF_ERROR(storage_->FinishCopies());
  } else {
    const StateLayout& layout = plan().layout;
    int64_t tiles = 0;
    for (int unit = 0; unit < layout.num_units(); ++unit) tiles += layout.NumTiles(unit);
    Progress progress("writing the initial state", tiles);
    RETURN_IF_ERROR(manager_->Initialize(
        [&](const TileView& tile) -> absl::Status {
          const UnitDescription& unit = model_.units[tile.unit];
          std::vector<float> values;
          const uint64_t first = grid_.ShardBegin(unit.flat_parameters) + tile.first_parameter;
          for (const ParameterPiece& piece : PiecesOf(unit, first, tile.parameters)) {
            const ParameterDescription& parameter = unit.parameters[piece.parameter];
            values.resize(piece.count);
            RETURN_IF_ERROR(
                weights->Read(parameter.name, piece.first_element, piece.count, values.data()));
            if (!StoreMaster(options_.dtype, values.data(), piece.offset, piece.count,
                             tile.planes)) {
              return absl::InvalidArgumentError(
                  absl::StrCat("the initial weights of \"", parameter.name,
                               "\" hold a value that is not finite "
                               "in ",
                               std::string(DTypeName(options_.dtype))));
            }
          }
          if (StopSignal::received()) return absl::CancelledError("stopped by a signal");
          return absl::OkStatus();
        },
        [&](double fraction) { progress.Update(std::llround(fraction * tiles)); }));
  }
  RunDescription run = DescribeRun(options_, model_, plan());
  run.computing_bytes = computing_bytes_;
  run.io_engine = std::string(manager_->engine_name());
  // Without a commit not even the evaluation before step 1 (its row says step 0) stays.
  const int64_t kept = storage_->committed() ? state_.step : -1;
  ASSIGN_OR_RETURN(
      journal_, RunJournal::Open(storage_->output(), options_.tensorboard, kept, std::move(run)));
  journal_->DrawTimeline(&recorder_->timeline());
  return CountWritten();
}

}  // namespace spillway
