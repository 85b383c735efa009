#include "engine/estimate/machine_probe.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <thread>

#include "engine/machine/disk_pass.h"
#include "engine/numeric/optimizer.h"
#include "io/base/check.h"
#include "io/base/clock.h"
#include "io/base/format_bytes.h"
#include "io/base/status.h"
#include "io/checksum.h"
#include "io/create_io_engine.h"
#include "swap/device/arena.h"
#include "swap/device/memory_budget.h"
#include "swap/device/tile_compute.h"

namespace spillway {
namespace {

constexpr double kPassSeconds = 0.25;  // for each of the four

// One worker's tile, with small values, and with checksums like a tile in the store.
class ProbeTile {
 public:
  ProbeTile(const StateLayout& layout, DType dtype, bool in_store)
      : layout_(layout), in_store_(in_store) {
    const uint64_t parameters = layout.TileParameters(0, 0);
    memory_.resize(layout.TileBytes(0, 0) + layout.GradientBytes(0, 0) +
                   parameters * sizeof(float) + 64);
    char* next = memory_.data() + (64 - reinterpret_cast<uintptr_t>(memory_.data()) % 64);
    for (int plane = 0; plane < layout.num_planes(); ++plane) {
      planes_.push_back(next + layout.PlaneOffset(0, 0, plane));
    }
    gradient_ = next + layout.TileBytes(0, 0);
    sums_ = reinterpret_cast<float*>(gradient_ + layout.GradientBytes(0, 0));
    std::fill(sums_, sums_ + parameters, 1e-3f);
  }

  // Reads or writes every byte of PhaseTraffic::update_bytes once.
  uint64_t Touch(OptimizerTiles& optimizer, int64_t step) {
    const uint64_t parameters = layout_.TileParameters(0, 0);
    optimizer.Round(0, 0, parameters, sums_, gradient_);
    if (in_store_) Checksums();
    TileView view;
    view.parameters = parameters;
    view.planes = planes_.data();
    view.gradient = gradient_;
    SPILLWAY_CHECK(optimizer.Update(view, {.step = step, .learning_rate = 1e-6}).ok());
    if (in_store_) Checksums();
    return 2 * layout_.TileBytes(0, 0) + 2 * layout_.GradientBytes(0, 0) +
           parameters * sizeof(float);
  }

 private:
  void Checksums() {
    for (int plane = 0; plane < layout_.num_planes(); ++plane) {
      checksum_ = Checksum({}, planes_[plane], layout_.PlaneBytes(0, 0, plane));
    }
  }

