// What swap/ itself costs: planning, packing, manifests, and the mover's work on a tile.
#include <benchmark/benchmark.h>

#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "io/base/mutex.h"
#include "io/file_system.h"
#include "io/io_engine.h"
#include "swap/device/arena.h"
#include "swap/device/memory_budget.h"
#include "swap/forecast/step_simulation.h"
#include "swap/mover/swap_manager.h"
#include "swap/plan/planner.h"
#include "swap/plan/stay_packing.h"
#include "swap/plan/swap_plan.h"
#include "swap/store/manifest.h"
#include "swap/store/swap_store.h"

namespace spillway {
namespace {

// Like layers between an embedding and a head that borrows it, in bf16 with AdamW, all on NVMe.
PlanRequest LayersRequest(UpdateMode update, int layers, uint64_t layer_parameters,
                          uint64_t tile_parameters) {
  PlanRequest request;
  std::vector<UnitLayout> units = {{"embedding", layer_parameters}};
  ScheduleModel model{{{}}};
  for (int i = 0; i < layers; ++i) {
    units.push_back({absl::StrCat("h.", i), layer_parameters});
    model.borrows.push_back({});
  }
  units.push_back({"head", 2048});
  model.borrows.push_back({0});
  request.layout = StateLayout(
      std::move(units),
      {{Plane::kWeight, 2}, {Plane::kResidual, 2}, {Plane::kExpAvg, 4}, {Plane::kExpAvgSq, 4}}, 2,
      tile_parameters);
  request.schedule = BuildTrainSchedule(model, update);
  request.weights = request.optimizer = TierChoice::kNvme;
  request.has_storage = true;
  request.host_bytes = request.device_bytes = uint64_t{1} << 40;
  return request;
}

void Fail(benchmark::State& state, const absl::Status& status) {
  state.SkipWithError(std::string(status.message()).c_str());
}

// --- Planning

// The search over a step's time line, with memory for a third of the state; `separate_device`: of
// each kind. An item is a layer.
void PlanSearch(benchmark::State& state, UpdateMode update, bool separate_device) {
  const int layers = static_cast<int>(state.range(0));
  PlanRequest request = LayersRequest(update, layers, 7 << 20, kDefaultTileParameters);
  request.weights = request.optimizer = TierChoice::kAuto;
  request.host_bytes = request.device_bytes = request.layout.TotalPaddedParameters() * 4;
  StepClock clock;
  clock.disk = {2.5e9, 2.4e9, 2.8e9};
  clock.update_bytes_per_second = 2e10;
  clock.shared_cores = 1;
  if (separate_device) {
    request.separate_device = true;
    clock.link = {2e10, 2e10};
    clock.device_update_bytes_per_second = 1e12;
    clock.shared_cores = 0;
  }
  for (const StepOp& op : request.schedule.ops) {
    clock.op_seconds.push_back(op.kind == OpKind::kForward ? 0.05 : 0.15);
  }
  request.clock = clock;
  for (auto _ : state) {
    const auto plan = PlanByClock(request);
    if (!plan.ok()) return Fail(state, plan.status());
  }
  state.SetItemsProcessed(state.iterations() * layers);
}
void ManyLayers(benchmark::internal::Benchmark* bench) {
  bench->ArgName("layers")->Unit(benchmark::kMillisecond);
  for (const int layers : {12, 48, 200, 1000}) bench->Arg(layers);
}
BENCHMARK_CAPTURE(PlanSearch, immediate, UpdateMode::kImmediate, false)->Apply(ManyLayers);
BENCHMARK_CAPTURE(PlanSearch, deferred, UpdateMode::kDeferred, false)->Apply(ManyLayers);
BENCHMARK_CAPTURE(PlanSearch, device, UpdateMode::kImmediate, true)->Apply(ManyLayers);
BENCHMARK_CAPTURE(PlanSearch, device_deferred, UpdateMode::kDeferred, true)->Apply(ManyLayers);

// Buffers of a step: most live for a few operations, some over its turn. An item is a buffer.
void Pack(benchmark::State& state) {
  const int count = static_cast<int>(state.range(0));
  std::mt19937 random(1);
  std::vector<PackedBuffer> buffers(count);
  for (int i = 0; i < count; ++i) {
    const int first = i - static_cast<int>(random() % 4);
    buffers[i] = {{first, first + 1 + static_cast<int>(random() % 6)},
                  4096 * (1 + random() % 4096)};
  }
  for (auto _ : state) {
    std::vector<PackedBuffer> packed = buffers;
    benchmark::DoNotOptimize(PackBuffers(count, packed));
  }
  state.SetItemsProcessed(state.iterations() * count);
}
BENCHMARK(Pack)->Arg(64)->Arg(512)->Arg(4096)->ArgName("buffers")->Unit(benchmark::kMicrosecond);

// --- Manifests

Manifest ManifestOf(int layers) {
  Manifest manifest;
  manifest.step = 1000;
  manifest.engine_state = "{}";
  manifest.layout =
      LayersRequest(UpdateMode::kImmediate, layers, 7 << 20, kDefaultTileParameters).layout;
  const uint64_t slot = manifest.layout.MaxTileBytes();
  std::mt19937_64 random(1);
  uint64_t offset = 0;
  for (int unit = 0; unit < manifest.layout.num_units(); ++unit) {
    manifest.tiles.emplace_back();
    for (int tile = 0; tile < manifest.layout.NumTiles(unit); ++tile, offset += 2 * slot) {
      ManifestTile entry;
      entry.slot_offsets[0] = offset;
      entry.slot_offsets[1] = offset + slot;
      entry.slot = tile % 2;
      entry.generations.assign(manifest.layout.num_planes(), 1000);
      for (int i = 0; i < manifest.layout.num_planes(); ++i) entry.checksums.push_back(random());
      manifest.tiles.back().push_back(std::move(entry));
    }
  }
  manifest.files = {{"/swap/tiles", offset}};
  return manifest;
}

int64_t TilesOf(const StateLayout& layout) {
  int64_t tiles = 0;
  for (int unit = 0; unit < layout.num_units(); ++unit) tiles += layout.NumTiles(unit);
  return tiles;
}

// An item is a tile.
void ManifestEncode(benchmark::State& state) {
  const Manifest manifest = ManifestOf(static_cast<int>(state.range(0)));
  uint64_t size_bytes = 0;
  for (auto _ : state) {
    const auto text = EncodeManifest(manifest);
    if (!text.ok()) return Fail(state, text.status());
    size_bytes = text->size();
  }
  state.SetItemsProcessed(state.iterations() * TilesOf(manifest.layout));
  state.SetBytesProcessed(state.iterations() * size_bytes);
}
BENCHMARK(ManifestEncode)->Arg(12)->Arg(200)->ArgName("layers")->Unit(benchmark::kMillisecond);

void ManifestDecode(benchmark::State& state) {
  const Manifest manifest = ManifestOf(static_cast<int>(state.range(0)));
  const auto text = EncodeManifest(manifest);
  if (!text.ok()) return Fail(state, text.status());
  for (auto _ : state) {
    const auto decoded = DecodeManifest(*text, "manifest");
    if (!decoded.ok()) return Fail(state, decoded.status());
  }
  state.SetItemsProcessed(state.iterations() * TilesOf(manifest.layout));
  state.SetBytesProcessed(state.iterations() * text->size());
}
BENCHMARK(ManifestDecode)->Arg(12)->Arg(200)->ArgName("layers")->Unit(benchmark::kMillisecond);

// --- The mover

// A disk of zeros: every plane, gradient and buffer of the run stays zero, so that an engine may
// complete at once, without moving a byte, and every checksum is right all the same.
class ZeroFile final : public File {
 public:
  explicit ZeroFile(absl::string_view path) : File(-1, std::string(path), true, 4096) {}
  absl::Status Preallocate(uint64_t) override { return absl::OkStatus(); }
  absl::StatusOr<uint64_t> SizeBytes() const override { return uint64_t{1} << 40; }
  absl::Status Sync() override { return absl::OkStatus(); }
  absl::Status ReadAt(uint64_t, char*, uint64_t) const override { return absl::OkStatus(); }
  absl::Status WriteAt(uint64_t, const char*, uint64_t) override { return absl::OkStatus(); }
};

class InstantEngine final : public IoEngine {
 public:
  void Submit(IoRequest* request) override { submitted_.push_back(request); }
  size_t Poll(absl::Duration timeout) override {
    if (submitted_.empty()) {
      MutexLock lock(mutex_);
      const auto deadline = std::chrono::steady_clock::now() +
                            absl::ToChronoNanoseconds(std::min(timeout, absl::Hours(1)));
      while (!woken_ && news_.WaitUntil(mutex_, deadline)) {
      }
      woken_ = false;
      return 0;
    }
    // What callbacks submit is for the next turn.
    std::vector<IoRequest*> completed;
    completed.swap(submitted_);
    for (IoRequest* request : completed) request->done(*request, absl::OkStatus());
    return completed.size();
  }
  void Wake() override {
    MutexLock lock(mutex_);
    woken_ = true;
    news_.NotifyOne();
  }
  size_t pending() const override { return submitted_.size(); }
  absl::string_view name() const override { return "instant"; }
  IoStats stats() const override { return {}; }

