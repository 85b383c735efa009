// Steps of ranks that are threads, with shards of one model: for tests of ShardedStep.
#pragma once

#include <cmath>
#include <cstring>
#include <optional>
#include <random>
#include <thread>

#include "engine/numeric/gradient_loops.h"
#include "engine/numeric/optimizer.h"
#include "engine/numeric/optimizer_state.h"
#include "engine/ranks/sharded_step.h"
#include "gtest/gtest.h"
#include "swap/plan/planner.h"
#include "tests/device/test_device.h"
#include "tests/engine/ranks/thread_ranks.h"
#include "tests/scratch_directory.h"

namespace spillway {

inline constexpr uint64_t kTile = 4096;

struct Shape {
  std::vector<uint64_t> units;  // parameters
  std::vector<std::vector<int>> borrows;
  UpdateMode update = UpdateMode::kDeferred;
  int steps = 3;
  ExchangeFormat format = ExchangeFormat::kFloat32;
  uint64_t bucket = 1024;
  TierChoice inputs = TierChoice::kDevice;  // from elsewhere they must come back
};

inline uint64_t InputBytes(int unit) { return 5000 + unit * 3000; }

inline float Initial(int unit, uint64_t i) {
  return static_cast<float>(static_cast<int>((i * 37 + unit * 101) % 257) - 128) / 64;
}

// What a rank's batch adds to a parameter's gradient; of the weight as it is at that operation.
inline float Contribution(int rank, int step, int op, uint64_t i, float weight) {
  const int noise = static_cast<int>((i * 31 + rank * 977 + step * 131 + op * 17) % 1021) - 510;
  return weight * 0.37f + static_cast<float>(noise) / 771;
}

inline OptimizerSpec Spec() {
  OptimizerSpec spec;
  spec.learning_rate = 0.01;
  return spec;
}

inline StateLayout LayoutOf(const Shape& shape, const ShardGrid& grid) {
  std::vector<UnitLayout> units;
  for (size_t u = 0; u < shape.units.size(); ++u) {
    units.push_back({"u" + std::to_string(u), grid.ShardParameters(shape.units[u])});
  }
  return StateLayout(units, StatePlanes(Spec(), DType::kFloat32), 4, kTile);
}

inline std::vector<std::vector<ParameterRange>> AllDecay(const StateLayout& layout) {
  std::vector<std::vector<ParameterRange>> ranges;
  for (const UnitLayout& unit : layout.units()) ranges.push_back({{0, unit.parameters}});
  return ranges;
}

inline UpdateScalars ScalarsOf(int step, double sum_of_squares) {
  UpdateScalars scalars;
  scalars.step = step;
  scalars.learning_rate = 0.01;
  scalars.gradient_scale = std::min(1.0, 1.0 / (std::sqrt(sum_of_squares) + 1e-6));
  return scalars;
}

// [unit] The weights of the whole model, without padding, and every step's norm.
struct Outcome {
  std::vector<std::vector<float>> weights;
  std::vector<double> squares;
  std::vector<uint64_t> sent_bytes;  // [rank], of the steps
};

// What others get of a rank's sums, by the definition.
inline void Exchange(ExchangeFormat format, std::vector<float>& sums) {
  if (format == ExchangeFormat::kBFloat16) {
    for (float& sum : sums) sum = FloatFromBFloat16(BFloat16FromFloat(sum));
  }
  if (format != ExchangeFormat::kFloat8) return;
  for (size_t begin = 0; begin < sums.size(); begin += kExchangeBlock) {
    const size_t end = std::min<size_t>(sums.size(), begin + kExchangeBlock);
    float scale = 0;
    for (size_t i = begin; i < end; ++i) scale = std::max(scale, std::abs(sums[i]));
    for (size_t i = begin; i < end && scale > 0; ++i) {
      sums[i] = FloatFromFloat8(Float8FromFloat(sums[i] / scale * 256)) / 256 * scale;
    }
  }
}

// The same steps on whole units, by the definition.
inline Outcome Reference(const Shape& shape, int ranks) {
  const ShardGrid whole{ranks, 1, 0};
  const StateLayout layout = LayoutOf(shape, whole);
  OptimizerTiles tiles(Spec(), DType::kFloat32, layout, AllDecay(layout));
  const StepSchedule schedule = BuildTrainSchedule({shape.borrows}, shape.update);
  const int num_units = static_cast<int>(shape.units.size());
  Outcome outcome;
  std::vector<std::vector<std::vector<float>>> planes(num_units);  // [unit][plane]
  for (int u = 0; u < num_units; ++u) {
    planes[u].assign(3, std::vector<float>(whole.UnitParameters(shape.units[u]), 0));
    for (uint64_t i = 0; i < shape.units[u]; ++i) planes[u][0][i] = Initial(u, i);
  }
  for (int step = 1; step <= shape.steps; ++step) {
    std::vector<std::vector<float>> totals(num_units);
    for (int rank = 0; rank < ranks; ++rank) {
      std::vector<std::vector<float>> sums(num_units);
      for (size_t op = 0; op < schedule.ops.size(); ++op) {
        for (int u : schedule.ops[op].gradients) {
          sums[u].resize(planes[u][0].size(), 0);
          for (uint64_t i = 0; i < shape.units[u]; ++i) {
            sums[u][i] += Contribution(rank, step, static_cast<int>(op), i, planes[u][0][i]);
          }
        }
      }
      for (int u = 0; u < num_units; ++u) {
        Exchange(shape.format, sums[u]);
        if (rank == 0) totals[u] = sums[u];
        for (uint64_t i = 0; rank > 0 && i < sums[u].size(); ++i) totals[u][i] += sums[u][i];
      }
    }
    double squares = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      double own = 0;
      for (int u = 0; u < num_units; ++u) {
        const uint64_t portion = whole.PortionParameters(shape.units[u]);
        for (uint64_t begin = 0; begin < portion; begin += kTile) {
          std::vector<float> rounded(kTile);
          own += RoundGradient(DType::kFloat32, totals[u].data() + rank * portion + begin,
                               rounded.data(), std::min(kTile, portion - begin));
        }
      }
      squares += own;
    }
    outcome.squares.push_back(squares);
    const UpdateScalars scalars =
        ScalarsOf(step, shape.update == UpdateMode::kDeferred ? squares : 0);
    for (int u = 0; u < num_units; ++u) {
      for (int t = 0; t < layout.NumTiles(u); ++t) {
        char* pointers[3];
        for (int p = 0; p < 3; ++p) {
          pointers[p] = reinterpret_cast<char*>(planes[u][p].data() + layout.TileBegin(t));
        }
        TileView view{u,
                      t,
                      layout.TileBegin(t),
                      layout.TileParameters(u, t),
                      pointers,
                      totals[u].data() + layout.TileBegin(t)};
        EXPECT_EQ(tiles.Update(view, scalars), absl::OkStatus());
      }
    }
  }
  for (int u = 0; u < num_units; ++u) {
    planes[u][0].resize(shape.units[u]);
    outcome.weights.push_back(planes[u][0]);
  }
  return outcome;
}