  const StateLayout& layout_;
  const bool in_store_;
  std::vector<char> memory_;
  std::vector<char*> planes_;
  char* gradient_;
  float* sums_;
  volatile uint64_t checksum_ = 0;  // keeps the compiler from removing it
};

// Replaces numbers by usual ones: the time is the same, and the tiles stay finite for any settings.
OptimizerSpec WithUsualNumbers(const OptimizerSpec& given) {
  OptimizerSpec usual;
  usual.kind = given.kind;
  usual.moments = given.moments;
  usual.masters = given.masters;
  usual.momentum = given.momentum == 0 ? 0 : 0.9;
  usual.nesterov = given.nesterov;
  return usual;
}

// Bytes a second of `touch(worker, repeat)`, which returns how many bytes it touched, on all
// workers at once: the best of a few runs after one that faults the memory in.
double BestRate(int workers, const std::function<uint64_t(int, int)>& touch) {
  double best = 0;
  for (int repeat = 0; repeat < 4; ++repeat) {
    std::vector<uint64_t> bytes(workers);
    std::vector<std::jthread> threads;  // joined even if one does not start
    const double began = MonotonicSeconds();
    for (int worker = 0; worker < workers; ++worker) {
      threads.emplace_back([&, worker] { bytes[worker] = touch(worker, repeat); });
    }
    for (std::jthread& thread : threads) thread.join();
    const uint64_t total = std::accumulate(bytes.begin(), bytes.end(), uint64_t{0});
    const double seconds = MonotonicSeconds() - began;
    if (repeat > 0) best = std::max(best, static_cast<double>(total) / seconds);
  }
  return best;
}

}  // namespace

uint64_t ProbeBytesFor(const StepTraffic& traffic) {
  return std::clamp(traffic.read_bytes + traffic.written_bytes, kMiB, 256 * kMiB);
}

absl::StatusOr<DiskRates> MeasureDisk(const DiskProbe& probe) {
  SPILLWAY_CHECK(!probe.paths.empty());
  IoEngineOptions io = probe.io;
  io.announce = false;
  ASSIGN_OR_RETURN(const auto engine, CreateIoEngine(io));
  // Blocks have the store's size if the memory holds several of them.
  uint64_t block_bytes = io.block_bytes;
  while (block_bytes > 64 * 1024 &&
         (4 * block_bytes > probe.buffer_bytes || 16 * block_bytes > probe.probe_bytes)) {
    block_bytes /= 2;
  }
  const int window = static_cast<int>(std::clamp<uint64_t>(
      std::min(probe.buffer_bytes, probe.probe_bytes) / block_bytes, 1, io.depth));
  // The first write of a block allocates it; training overwrites blocks.
  const uint64_t file_bytes =
      (std::max<uint64_t>(probe.probe_bytes / block_bytes, 1) / probe.paths.size() + 1) *
      block_bytes;
  std::vector<std::unique_ptr<File>> files;
  std::vector<const File*> pointers;
  for (const std::string& path : probe.paths) {
    ASSIGN_OR_RETURN(auto file, OpenNamelessFile(path, file_bytes));
    files.push_back(std::move(file));
    pointers.push_back(files.back().get());
  }
  MemoryBudget budget("probe", window * block_bytes + kMiB);
  ASSIGN_OR_RETURN(const auto buffer, Arena::Create(window * block_bytes, &budget));
  std::memset(buffer->data(), 0x5a, window * block_bytes);

  DiskPass pass(engine.get(), pointers, buffer->data(), block_bytes, window);
  DiskPassOptions one;
  one.seconds = kPassSeconds;
  one.file_bytes = file_bytes;
  one.blocks = std::max<uint64_t>(probe.probe_bytes / block_bytes, 1);
  one.mix = PassMix::kWrite;
  ASSIGN_OR_RETURN(const DiskPassResult first, pass.Run(one));
  // Reads no more blocks than have been written.
  one.blocks = first.bytes() / block_bytes;
  DiskRates rates;
  const auto measure = [&](PassMix mix) {
    one.mix = mix;
    return pass.Run(one);
  };
  ASSIGN_OR_RETURN(const DiskPassResult written, measure(PassMix::kWrite));
  ASSIGN_OR_RETURN(const DiskPassResult read, measure(PassMix::kRead));
  ASSIGN_OR_RETURN(const DiskPassResult mixed, measure(PassMix::kAlternate));
  rates.write_bytes_per_second = written.bytes_per_second();
  rates.read_bytes_per_second = read.bytes_per_second();
  rates.mixed_bytes_per_second = mixed.bytes_per_second();
  rates.processor_seconds_per_byte =
      mixed.processor_seconds / static_cast<double>(std::max<uint64_t>(1, mixed.bytes()));
  return rates;
}

double MeasureUpdates(const OptimizerSpec& spec, DType dtype, const StateLayout& layout,
                      bool in_store, int workers, uint64_t memory_bytes) {
  // One unit of a whole tile, or as large as the largest unit.
  uint64_t parameters = kParameterAlignment;
  for (int unit = 0; unit < layout.num_units(); ++unit) {
    if (layout.NumTiles(unit) == 0) continue;  // a loss may have no parameters
    parameters = std::max(parameters, layout.TileParameters(unit, 0));
  }
  const StateLayout one({{"probe", parameters}}, layout.planes(),
                        layout.gradient_bytes_per_parameter(), layout.tile_parameters());
  OptimizerTiles optimizer(WithUsualNumbers(spec), dtype, one, {{{0, parameters}}});
  optimizer.MeasureWholeUnits();
  const uint64_t tile_bytes =
      one.MaxTileBytes() + one.MaxGradientTileBytes() + parameters * sizeof(float);
  const uint64_t tiles_each = std::clamp<uint64_t>(memory_bytes / tile_bytes / workers, 1, 16);
  std::vector<std::unique_ptr<ProbeTile>> tiles;
  for (uint64_t i = 0; i < workers * tiles_each; ++i) {
    tiles.push_back(std::make_unique<ProbeTile>(one, dtype, in_store));
  }
  return BestRate(workers, [&](int worker, int repeat) {
    uint64_t bytes = 0;
    for (uint64_t i = 0; i < tiles_each; ++i) {
      bytes += tiles[worker * tiles_each + i]->Touch(optimizer, 1 + repeat);
    }
    return bytes;
  });
}

CheckRates MeasureChecks(int workers, uint64_t memory_bytes) {
  constexpr uint64_t kBlockBytes = kMiB;
  // Pairs of blocks: one is copied to the other.
  const uint64_t pairs_each =
      std::max<uint64_t>(1, memory_bytes / (2 * kBlockBytes) / static_cast<uint64_t>(workers));
  std::vector<char> memory(pairs_each * workers * 2 * kBlockBytes, 1);
  std::atomic<uint64_t> kept{0};  // keeps the compiler from removing it
  const auto over_blocks = [&](const auto& visit) {
    return BestRate(workers, [&](int worker, int) {
      for (uint64_t i = 0; i < pairs_each; ++i) {
        visit(memory.data() + (worker * pairs_each + i) * 2 * kBlockBytes);
      }
      return pairs_each * kBlockBytes;
    });
  };
  CheckRates rates;
  rates.check_bytes_per_second = over_blocks([&](const char* pair) {
    kept.store(Checksum({}, pair, kBlockBytes), std::memory_order_relaxed);
  });
  rates.copy_bytes_per_second =
      over_blocks([&](char* pair) { std::memcpy(pair + kBlockBytes, pair, kBlockBytes); });
  return rates;
}

}  // namespace spillway