 private:
  std::vector<IoRequest*> submitted_;
  Mutex mutex_;
  CondVar news_;
  bool woken_ = false;
};

class ZeroDisk final : public FileSystem {
 public:
  absl::StatusOr<std::unique_ptr<File>> Open(absl::string_view path, const FileOptions&) override {
    return std::make_unique<ZeroFile>(path);
  }
  absl::StatusOr<std::unique_ptr<IoEngine>> CreateEngine(const IoEngineOptions&) override {
    return std::make_unique<InstantEngine>();
  }
  absl::StatusOr<std::string> ReadSmallFile(absl::string_view path, uint64_t) override {
    return absl::NotFoundError(path);
  }
  absl::StatusOr<std::unique_ptr<NewFile>> Create(absl::string_view) override {
    return absl::UnimplementedError("nothing is committed");
  }
  absl::Status Rename(absl::string_view, absl::string_view) override { return absl::OkStatus(); }
  absl::Status Remove(absl::string_view) override { return absl::OkStatus(); }
  absl::Status SyncDirectory(absl::string_view) override { return absl::OkStatus(); }
  absl::StatusOr<uint64_t> RandomNumber() override { return uint64_t{1}; }
  absl::Status CreateDirectory(absl::string_view) override { return absl::OkStatus(); }
  absl::Status RemoveDirectory(absl::string_view) override { return absl::OkStatus(); }
  absl::StatusOr<std::vector<std::string>> List(absl::string_view) override {
    return std::vector<std::string>();
  }
  absl::StatusOr<FileInfo> Look(absl::string_view path, SymbolicLink) override {
    return absl::NotFoundError(path);
  }
  std::string Resolve(absl::string_view path) override { return std::string(path); }
};

// Arithmetic that leaves zeros as they are.
class NoArithmetic final : public TileCompute {
 public:
  GradientPartial Round(int, int, uint64_t, const float*, void*) override { return {}; }
  GradientPartial Learn(int, int, uint64_t, const void*) override { return {}; }
  absl::Status Update(const TileView&, const UpdateScalars&) override { return absl::OkStatus(); }
};

// Steps with all state on that disk, computing nothing, in tiles so small (24 KiB) that their
// checksums hardly count: what is left is the work of the mover, the hand-over to two workers and
// back, and the compute thread's calls. An item is a tile's whole way: the weight fetched for
// forward and backward, the gradient rounded, the update's read, arithmetic and write.
void MoverSteps(benchmark::State& state, UpdateMode update) {
  const PlanRequest request = LayersRequest(update, /*layers=*/24, 64 * 2048, 2048);
  auto plan = PlanSwaps(request);
  if (!plan.ok()) return Fail(state, plan.status());
  const int ops = static_cast<int>(plan->schedule.ops.size());
  ZeroDisk disk;
  StoreOptions options;
  options.directories = {"/zero"};
  options.spill = plan->spill_room;
  options.files = &disk;
  const auto store = SwapStore::Create(request.layout, options);
  if (!store.ok()) return Fail(state, store.status());
  MemoryBudget budget("benchmark", uint64_t{1} << 40);
  const auto host = Arena::Create(plan->host_arena_bytes, &budget);
  const auto device = Arena::Create(plan->device_arena_bytes, &budget);
  if (!host.ok() || !device.ok()) return state.SkipWithError("no memory for the arenas");
  NoArithmetic arithmetic;
  const auto created = SwapManager::Create(*std::move(plan), store->get(), host->get(),
                                           device->get(), &arithmetic, SwapManagerOptions());
  if (!created.ok()) return Fail(state, created.status());
  SwapManager& manager = **created;
  absl::Status status = manager.Initialize([](const TileView&) { return absl::OkStatus(); });
  UpdateScalars scalars;
  manager.Enqueue(Program::kTrain);
  for (auto _ : state) {
    ++scalars.step;
    if (update == UpdateMode::kImmediate) manager.AnnounceUpdate(scalars);
    for (int op = 0; op < ops && status.ok(); ++op) {
      status = manager.BeginOp().status();
      if (!status.ok()) break;
      if (op == ops - 1) manager.Enqueue(Program::kTrain);  // its fetches overlap
      manager.EndOp();
    }
    if (status.ok() && update == UpdateMode::kDeferred) {
      status = manager.AwaitGradients().status();
      manager.AnnounceUpdate(scalars);
    }
    if (!status.ok()) return Fail(state, status);
  }
  manager.AbandonQueued();
  status = manager.Flush();
  if (!status.ok()) return Fail(state, status);
  state.SetItemsProcessed(static_cast<int64_t>(manager.stats().tiles_updated));
}
BENCHMARK_CAPTURE(MoverSteps, immediate, UpdateMode::kImmediate)
    ->UseRealTime()
    ->MeasureProcessCPUTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(MoverSteps, deferred, UpdateMode::kDeferred)
    ->UseRealTime()
    ->MeasureProcessCPUTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace spillway
