#include "engine/ranks/replica_weights.h"

#include <algorithm>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/ranks/thread_ranks.h"

namespace spillway {
namespace {

using testing::HasSubstr;

struct ReplicaShape {
  int replicas = 2;
  int group = 1;
  std::vector<uint64_t> units;  // parameters of a shard
  uint64_t tile_parameters = 2048;
  uint64_t memory_bytes = 1 << 16;
  int workers = 2;
};

float ValueAt(int unit, uint64_t i) {
  return static_cast<float>((i * 37 + unit * 101) % 65521) / 64;
}

StateLayout LayoutOf(const ReplicaShape& shape) {
  std::vector<UnitLayout> units;
  for (size_t u = 0; u < shape.units.size(); ++u) {
    units.push_back({absl::StrCat("u", u), shape.units[u]});
  }
  return StateLayout(units, {{Plane::kWeight, 4}}, 4, shape.tile_parameters);
}

struct Tile {
  int unit = 0;
  uint64_t begin = 0;
  uint64_t count = 0;
};

std::vector<Tile> TilesOf(const StateLayout& layout) {
  std::vector<Tile> tiles;
  for (int unit = 0; unit < layout.num_units(); ++unit) {
    for (int tile = 0; tile < layout.NumTiles(unit); ++tile) {
      tiles.push_back({unit, layout.TileBegin(tile), layout.TileParameters(unit, tile)});
    }
  }
  return tiles;
}

// What the ranks that have shard `shard` of `shape` do, by the thread, and what came of it.
struct Replicas {
  Replicas(const ReplicaShape& shape, int shard)
      : shape(shape), shard(shard), ranks(shape.replicas), all(shape.replicas) {}

  // Fails reads, or what takes values, on a replica in this tile or later.
  struct Fault {
    int replica = -1;
    size_t tile = 0;
    bool reads = false;
    absl::Status status;
  };

  void Run() { Run(Fault()); }
  void Run(const Fault& fault) {
    std::vector<std::thread> threads;
    for (int replica = 0; replica < shape.replicas; ++replica) {
      threads.emplace_back([this, replica, &fault] { RunOne(replica, fault); });
    }
    for (std::thread& thread : threads) thread.join();
  }

  struct One {
    std::vector<std::vector<int>> read;      // [unit][parameter] how often
    std::vector<std::vector<float>> values;  // likewise; what was taken
    uint64_t read_parameters = 0;
    absl::Status status;
  };

  const ReplicaShape shape;
  const int shard;
  ThreadRanks ranks;
  std::vector<One> all;

