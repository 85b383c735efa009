#include "engine/tuning/bench_adam.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <new>
#include <thread>
#include <vector>

#include "engine/numeric/optimizer.h"
#include "engine/numeric/optimizer_state.h"
#include "engine/tuning/tune_choice.h"
#include "io/base/check.h"

namespace spillway {
namespace {

struct Free {
  void operator()(char* memory) const { ::operator delete[](memory, std::align_val_t(64)); }
};
using FreedBytes = std::unique_ptr<char, Free>;

// Leaves the memory untouched: each thread faults in its own part.
FreedBytes Allocate(uint64_t size_bytes) {
  return FreedBytes(static_cast<char*>(::operator new[](size_bytes, std::align_val_t(64))));
}

double SecondsOf(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Runs work(thread) on that many threads, including the caller's. Throws std::system_error if the
// system does not start them all; those that it started have ended by then.
void OnThreads(int threads, const std::function<void(int)>& work) {
  std::vector<std::jthread> others;
  for (int i = 1; i < threads; ++i) {
    others.emplace_back(work, i);
  }
  work(0);
}

// The planes of all tiles, laid out as in the store: tile after tile.
struct AdamState {
  OptimizerSpec spec;
  StateLayout layout;
  FreedBytes planes;
  FreedBytes gradient;
  std::vector<uint64_t> tile_offsets;

  explicit AdamState(uint64_t parameters)
      : layout({{"bench", parameters}}, StatePlanes(spec, DType::kBFloat16), 2) {
    uint64_t size_bytes = 0;
    for (int tile = 0; tile < layout.NumTiles(0); ++tile) {
      tile_offsets.push_back(size_bytes);
      size_bytes += layout.TileBytes(0, tile);
    }
    planes = Allocate(size_bytes);
    gradient = Allocate(layout.PaddedParameters(0) * 2);
  }

  TileView View(int tile, std::vector<char*>& pointers) const {
    pointers.clear();
    for (int plane = 0; plane < layout.num_planes(); ++plane) {
      pointers.push_back(planes.get() + tile_offsets[tile] + layout.PlaneOffset(0, tile, plane));
    }
    return {.unit = 0,
            .tile = tile,
            .first_parameter = layout.TileBegin(tile),
            .parameters = layout.TileParameters(0, tile),
            .planes = pointers.data(),
            .gradient = gradient.get() + layout.TileBegin(tile) * 2};
  }
};

// Small weights and gradients, zero moments.
void Initialise(const AdamState& state, int tile) {
  std::vector<char*> pointers;
  const TileView view = state.View(tile, pointers);
  uint16_t* weight = reinterpret_cast<uint16_t*>(pointers[0]);
  uint16_t* gradient = static_cast<uint16_t*>(const_cast<void*>(view.gradient));
  for (uint64_t i = 0; i < view.parameters; ++i) {
    weight[i] = BFloat16FromFloat(0.02f + static_cast<float>(i % 97) * 1e-4f);
    gradient[i] = BFloat16FromFloat(1e-3f * (static_cast<float>(i % 31) - 15.0f));
  }
  for (int plane = 1; plane < state.layout.num_planes(); ++plane) {
    std::memset(pointers[plane], 0, state.layout.PlaneBytes(0, tile, plane));
  }
}

}  // namespace

AdamBenchResult RunAdamBench(uint64_t parameters, int threads, int repeats) {
  SPILLWAY_CHECK(parameters >= 1 && threads >= 1 && repeats >= 1);
  const AdamState state(parameters);
  OptimizerTiles optimizer(state.spec, DType::kBFloat16, state.layout, {{{0, parameters}}});
  const auto for_tiles = [&](const std::function<void(int)>& work) {
    OnThreads(threads, [&](int thread) {
      for (int tile = thread; tile < state.layout.NumTiles(0); tile += threads) {
        work(tile);
      }
    });
  };
  for_tiles([&](int tile) { Initialise(state, tile); });

  const uint64_t half_bytes = kAdamBytesPerParameter * parameters / 2;
  const FreedBytes from = Allocate(half_bytes);
  const FreedBytes to = Allocate(half_bytes);
  const auto copy = [&] {
    OnThreads(threads, [&](int thread) {
      const uint64_t begin = half_bytes * thread / threads;
      const uint64_t end = half_bytes * (thread + 1) / threads;
      std::memcpy(to.get() + begin, from.get() + begin, end - begin);
    });
  };
  std::memset(from.get(), 1, half_bytes);
  std::memset(to.get(), 0, half_bytes);

  std::vector<double> update_seconds, copy_seconds;
  for (int repeat = 0; repeat < repeats; ++repeat) {
    update_seconds.push_back(SecondsOf([&] {
      for_tiles([&](int tile) {
        std::vector<char*> pointers;
        const UpdateScalars scalars = {.step = repeat + 1, .learning_rate = 1e-5};
        SPILLWAY_CHECK(optimizer.Update(state.View(tile, pointers), scalars).ok());
      });
    }));
    copy_seconds.push_back(SecondsOf(copy));
  }

  AdamBenchResult result;
  result.parameters = parameters;
  result.threads = threads;
  result.seconds = Median(update_seconds);
  result.memory_seconds = Median(copy_seconds);
  result.bytes_per_second =
      static_cast<double>(kAdamBytesPerParameter * parameters) / result.seconds;
  result.memory_bytes_per_second = static_cast<double>(2 * half_bytes) / result.memory_seconds;
  result.fraction_of_memory = result.bytes_per_second / result.memory_bytes_per_second;
  return result;
}

}  // namespace spillway
