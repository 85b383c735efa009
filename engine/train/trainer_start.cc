// How a run begins: what is checked before anything is planned, and the state of the first step.
#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/progress.h"
#include "engine/base/stop_signal.h"
#include "engine/ranks/replica_weights.h"
#include "engine/ranks/shard_plan.h"
#include "engine/train/trainer.h"
#include "engine/weights/master_weights.h"
#include "io/base/check.h"
#include "io/base/log.h"
#include "io/base/status.h"

namespace spillway {
namespace {

// Of first weights, by each worker: 256 KiB in fp32.
constexpr uint64_t kMostReadParameters = 64 * 1024;
// By all workers together, where whole units are in a device's memory.
constexpr uint64_t kDeviceReadBytes = 512 * 1024;

// Ranks that hear each other no more would only wait once again.
absl::Status AgreeWhereHeard(Collectives* ranks, const absl::Status& own) {
  if (absl::IsUnavailable(own) || absl::IsDeadlineExceeded(own)) return own;
  return AgreeAll(ranks, own);
}

}  // namespace

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

absl::Status Trainer::ReadShard(WeightSource* weights, int unit, uint64_t begin, uint64_t count,
                                float* out) const {
  const UnitDescription& described = model_.units[unit];
  const uint64_t first = grid_.ShardBegin(described.flat_parameters) + begin;
  for (const ParameterPiece& piece : PiecesOf(described, first, count)) {
    const absl::Status read = weights->Read(described.parameters[piece.parameter].name,
                                            piece.first_element, piece.count, out + piece.offset);
    // A disk's failure. Among ranks kUnavailable says that others are gone.
    if (absl::IsUnavailable(read)) return absl::AbortedError(read.message());
    RETURN_IF_ERROR(read);
  }
  return absl::OkStatus();
}

absl::Status Trainer::StoreShard(const TileView& tile, uint64_t begin, uint64_t count,
                                 const float* values) const {
  const UnitDescription& unit = model_.units[tile.unit];
  const uint64_t in_tile = begin - tile.first_parameter;
  for (const ParameterPiece& piece :
       PiecesOf(unit, grid_.ShardBegin(unit.flat_parameters) + begin, count)) {
    if (StoreMaster(options_.dtype, values + piece.offset, in_tile + piece.offset, piece.count,
                    tile.planes)) {
      continue;
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "the initial weights of \"", unit.parameters[piece.parameter].name,
        "\" hold a value that is not finite in ", std::string(DTypeName(options_.dtype))));
  }
  return absl::OkStatus();
}

absl::Status Trainer::WriteFirstState(WeightSource* weights) {
  const StateLayout& layout = plan().layout;
  int64_t tiles = 0;
  for (int unit = 0; unit < layout.num_units(); ++unit) tiles += layout.NumTiles(unit);
  Progress progress("writing the initial state", tiles);
  // In the memory of what steps compute with and exchange, which is idle until the first. Of a
  // separate device's they read in less of the host's, which is in the books until steps need it.
  std::optional<ReplicaWeights> replicas;
  std::vector<char> room;
  if (ranks_.replicas != nullptr && weights->reads_files()) {
    if (device_ != nullptr) room.resize(kDeviceReadBytes + sizeof(double) * grid_.size);
    replicas.emplace(layout, grid_, ranks_.host_replicas,
                     room.empty() ? whole_arena_->data() : room.data(),
                     room.empty() ? whole_arena_->size_bytes() : room.size(),
                     [&](int unit, uint64_t begin, uint64_t count, float* out) {
                       return ReadShard(weights, unit, begin, count, out);
                     });
  }
  const auto fill = [&](const TileView& tile) -> absl::Status {
    if (replicas) {
      RETURN_IF_ERROR(
          replicas->TakeStretch(tile.unit, tile.first_parameter, tile.parameters,
                                [&](uint64_t begin, uint64_t count, const float* values) {
                                  return StoreShard(tile, begin, count, values);
                                }));
    } else {
      std::vector<float> values(std::min(tile.parameters, kMostReadParameters));
      for (uint64_t done = 0; done < tile.parameters; done += values.size()) {
        const uint64_t begin = tile.first_parameter + done;
        const uint64_t count = std::min<uint64_t>(values.size(), tile.parameters - done);
        RETURN_IF_ERROR(ReadShard(weights, tile.unit, begin, count, values.data()));
        RETURN_IF_ERROR(StoreShard(tile, begin, count, values.data()));
      }
    }
    return StopSignal::received() ? absl::CancelledError("stopped by a signal") : absl::OkStatus();
  };
  const absl::Status written = manager_->Initialize(
      fill, [&](double fraction) { progress.Update(std::llround(fraction * tiles)); });
  if (replicas && !written.ok()) replicas->Stop(written);
  return written;
}

absl::Status Trainer::Start(WeightSource* weights) {
  const absl::Status counted = [&]() -> absl::Status {
    ASSIGN_OR_RETURN(written_, WrittenBytes::Open(storage_->output(), written_before_));
    return CountWritten(write_plan_.initial_bytes);
  }();
  // Ranks leave together, or not at all: what they say to each other next would be misheard.
  RETURN_IF_ERROR(AgreeAll(ranks_.world, counted));
  RETURN_IF_ERROR(storage_->CommitMove(store_.get(), ranks_.world));
  // Until all have their state nothing is left behind by a run that is none.
  RETURN_IF_ERROR(AgreeWhereHeard(ranks_.world, BringFirstState(weights)));
  return AgreeWhereHeard(ranks_.world, OpenJournal());
}

absl::Status Trainer::BringFirstState(WeightSource* weights) {
  if (!storage_->committed()) return WriteFirstState(weights);
  RETURN_IF_ERROR(manager_->LoadResident());
  LogInfo(absl::StrCat("resuming after step ", state_.step));
  return storage_->FinishCopies();
}

absl::Status Trainer::OpenJournal() {
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
