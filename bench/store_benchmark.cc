// Stores at rest: what checking and copying one gets of what its disks give to plain transfers of
// the same bytes through the same engine, in turns with them.
//
//   SPILLWAY_BENCH_DIRECTORY=DIR[,DIR...] tools/bench AtRest
//
// It needs twice 3 GB there, which are gone at the end. Without directories nothing is measured.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "io/base/status.h"
#include "io/create_io_engine.h"
#include "swap/device/arena.h"
#include "swap/mover/whole_store.h"
#include "swap/store/swap_store.h"

namespace spillway {
namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// 3 GB, 12 bytes a parameter.
StateLayout Layout(uint64_t tile_parameters) {
  std::vector<UnitLayout> units;
  for (int i = 0; i < 24; ++i) units.push_back({absl::StrCat("h.", i), 10'500'000});
  return StateLayout(
      std::move(units),
      {{Plane::kWeight, 2}, {Plane::kResidual, 2}, {Plane::kExpAvg, 4}, {Plane::kExpAvgSq, 4}}, 2,
      tile_parameters);
}

// Folders below those that were asked for, and what is in them, for as long as this lives.
class Folders {
 public:
  Folders() {
    const char* const named = std::getenv("SPILLWAY_BENCH_DIRECTORY");
    for (const absl::string_view parent : absl::StrSplit(named, ',', absl::SkipEmpty())) {
      paths_.push_back(absl::StrCat(parent, "/spillway-store-benchmark-", paths_.size()));
      std::filesystem::create_directories(paths_.back());
    }
  }
  ~Folders() {
    for (const std::string& path : paths_) std::filesystem::remove_all(path);
  }
  // One in each of them.
  std::vector<std::string> Named(absl::string_view name) const {
    std::vector<std::string> paths;
    for (const std::string& path : paths_) {
      paths.push_back(absl::StrCat(path, "/", name));
      std::filesystem::create_directories(paths.back());
    }
    return paths;
  }

 private:
  std::vector<std::string> paths_;
};

absl::StatusOr<std::unique_ptr<SwapStore>> EmptyStore(const StateLayout& layout,
                                                      std::vector<std::string> directories) {
  StoreOptions options;
  options.directories = std::move(directories);
  options.two_slots = false;
  return SwapStore::Create(layout, options);
}

absl::Status Fill(SwapStore& store) {
  const StateLayout& layout = store.layout();
  ASSIGN_OR_RETURN(const auto memory, Arena::Create(layout.MaxTileBytes(), nullptr));
  std::mt19937_64 random(1);
  for (uint64_t at = 0; at < memory->size_bytes(); at += 8) {
    *reinterpret_cast<uint64_t*>(memory->data() + at) = random();
  }
  for (int unit = 0; unit < layout.num_units(); ++unit) {
    for (int tile = 0; tile < layout.NumTiles(unit); ++tile) {
      *reinterpret_cast<uint64_t*>(memory->data()) = random();
      const TileLocation at = store.WritableTile(unit, tile, 0);
      RETURN_IF_ERROR(
          at.file->WriteAt(at.offset_bytes, memory->data(), layout.TileBytes(unit, tile)));
      std::vector<uint64_t> checksums;
      for (int plane = 0; plane < layout.num_planes(); ++plane) {
        checksums.push_back(Checksum(store.PlaneIdentity(unit, tile, plane, 1),
                                     memory->data() + layout.PlaneOffset(unit, tile, plane),
                                     layout.PlaneBytes(unit, tile, plane)));
      }
      store.RecordWrite(unit, tile, 0, checksums, 1);
    }
  }
  return absl::OkStatus();
}

// Every block of some files, read, and written to files as long where there are any: as many at
// once as the engine has in flight, in any order, and nobody looks at the bytes.
class PlainTransfers {
 public:
  static absl::StatusOr<double> Seconds(const std::vector<const File*>& from,
                                        const std::vector<const File*>& to) {
    PlainTransfers transfers;
    for (size_t i = 0; i < from.size(); ++i) {
      ASSIGN_OR_RETURN(const uint64_t size_bytes, from[i]->SizeBytes());
      for (uint64_t at = 0; at < size_bytes; at += kBlockBytes) {
        transfers.blocks_.push_back({from[i], to.empty() ? nullptr : to[i], at,
                                     std::min<uint64_t>(kBlockBytes, size_bytes - at)});
      }
    }
    if (from.size() > 1) {  // all drives at once
      std::sort(transfers.blocks_.begin(), transfers.blocks_.end(),
                [](const Block& a, const Block& b) { return a.offset_bytes < b.offset_bytes; });
    }
    IoEngineOptions options;
    options.announce = false;
    // Half of a copy's blocks are being read, and half written.
    const uint64_t count = options.depth * (to.empty() ? 1 : 2);
    ASSIGN_OR_RETURN(const auto memory, Arena::Create(count * kBlockBytes, nullptr));
    options.memory = {{memory->data(), memory->size_bytes()}};
    options.files = from;
    options.files.insert(options.files.end(), to.begin(), to.end());
    ASSIGN_OR_RETURN(transfers.engine_, CreateIoEngine(options));
    std::vector<IoRequest> requests(count);
    const auto start = Clock::now();
    for (uint64_t i = 0; i < count; ++i) {
      requests[i].data = memory->data() + i * kBlockBytes;
      transfers.Next(requests[i]);
    }
    while (transfers.engine_->pending() > 0) transfers.engine_->Poll(absl::Seconds(1));
    const double seconds = SecondsSince(start);
    RETURN_IF_ERROR(transfers.status_);
    return seconds;
  }