// Where a rank's operations compute.
struct ComputeOn {
  std::chrono::microseconds takes = {};
  // Whose streams are threads; null: the host's memory. Operations are put into its compute stream.
  Device* device = nullptr;
};

// What a forward puts in place of its inputs must be what the backward finds.
inline void PutOrCheckInputs(const Shape& shape, int step, const OpBuffers& buffers) {
  const StepOp& op = *buffers.op;
  const bool leave = shape.inputs != TierChoice::kDevice && op.kind != OpKind::kLoss;
  ASSERT_EQ(buffers.inputs != nullptr, leave);
  if (!leave) return;
  ASSERT_GE(buffers.inputs_bytes, InputBytes(op.unit));
  for (uint64_t i = 0; i < buffers.inputs_bytes; ++i) {
    const char expected = static_cast<char>(step * 83 + op.unit * 31 + i);
    if (op.kind == OpKind::kForward) buffers.inputs[i] = expected;
    ASSERT_EQ(buffers.inputs[i], expected) << "byte " << i << " of unit " << op.unit;
  }
}

// One rank's life. Its shard's weights go to their place in outcome.weights.
inline absl::Status RunRank(const Shape& shape, const ShardGrid& grid, GatheredWeights gathered,
                            Conversations& conversations, Outcome& outcome,
                            const ComputeOn& compute = {}) {
  const StateLayout layout = LayoutOf(shape, grid);
  OptimizerTiles tiles(Spec(), DType::kFloat32, layout, AllDecay(layout));
  ShardedStep::Options options;
  options.grid = grid;
  std::vector<uint64_t> unit_parameters;
  for (uint64_t parameters : shape.units) {
    unit_parameters.push_back(grid.UnitParameters(parameters));
    options.shard_parameters.push_back(grid.ShardParameters(parameters));
    options.unit_parameters.push_back(parameters);
  }
  options.schedule = BuildShardedSchedule(BuildTrainSchedule({shape.borrows}, shape.update),
                                          gathered, unit_parameters, 4);
  options.weight_bytes = 4;
  options.sums = {grid, shape.bucket, shape.format, kTile, shape.update == UpdateMode::kDeferred};
  PlanRequest request;
  request.layout = layout;
  request.schedule = options.schedule.swap;
  request.host_bytes = request.device_bytes = uint64_t{1} << 30;
  request.separate_device = compute.device != nullptr;
  if (compute.device) request.weights = request.optimizer = TierChoice::kHost;
  request.activations = shape.inputs;
  request.has_storage = shape.inputs == TierChoice::kNvme;
  for (size_t u = 0; u < shape.units.size(); ++u) {
    request.activation_bytes.push_back(InputBytes(u));
  }
  auto plan = PlanSwaps(request);
  if (!plan.ok()) return plan.status();
  MemoryBudget budget("host", uint64_t{4} << 30);
  const auto create = [&](uint64_t bytes) {
    return compute.device ? Arena::CreateOn(compute.device, bytes, &budget)
                          : Arena::Create(bytes, &budget);
  };
  std::optional<ScratchDirectory> directory;
  std::unique_ptr<SwapStore> store;
  if (request.has_storage) {
    directory.emplace();
    StoreOptions stored;
    stored.directories = {directory->path()};
    stored.spill = plan->spill_room;
    auto created = SwapStore::Create(layout, stored);
    if (!created.ok()) return created.status();
    store = *std::move(created);
  }
  auto host = Arena::Create(plan->host_arena_bytes, &budget, compute.device);
  auto page = Arena::Create(ExchangeStream::kPageBytes, &budget, compute.device);
  auto device = create(plan->device_arena_bytes);
  auto whole = create(ShardedStep::MemoryBytes(options));
  // Rings of several ranks in one process come and go at the same addresses, which
  // ThreadSanitizer takes for races.
  SwapManagerOptions manager_options;
  manager_options.io.kind = IoEngineOptions::Kind::kThreads;
  manager_options.device = compute.device;
  manager_options.ops_stream = StreamId::kExchange;
  auto manager = SwapManager::Create(*std::move(plan), store.get(), host->get(), device->get(),
                                     &tiles, manager_options);
  if (!manager.ok()) return manager.status();
  absl::Status status = (*manager)->Initialize([&](const TileView& tile) {
    const uint64_t begin = grid.ShardBegin(shape.units[tile.unit]) + tile.first_parameter;
    auto* weights = reinterpret_cast<float*>(tile.planes[0]);
    for (uint64_t i = 0; i < tile.parameters && begin + i < shape.units[tile.unit]; ++i) {
      weights[i] = Initial(tile.unit, begin + i);
    }
    return absl::OkStatus();
  });
  if (!status.ok()) return status;

  ExchangeStream stream;
  if (compute.device) stream = ExchangeStream(compute.device, (*page)->data());
  ShardedStep step_memory(options, manager->get(), conversations.Of(grid), &tiles, stream,
                          (*whole)->data());
  const std::vector<StepOp>& ops = step_memory.schedule().ops;
  const auto run_ops = [&](int count, int step) -> absl::Status {
    const bool training = count == static_cast<int>(ops.size());
    for (int op = 0; op < count; ++op) {
      auto buffers = step_memory.BeginOp();
      if (!buffers.ok()) return buffers.status();
      const auto add = [&, op, step, training, buffers = *buffers] {
        if (compute.takes.count() > 0) std::this_thread::sleep_for(compute.takes);
        if (training) PutOrCheckInputs(shape, step, buffers);
        for (size_t g = 0; g < buffers.gradients.size(); ++g) {
          const int u = ops[op].gradients[g];
          const auto* weights = reinterpret_cast<const float*>(buffers.weights[g]);
          for (uint64_t i = 0; i < unit_parameters[u]; ++i) {
            float& sum = reinterpret_cast<float*>(buffers.gradients[g])[i];
            // As compute does: padding up to a block, and nothing behind it.
            if (buffers.fresh[g]) sum = i < shape.units[u] + 100 ? 0 : 1e3f;
            if (i < shape.units[u]) sum += Contribution(grid.rank, step, op, i, weights[i]);
          }
        }
      };
      if (compute.device == nullptr) {
        add();
      } else {
        compute.device->Launch(StreamId::kCompute, [add](void*) {
          add();
          return absl::OkStatus();
        });
      }
      step_memory.EndOp();
    }
    return absl::OkStatus();
  };
  int evaluate_ops = 0;
  while (ops[evaluate_ops++].kind != OpKind::kLoss) {
  }
  for (int step = 1; step <= shape.steps; ++step) {
    step_memory.Enqueue(Program::kTrain);
    if (shape.update == UpdateMode::kImmediate) step_memory.AnnounceUpdate(ScalarsOf(step, 0));
    if (absl::Status s = run_ops(static_cast<int>(ops.size()), step); !s.ok()) return s;
    if (shape.update == UpdateMode::kDeferred) {
      auto total = step_memory.AwaitGradients();
      if (!total.ok()) return total.status();
      if (grid.rank == 0) outcome.squares.push_back(total->sum_of_squares);
      step_memory.AnnounceUpdate(ScalarsOf(step, total->sum_of_squares));
    }
    if (step % 2 == 0) {
      step_memory.Enqueue(Program::kEvaluate);
      if (absl::Status s = run_ops(evaluate_ops, step); !s.ok()) return s;
    }
  }
  const RankGroups groups = conversations.Of(grid);
  uint64_t sent = 0;
  if (groups.group) sent += groups.group->sent_bytes();
  if (groups.replicas) sent += groups.replicas->sent_bytes();
  outcome.sent_bytes[grid.rank] = sent;
  if (absl::Status s = step_memory.Flush(); !s.ok()) return s;
  if (grid.replica() != grid.replicas() - 1) return absl::OkStatus();
  return (*manager)->ReadState(0, 1, [&](const TileView& tile) {
    const uint64_t begin = grid.ShardBegin(shape.units[tile.unit]) + tile.first_parameter;
    const auto* weights = reinterpret_cast<const float*>(tile.planes[0]);
    for (uint64_t i = 0; i < tile.parameters && begin + i < shape.units[tile.unit]; ++i) {
      outcome.weights[tile.unit][begin + i] = weights[i];
    }
    return absl::OkStatus();
  });
}

