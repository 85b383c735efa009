#include "swap/mover/swap_manager.h"

#include <utility>

#include "io/base/check.h"
#include "io/base/status.h"
#include "swap/mover/mover.h"

namespace spillway {

SwapManager::SwapManager(SwapPlan plan) : plan_(std::move(plan)) {}

SwapManager::~SwapManager() = default;

absl::StatusOr<std::unique_ptr<SwapManager>> SwapManager::Create(
    SwapPlan plan, SwapStore* store, Arena* host_arena, Arena* device_arena, TileCompute* compute,
    const SwapManagerOptions& options) {
  SPILLWAY_CHECK(host_arena->size_bytes() >= plan.host_arena_bytes);
  SPILLWAY_CHECK(device_arena->size_bytes() >= plan.device_arena_bytes);
  SPILLWAY_CHECK(store != nullptr || !plan.any_nvme());
  SPILLWAY_CHECK(store != nullptr || options.executor == nullptr);
  SPILLWAY_CHECK((options.device != nullptr) == plan.separate_device);
  FileSystem& files = store != nullptr ? store->file_system() : FileSystem::Real();
  IoEngineOptions io = options.io;
  if (store != nullptr) {
    // All but a few tiles at rest moves between the store's files and the arenas, and
    // both outlive the manager.
    for (const Arena* arena : {host_arena, device_arena}) {
      if (arena == device_arena && plan.separate_device) continue;
      if (arena->size_bytes() > 0) io.memory.push_back({arena->data(), arena->size_bytes()});
    }
    io.files = store->files();
  }
  ASSIGN_OR_RETURN(std::unique_ptr<IoEngine> engine, files.CreateEngine(io));
  auto manager = std::unique_ptr<SwapManager>(new SwapManager(std::move(plan)));
  manager->mover_ = std::make_unique<Mover>(manager->plan_, store, host_arena, device_arena,
                                            compute, options.workers, options.executor,
                                            options.device, options.ops_stream, options.io.trace);
  manager->mover_->Start(std::move(engine));
  return manager;
}

absl::string_view SwapManager::engine_name() const { return mover_->engine_name(); }

absl::Status SwapManager::Initialize(const FillTile& fill,
                                     const std::function<void(double)>& progress) {
  return mover_->Call([&](Mover::Done done) { mover_->Initialize(&fill, progress, done); });
}

absl::Status SwapManager::LoadResident() {
  return mover_->Call([&](Mover::Done done) { done(mover_->LoadResident()); });
}

void SwapManager::Enqueue(Program program) {
  mover_->Post([this, program] { mover_->Enqueue(program); });
}

void SwapManager::AbandonQueued() {
  mover_->Post([this] { mover_->AbandonQueued(); });
}

absl::StatusOr<bool> SwapManager::AbandonRunning() {
  bool whole = false;
  RETURN_IF_ERROR(mover_->Call([&](Mover::Done done) { mover_->AbandonRunning(&whole, done); }));
  return whole;
}

absl::StatusOr<OpBuffers> SwapManager::BeginOp() {
  OpBuffers buffers;
  RETURN_IF_ERROR(mover_->Call([&](Mover::Done done) { mover_->RequestOp(&buffers, done); }));
  if (mover_->device() != nullptr) mover_->device()->BeginComputing(mover_->ops_stream());
  return buffers;
}

void SwapManager::EndOp() {
  mover_->Post([this] { mover_->FinishOp(); });
}

absl::StatusOr<GradientTotal> SwapManager::AwaitGradients() {
  GradientTotal total;
  RETURN_IF_ERROR(
      mover_->Call([&](Mover::Done done) { mover_->WhenGradientsRounded(&total, done); }));
  return total;
}

void SwapManager::AnnounceUpdate(const UpdateScalars& scalars) {
  mover_->Post([this, scalars] { mover_->AnnounceUpdate(scalars); });
}

absl::Status SwapManager::Flush() {
  return mover_->Call([&](Mover::Done done) { mover_->WhenFlushed(done); });
}

absl::Status SwapManager::StartCommit(absl::string_view manifest_path, const CommitRecord& record,
                                      std::function<void()> at_end,
                                      std::function<absl::Status()> publish) {
  RETURN_IF_ERROR(AwaitCommit());
  mover_->Post(
      [this, path = std::string(manifest_path), record, at_end = std::move(at_end),
       publish = std::move(publish)] { mover_->StartCommit(path, record, at_end, publish); });
  return absl::OkStatus();
}

absl::Status SwapManager::AwaitCommit() {
  return mover_->Call([&](Mover::Done done) { mover_->WhenCommitted(done); });
}

absl::Status SwapManager::Commit(absl::string_view manifest_path, const CommitRecord& record) {
  RETURN_IF_ERROR(StartCommit(manifest_path, record));
  return AwaitCommit();
}

absl::Status SwapManager::ReadState(int first_plane, int last_plane, const FillTile& visit) {
  const StateLayout& layout = plan_.layout;
  for (int unit = 0; unit < layout.num_units(); ++unit) {
    for (int tile = 0; tile < layout.NumTiles(unit); ++tile) {
      std::vector<char*> planes;
      RETURN_IF_ERROR(mover_->Call([&](Mover::Done done) {
        done(mover_->ReadTile(unit, tile, first_plane, last_plane, planes));
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

void SwapManager::Turn() { mover_->Turn(); }

void SwapManager::RecordEvents() { mover_->RecordEvents(); }

std::vector<std::string> SwapManager::TakeEvents() { return mover_->TakeEvents(); }

}  // namespace spillway