 private:
  void RunOne(int replica, const Fault& fault) {
    const StateLayout layout = LayoutOf(shape);
    const std::vector<Tile> tiles = TilesOf(layout);
    const bool faulty = fault.replica == replica;
    One& own = all[replica];
    for (uint64_t parameters : shape.units) {
      own.read.emplace_back(parameters, 0);
      own.values.emplace_back(parameters, -1.0f);
    }
    // What is written behind the memory is noticed.
    std::vector<float> memory(shape.memory_bytes / sizeof(float) + 64, 4711.0f);
    const ShardGrid grid{shape.replicas * shape.group, shape.group, replica * shape.group + shard};
    const auto read = [&](int unit, uint64_t begin, uint64_t count, float* out) -> absl::Status {
      const Tile& bad = tiles[fault.tile];
      if (faulty && fault.reads &&
          std::make_pair(unit, begin) >= std::make_pair(bad.unit, bad.begin))
        return fault.status;
      for (uint64_t i = 0; i < count; ++i) {
        ++own.read[unit][begin + i];
        out[i] = ValueAt(unit, begin + i);
      }
      own.read_parameters += count;
      return absl::OkStatus();
    };
    ReplicaWeights weights(layout, grid, ranks.rank(replica),
                           reinterpret_cast<char*>(memory.data()), shape.memory_bytes, read);
    Mutex mutex;
    size_t next = 0;
    absl::Status first;
    std::vector<std::thread> workers;
    for (int worker = 0; worker < shape.workers; ++worker) {
      workers.emplace_back([&] {
        while (true) {
          mutex.Lock();
          const size_t index = first.ok() ? next++ : tiles.size();
          mutex.Unlock();
          if (index >= tiles.size()) return;
          const Tile& tile = tiles[index];
          absl::Status status = weights.TakeStretch(
              tile.unit, tile.begin, tile.count,
              [&](uint64_t begin, uint64_t count, const float* values) -> absl::Status {
                if (faulty && !fault.reads && index >= fault.tile) return fault.status;
                std::copy(values, values + count, own.values[tile.unit].begin() + begin);
                return absl::OkStatus();
              });
          MutexLock lock(mutex);
          if (first.ok()) first = status;
        }
      });
    }
    for (std::thread& worker : workers) worker.join();
    own.status = first;
    if (!first.ok()) weights.Stop(first);
    EXPECT_TRUE(std::all_of(memory.end() - 64, memory.end(), [](float x) { return x == 4711.0f; }));
  }
};

ReplicaShape RandomShape(std::mt19937& random) {
  ReplicaShape shape;
  shape.replicas = 2 + random() % 4;
  shape.group = 1 + random() % 3;
  shape.workers = 1 + random() % 4;
  shape.tile_parameters = 2048 * (1 + random() % 4);
  for (int unit = 1 + random() % 5; unit > 0; --unit) {
    shape.units.push_back(2048 * (random() % 9));
  }
  shape.units.push_back(2048);
  // From a few parameters at once to more than there are.
  shape.memory_bytes = (uint64_t{1} << (10 + random() % 10)) + 4 * (random() % 64);
  return shape;
}

TEST(ReplicaWeights, EveryParameterIsReadOnceAndComesToAll) {
  for (uint32_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    std::mt19937 random(seed);
    const ReplicaShape shape = RandomShape(random);
    Replicas replicas(shape, random() % shape.group);
    replicas.Run();
    uint64_t total = 0, most = 0, least = ~uint64_t{0}, rounds = 0;
    for (size_t unit = 0; unit < shape.units.size(); ++unit) {
      const uint64_t part = std::min<uint64_t>(shape.memory_bytes / 8 / shape.replicas,
                                               ReplicaWeights::kMostPartParameters);
      rounds += shape.units[unit] / (part * shape.replicas) + 1;
      for (uint64_t i = 0; i < shape.units[unit]; ++i) {
        int times = 0;
        for (const auto& one : replicas.all) times += one.read[unit][i];
        ASSERT_EQ(times, 1) << "unit " << unit << " parameter " << i;
        for (const auto& one : replicas.all) ASSERT_EQ(one.values[unit][i], ValueAt(unit, i));
      }
    }
    for (const auto& one : replicas.all) {
      ASSERT_EQ(one.status, absl::OkStatus());
      total += one.read_parameters;
      most = std::max(most, one.read_parameters);
      least = std::min(least, one.read_parameters);
    }
    // Even but for what is left over in each round.
    EXPECT_LE(most - least, rounds * shape.replicas) << "of " << total;
  }
}

// Whoever fails, in whichever way and wherever, ends all, who know because of whom.
TEST(ReplicaWeights, AFailureOfOneEndsAll) {
  for (uint32_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    std::mt19937 random(seed);
    ReplicaShape shape = RandomShape(random);
    shape.units.assign(1 + random() % 3, 16 * 2048);
    shape.memory_bytes = 4096 << random() % 3;  // rounds enough to follow
    Replicas replicas(shape, random() % shape.group);
    Replicas::Fault fault;
    fault.replica = static_cast<int>(random() % shape.replicas);
    fault.reads = random() % 2;
    // Two rounds may be there before anybody takes the first.
    fault.tile = random() % (TilesOf(LayoutOf(shape)).size() - 2);
    fault.status = absl::DataLossError("model.safetensors ends too soon");
    replicas.Run(fault);
    const int rank = fault.replica * shape.group + replicas.shard;
    for (int replica = 0; replica < shape.replicas; ++replica) {
      const absl::Status& status = replicas.all[replica].status;
      EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
      if (replica == fault.replica) {
        EXPECT_EQ(status, fault.status);
      } else {
        EXPECT_THAT(std::string(status.message()),
                    HasSubstr(absl::StrCat("stopped because of rank ", rank, ": ")));
      }
    }
  }
}

TEST(ReplicaWeights, ARankThatIsGoneEndsAll) {
  for (int calls = 0; calls < 6; ++calls) {
    ReplicaShape shape;
    shape.replicas = 3;
    shape.units = {8 * 2048};
    shape.memory_bytes = 1 << 14;
    Replicas replicas(shape, 0);
    replicas.ranks.FailAfter(1, calls);
    replicas.Run();
    for (const auto& one : replicas.all) EXPECT_TRUE(absl::IsUnavailable(one.status)) << one.status;
  }
}

}  // namespace
}  // namespace spillway