// `device_seed`: each rank has a test device, whose streams dawdle by it.
inline Outcome RunAll(const Shape& shape, int size, int group, GatheredWeights gathered,
                      std::optional<uint64_t> device_seed = std::nullopt) {
  Conversations conversations(size, group);
  Outcome outcome;
  outcome.sent_bytes.resize(size);
  for (uint64_t parameters : shape.units) outcome.weights.emplace_back(parameters);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      std::optional<TestDevice> device;
      if (device_seed) {
        device.emplace(TestDeviceOptions{.seed = *device_seed + rank, .ops_are_launched = true});
      }
      EXPECT_EQ(RunRank(shape, {size, group, rank}, gathered, conversations, outcome,
                        {.device = device ? &*device : nullptr}),
                absl::OkStatus());
    });
  }
  for (std::thread& thread : threads) thread.join();
  return outcome;
}

inline Shape RandomShapeOf(uint32_t seed) {
  std::mt19937 random(seed);
  Shape shape;
  const int units = 1 + random() % 6;
  for (int u = 0; u < units; ++u) {
    shape.units.push_back(1 + random() % 20000);
    std::vector<int> borrows;
    if (u > 0 && random() % 4 == 0) borrows.push_back(random() % u);
    shape.borrows.push_back(borrows);
  }
  shape.update = random() % 2 == 0 ? UpdateMode::kDeferred : UpdateMode::kImmediate;
  shape.bucket = kExchangeBlock * (1 + random() % 20);
  shape.format = static_cast<ExchangeFormat>(random() % 3);
  constexpr TierChoice kInputs[] = {TierChoice::kNvme, TierChoice::kHost, TierChoice::kDevice};
  shape.inputs = kInputs[seed % 3];
  return shape;
}

}  // namespace spillway