 private:
  static constexpr uint64_t kBlockBytes = 1 << 20;
  struct Block {
    const File* from;
    const File* to;
    uint64_t offset_bytes, size_bytes;
  };

  void Next(IoRequest& request) {
    if (next_ == blocks_.size() || !status_.ok()) return;
    const Block& block = blocks_[next_++];
    request.op = IoOp::kRead;
    request.io_class = IoClass::kPrefetch;
    request.file = block.from;
    request.offset_bytes = block.offset_bytes;
    request.size_bytes = block.size_bytes;
    request.context = this;
    to_[&request] = block.to;
    request.done = [](IoRequest& request, const absl::Status& status) {
      auto& self = *static_cast<PlainTransfers*>(request.context);
      if (self.status_.ok()) self.status_ = status;
      const File* const to = self.to_[&request];
      if (request.op == IoOp::kWrite || to == nullptr) return self.Next(request);
      request.op = IoOp::kWrite;
      request.file = to;
      self.engine_->Submit(&request);
    };
    engine_->Submit(&request);
  }

  std::vector<Block> blocks_;
  size_t next_ = 0;
  std::map<const IoRequest*, const File*> to_;
  std::unique_ptr<IoEngine> engine_;
  absl::Status status_;
};

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// In turns `ours` and `plain`, which say how many seconds they took: rates of `moved_bytes` each,
// and of every round the one over the other.
absl::Status InTurns(benchmark::State& state, uint64_t moved_bytes,
                     const std::function<absl::StatusOr<double>()>& ours,
                     const std::function<absl::StatusOr<double>()>& plain) {
  std::vector<double> rates, plain_rates, ratios;
  for (auto _ : state) {
    double seconds = 0, plain_seconds = 0;
    for (const bool first : {true, false}) {
      if (first == (rates.size() % 2 == 0)) {
        ASSIGN_OR_RETURN(seconds, ours());
      } else {
        ASSIGN_OR_RETURN(plain_seconds, plain());
      }
    }
    state.SetIterationTime(seconds);
    rates.push_back(moved_bytes * 1e-9 / seconds);
    plain_rates.push_back(moved_bytes * 1e-9 / plain_seconds);
    ratios.push_back(plain_seconds / seconds);
  }
  state.counters["GB/s"] = Median(rates);
  state.counters["plain"] = Median(plain_rates);
  state.counters["ratio"] = Median(ratios);
  state.counters["least"] = *std::min_element(ratios.begin(), ratios.end());
  state.counters["most"] = *std::max_element(ratios.begin(), ratios.end());
  return absl::OkStatus();
}

absl::Status Check(benchmark::State& state) {
  const Folders folders;
  const StateLayout layout = Layout(static_cast<uint64_t>(state.range(0)) << 10);
  ASSIGN_OR_RETURN(const auto store, EmptyStore(layout, folders.Named("from")));
  RETURN_IF_ERROR(Fill(*store));
  return InTurns(
      state, layout.TotalBytes(),
      [&]() -> absl::StatusOr<double> {
        const auto start = Clock::now();
        RETURN_IF_ERROR(ReadStore(*store, 0, layout.num_planes(),
                                  [](const TileView&) { return absl::OkStatus(); }));
        return SecondsSince(start);
      },
      [&] { return PlainTransfers::Seconds(store->files(), {}); });
}

// What is read and what is written count both.
absl::Status Copy(benchmark::State& state) {
  const Folders folders;
  const StateLayout layout = Layout(static_cast<uint64_t>(state.range(0)) << 10);
  ASSIGN_OR_RETURN(const auto store, EmptyStore(layout, folders.Named("from")));
  RETURN_IF_ERROR(Fill(*store));
  const auto into_new_files = [&](bool plain) -> absl::StatusOr<double> {
    ASSIGN_OR_RETURN(const auto to, EmptyStore(layout, folders.Named("to")));
    const auto start = Clock::now();
    double seconds = 0;
    if (plain) {
      ASSIGN_OR_RETURN(seconds, PlainTransfers::Seconds(store->files(), to->files()));
    } else {
      RETURN_IF_ERROR(CopyStore(*store, *to));
      seconds = SecondsSince(start);
    }
    to->Remove();
    return seconds;
  };
  return InTurns(
      state, 2 * layout.TotalBytes(), [&] { return into_new_files(false); },
      [&] { return into_new_files(true); });
}

void AtRest(benchmark::State& state, absl::Status (*run)(benchmark::State& state)) {
  const absl::Status status = run(state);
  if (!status.ok()) state.SkipWithError(std::string(status.message()).c_str());
}

// Tiles of a run's size and of a small one's; five rounds.
const bool kRegistered = [] {
  if (std::getenv("SPILLWAY_BENCH_DIRECTORY") == nullptr) return false;
  for (const auto& [name, run] : {std::pair("AtRest/check", &Check), {"AtRest/copy", &Copy}}) {
    benchmark::RegisterBenchmark(name, &AtRest, run)
        ->ArgName("tile_ki_parameters")
        ->Arg(256)
        ->Arg(32)
        ->Iterations(5)
        ->UseManualTime()
        ->MeasureProcessCPUTime()
        ->Unit(benchmark::kMillisecond);
  }
  return true;
}();

}  // namespace
}  // namespace spillway
