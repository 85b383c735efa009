#include "swap/mover/swap_manager.h"

#include <utility>

#include "io/base/check.h"
#include "io/base/status.h"
#include "swap/mover/mover.h"

namespace spillway {

using Done = MoverThread::Done;

SwapManager::SwapManager(SwapPlan plan) : plan_(std::move(plan)) {}

SwapManager::~SwapManager() = default;

absl::StatusOr<std::unique_ptr<SwapManager>> SwapManager::Create(
    SwapPlan plan, SwapStore* store, Arena* host_arena, Arena* device_arena, TileCompute* compute,
    const SwapManagerOptions& options) {
  SPILLWAY_CHECK(options.workers > 0);
  SPILLWAY_CHECK(host_arena->size_bytes() >= plan.host_arena_bytes);
  SPILLWAY_CHECK(device_arena->size_bytes() >= plan.device_arena_bytes);
  SPILLWAY_CHECK(store != nullptr || !plan.any_nvme());
  SPILLWAY_CHECK(store != nullptr || options.executor == nullptr);
  SPILLWAY_CHECK((options.device != nullptr) == plan.separate_device);
  FileSystem& files = store != nullptr ? store->file_system() : FileSystem::Real();
  IoEngineOptions io = options.io;
  std::unique_ptr<Arena> in_place;
  if (store != nullptr) {
    // All but a few tiles at rest moves between files and these, which outlive the engine.
    for (const Arena* arena : {host_arena, device_arena}) {
      if (arena == device_arena && plan.separate_device) continue;
      if (arena->size_bytes() > 0) io.memory.push_back({arena->data(), arena->size_bytes()});
    }
    io.files = store->files();
    if (store->in_place() != nullptr) {
      const uint64_t bytes = InPlaceReads::MemoryBytes(plan.layout, options.in_place_bytes);
      ASSIGN_OR_RETURN(in_place, Arena::Create(bytes, /*budget=*/nullptr));
      io.memory.push_back({in_place->data(), in_place->size_bytes()});
    }
  }
  ASSIGN_OR_RETURN(std::unique_ptr<IoEngine> engine, files.CreateEngine(io));
  auto manager = std::unique_ptr<SwapManager>(new SwapManager(std::move(plan)));
  manager->mover_ =
      std::make_unique<Mover>(manager->plan_, store, host_arena, device_arena, compute, options,
                              std::move(engine), std::move(in_place));
  return manager;
}

absl::string_view SwapManager::engine_name() const { return mover_->engine_name(); }

absl::Status SwapManager::Initialize(const FillTile& fill,
                                     const std::function<void(double)>& progress) {
  RETURN_IF_ERROR(mover_->thread().Call(
      [&](Done done) { mover_->passes().Initialize(&fill, progress, done); }));
  return mover_->thread().Call([&](Done done) { done(mover_->rest().LoadResident(true)); });
}

absl::Status SwapManager::LoadResident() {
  return mover_->thread().Call([&](Done done) { done(mover_->rest().LoadResident()); });
}

void SwapManager::Enqueue(Program program, FirstRead first_read) {
  mover_->thread().Post([this, program, first_read = std::move(first_read)]() mutable {
    mover_->gate().Enqueue(program, std::move(first_read));
  });
}

void SwapManager::AbandonQueued() {
  mover_->thread().Post([this] { mover_->gate().AbandonQueued(); });
}

absl::StatusOr<bool> SwapManager::AbandonRunning() {
  bool whole = false;
  RETURN_IF_ERROR(mover_->thread().Call([&](Done done) {
    whole = mover_->gate().AbandonRunning();
    done(absl::OkStatus());
  }));
  return whole;
}

absl::StatusOr<OpBuffers> SwapManager::BeginOp() {
  OpBuffers buffers;
  RETURN_IF_ERROR(
      mover_->thread().Call([&](Done done) { mover_->gate().Request(&buffers, done); }));
  mover_->lane().BeginComputing();
  return buffers;
}

void SwapManager::EndOp() {
  mover_->thread().Post([this] { mover_->gate().Finish(); });
}

absl::Status SwapManager::MeasureUpdate(const UpdateScalars& scalars, int measure) {
  return mover_->thread().Call(
      [&](Done done) { mover_->passes().Measure(scalars, measure, done); });
}

absl::StatusOr<GradientTotal> SwapManager::AwaitGradients() {
  GradientTotal total;
  RETURN_IF_ERROR(
      mover_->thread().Call([&](Done done) { mover_->passes().AwaitGradients(&total, done); }));
  return total;
}

void SwapManager::AnnounceUpdate(const UpdateScalars& scalars) {
  mover_->thread().Post([this, scalars] { mover_->passes().Announce(scalars); });
}

absl::Status SwapManager::Flush() {
  return mover_->thread().Call([&](Done done) {
    SPILLWAY_CHECK(mover_->gate().running() == nullptr);
    mover_->passes().Flush(done);
  });
}

absl::Status SwapManager::StartCommit(absl::string_view manifest_path, CommitRecord record,
                                      std::function<void()> at_end, PublishCommitHere publish) {
  RETURN_IF_ERROR(AwaitNoCommit());
  mover_->thread().Post([this, path = std::string(manifest_path), record = std::move(record),
                         at_end = std::move(at_end), publish = std::move(publish)]() mutable {
    if (mover_->thread().failed()) return;
    SPILLWAY_CHECK(mover_->gate().between_programs());
    mover_->committer().Start(path, std::move(record), std::move(at_end), std::move(publish));
  });
  return absl::OkStatus();
}

absl::Status SwapManager::AwaitCommit() {
  return mover_->thread().Call([&](Done done) { mover_->committer().Await(done); });
}

absl::Status SwapManager::AwaitNoCommit() {
  const absl::Status status = AwaitCommit();
  return mover_->thread().failed() ? status : absl::OkStatus();
}

absl::Status SwapManager::Commit(absl::string_view manifest_path, const CommitRecord& record) {
  RETURN_IF_ERROR(StartCommit(manifest_path, record));
  return AwaitCommit();
}

absl::Status SwapManager::ReadState(int first_plane, int last_plane, const FillTile& visit) {
  const StateLayout& layout = plan_.layout;
  SPILLWAY_CHECK(first_plane >= 0 && first_plane <= last_plane);
  for (int unit = 0; unit < layout.num_units(); ++unit) {
    for (int tile = 0; tile < layout.NumTiles(unit); ++tile) {
      std::vector<char*> planes;
      RETURN_IF_ERROR(mover_->thread().Call([&](Done done) {
        done(mover_->rest().ReadTile(unit, tile, first_plane, last_plane, planes));
      }));
      for (int plane = 0; plane < layout.num_planes(); ++plane) {
        if (plane < first_plane || plane >= last_plane) planes[plane] = nullptr;
      }
      TileView view;
      view.unit = unit;
      view.tile = tile;
      view.first_parameter = layout.TileBegin(tile);
      view.parameters = layout.TileParameters(unit, tile);
      view.planes = planes.data();
      RETURN_IF_ERROR(visit(view));
    }
  }
  return absl::OkStatus();
}

SwapStats SwapManager::stats() const { return mover_->stats(); }

void SwapManager::RunOnce() { mover_->RunOnce(); }

void SwapManager::RecordEvents() { mover_->record().RecordEvents(); }

std::vector<std::string> SwapManager::TakeEvents() { return mover_->record().TakeEvents(); }

}  // namespace spillway
