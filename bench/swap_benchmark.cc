// What swap/ itself costs: planning, packing, manifests, and the mover's work on a tile.
#include <benchmark/benchmark.h>

#include <random>
#include <string>
#include <utility>
#include <vector>

#include "engine/tuning/null_steps.h"
#include "swap/forecast/step_simulation.h"
#include "swap/plan/stay_packing.h"
#include "swap/store/manifest.h"

namespace spillway {
namespace {

void Fail(benchmark::State& state, const absl::Status& status) {
  state.SkipWithError(std::string(status.message()).c_str());
}

// --- Planning

// The search over a step's time line, with memory for a third of the state; `separate_device`: of
// each kind. With several drives more may be under way, and so more is tried. An item is a layer.
void PlanSearch(benchmark::State& state, UpdateMode update, bool separate_device, int drives = 1) {
  const int layers = static_cast<int>(state.range(0));
  PlanRequest request = LayersRequest(update, layers, 7 << 20, kDefaultTileParameters);
  request.weights = request.optimizer = TierChoice::kAuto;
  request.host_bytes = request.device_bytes = request.layout.TotalPaddedParameters() * 4;
  StepClock clock;
  clock.disk = {2.5e9 * drives, 2.4e9 * drives, 2.8e9 * drives};
  clock.workers = drives;
  clock.update_bytes_per_second = 2e10 * drives;
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
BENCHMARK_CAPTURE(PlanSearch, drives, UpdateMode::kImmediate, false, 8)->Apply(ManyLayers);
BENCHMARK_CAPTURE(PlanSearch, drives_deferred, UpdateMode::kDeferred, false, 8)->Apply(ManyLayers);

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

// Steps with all state on a disk that completes at once, computing nothing, in tiles so small (24
// KiB) that their checksums hardly count: what is left is the work of the mover, the hand-over to
// two workers and back, and the compute thread's calls. An item is a tile's whole way: the weight
// fetched for forward and backward, the gradient rounded, the update's read, arithmetic and write.
void MoverSteps(benchmark::State& state, UpdateMode update) {
  const int layers = static_cast<int>(state.range(0));
  const auto created =
      NullSteps::Create(LayersRequest(update, layers, 64 * 2048, 2048), NullSteps::Options());
  if (!created.ok()) return Fail(state, created.status());
  NullSteps& steps = **created;
  for (auto _ : state) {
    if (const absl::Status status = steps.Step(); !status.ok()) return Fail(state, status);
  }
  if (const absl::Status status = steps.Flush(); !status.ok()) return Fail(state, status);
  const NullSteps::Work work = steps.work();
  state.SetItemsProcessed(static_cast<int64_t>(work.tiles));
  state.counters["mover_us_a_tile"] = work.mover_seconds * 1e6 / static_cast<double>(work.tiles);
}
void FewAndManyLayers(benchmark::internal::Benchmark* bench) {
  bench->ArgName("layers")->Unit(benchmark::kMillisecond);
  bench->UseRealTime()->MeasureProcessCPUTime();
  for (const int layers : {24, 50, 1000}) bench->Arg(layers);
}
BENCHMARK_CAPTURE(MoverSteps, immediate, UpdateMode::kImmediate)->Apply(FewAndManyLayers);
BENCHMARK_CAPTURE(MoverSteps, deferred, UpdateMode::kDeferred)->Apply(FewAndManyLayers);

}  // namespace
}  // namespace spillway
