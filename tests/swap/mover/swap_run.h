// A little training run on the swap manager whose arithmetic is integers in disguise,
// beside a plain in-memory oracle. Weights, sums and moments are small whole numbers in
// fp32, so every order of additions gives the same bits and any stale, torn or missing
// byte shows.
#pragma once

#include <atomic>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "swap/mover/swap_manager.h"
#include "swap/plan/planner.h"
#include "tests/swap/store/model_files.h"

namespace spillway {

// weight = (weight * 3 + gradient + moment + step) mod 1021; moment likewise.
class StubTiles : public TileCompute {
 public:
  GradientPartial Round(int, int, uint64_t parameters, const float* sums, void* gradient) override {
    GradientPartial partial;
    auto* out = static_cast<float*>(gradient);
    for (uint64_t i = 0; i < parameters; ++i) {
      partial.sum_of_squares += double{sums[i]} * sums[i];
      out[i] = sums[i];
    }
    return partial;
  }

  GradientPartial Learn(int, int, uint64_t parameters, const void* gradient) override {
    std::vector<float> rounded(parameters);
    return Round(0, 0, parameters, static_cast<const float*>(gradient), rounded.data());
  }

  static void UpdateOne(float& weight, float& moment, float gradient, int64_t step) {
    moment = std::fmod(moment + gradient, 1021.0f);
    weight = std::fmod(weight * 3 + gradient + moment + static_cast<float>(step % 1021), 1021.0f);
  }

  absl::Status Update(const TileView& tile, const UpdateScalars& scalars) override {
    if (scalars.step == fail_at_step) return absl::OutOfRangeError("told to fail");
    auto* weight = reinterpret_cast<float*>(tile.planes[0]);
    auto* moment = reinterpret_cast<float*>(tile.planes[1]);
    const auto* gradient = static_cast<const float*>(tile.gradient);
    for (uint64_t i = 0; i < tile.parameters; ++i) {
      UpdateOne(weight[i], moment[i], gradient[i], scalars.step);
    }
    return absl::OkStatus();
  }

  // tests/sim looks at what it is given.
  void Measure(const TileView&, const UpdateScalars&, int) override { ++tiles_measured; }

  int64_t fail_at_step = -1;
  std::atomic<int64_t> tiles_measured = 0;
};

// With zeros here and there, and a tile of nothing else, which a model's file may leave out.
inline float InitialWeight(int unit, uint64_t i) {
  if (i / 2048 == 2 || i % 1024 / 100 == 3) return 0;
  return static_cast<float>((unit * 37 + i * 7) % 1021);
}

// What an op adds to the sums of a unit whose weights it reads.
inline float GradientOf(int op, float weight, uint64_t i) {
  return std::fmod(weight + static_cast<float>(op * 5 + i % 13), 511.0f);
}

struct RunShape {
  std::vector<uint64_t> units;            // parameters, multiples of 2048
  std::vector<std::vector<int>> borrows;  // [unit that computes]
  uint64_t tile_parameters = 2048;
  std::vector<bool> frozen = {};  // [unit]; empty: none
  bool in_place = false;          // what is frozen lies in a model's files
  MeasurePasses measures = {};    // where updates are deferred

  bool Frozen(size_t unit) const { return !frozen.empty() && frozen[unit]; }
};

inline StepSchedule ScheduleOf(const RunShape& shape, UpdateMode update) {
  ScheduleModel model{shape.borrows, shape.frozen};
  model.trains.flip();
  return BuildTrainSchedule(model, update,
                            update == UpdateMode::kDeferred ? shape.measures : MeasurePasses());
}

inline StateLayout LayoutOf(const RunShape& shape) {
  std::vector<UnitLayout> units;
  for (size_t i = 0; i < shape.units.size(); ++i) {
    units.push_back({absl::StrCat("u", i), shape.units[i], shape.Frozen(i)});
  }
  return StateLayout(units, {{Plane::kWeight, 4}, {Plane::kMomentum, 4}}, 4, shape.tile_parameters);
}

// The oracle: the same run on plain vectors.
struct Oracle {
  explicit Oracle(const RunShape& shape) : shape(shape) {
    for (size_t u = 0; u < shape.units.size(); ++u) {
      weights.emplace_back(shape.units[u]);
      moments.emplace_back(shape.units[u], 0.0f);
      for (uint64_t i = 0; i < shape.units[u]; ++i) weights[u][i] = InitialWeight(u, i);
    }
  }

  // Returns the sum of squares of the gradients.
  double Step(const StepSchedule& schedule, int64_t step, bool skip) {
    std::vector<std::vector<float>> sums;
    for (const auto& w : weights) sums.emplace_back(w.size(), 0.0f);
    for (size_t op = 0; op < schedule.ops.size(); ++op) {
      for (int unit : schedule.ops[op].gradients) {
        for (size_t i = 0; i < sums[unit].size(); ++i) {
          sums[unit][i] += GradientOf(op, weights[unit][i], i);
        }
      }
    }
    double squares = 0;
    for (size_t u = 0; u < weights.size(); ++u) {
      for (size_t i = 0; i < weights[u].size(); ++i) {
        squares += double{sums[u][i]} * sums[u][i];
        if (!skip && !shape.Frozen(u))
          StubTiles::UpdateOne(weights[u][i], moments[u][i], sums[u][i], step);
      }
    }
    return squares;
  }

  // Whether the tile is as it should be; a frozen unit's has no moments.
  bool Equals(const TileView& tile) const {
    const auto equal = [&](const char* plane, const std::vector<float>& expected) {
      return std::memcmp(plane, expected.data() + tile.first_parameter, tile.parameters * 4) == 0;
    };
    if (!equal(tile.planes[0], weights[tile.unit])) return false;
    return shape.Frozen(tile.unit) ? tile.planes[1] == nullptr
                                   : equal(tile.planes[1], moments[tile.unit]);
  }

  const RunShape shape;
  std::vector<std::vector<float>> weights, moments;
};

// The memory, store and manager of one run.
class SwapRun {
 public:
  static absl::StatusOr<std::unique_ptr<SwapRun>> Create(const RunShape& shape,
                                                         const PlanRequest& request,
                                                         const std::string& directory,
                                                         const SwapManagerOptions& options,
                                                         int paths = 1) {
    auto run = std::unique_ptr<SwapRun>(new SwapRun);
    run->shape_ = shape;
    auto plan = PlanSwaps(request);
    if (!plan.ok()) return plan.status();
    if (request.has_storage) {
      StoreOptions store;
      for (int i = 0; i < paths; ++i) {
        store.directories.push_back(absl::StrCat(directory, "/swap", i));
        std::filesystem::create_directories(store.directories.back());
        if (auto s = SwapStore::RemoveLeftovers(store.directories.back()); !s.ok()) return s;
      }
      store.spill = plan->spill_room;
      store.spill.gradients.assign(request.layout.num_units(), true);
      if (shape.in_place) store.in_place = WriteModel(shape, directory + "/model");
      auto created = SwapStore::Create(request.layout, store);
      if (!created.ok()) return created.status();
      run->store_ = *std::move(created);
    }
    Device* const device = options.device;
    run->host_ = *Arena::Create(plan->host_arena_bytes, &run->budget_, device);
    run->device_ = device ? *Arena::CreateOn(device, plan->device_arena_bytes, &run->budget_)
                          : *Arena::Create(plan->device_arena_bytes, &run->budget_);
    auto manager = SwapManager::Create(*std::move(plan), run->store_.get(), run->host_.get(),
                                       run->device_.get(), &run->tiles_, options);
    if (!manager.ok()) return manager.status();
    run->manager_ = *std::move(manager);
    run->manager_->RecordEvents();
    return run;
  }

  absl::Status Initialize() {
    return manager_->Initialize([](const TileView& tile) {
      auto* weight = reinterpret_cast<float*>(tile.planes[0]);
      for (uint64_t i = 0; i < tile.parameters; ++i) {
        weight[i] = InitialWeight(tile.unit, tile.first_parameter + i);
      }
      return absl::OkStatus();
    });
  }

  SwapManager& manager() { return *manager_; }
  SwapStore* store() { return store_.get(); }
  StubTiles& tiles() { return tiles_; }
  Arena& host() { return *host_; }

  // Runs the ops of one enqueued program; every weight is compared with the oracle's, and what
  // a forward puts in place of its inputs with what the backward finds.
  // Of `first_read` the first operation looks at nothing else.
  absl::Status RunOps(int count, bool train, const Oracle& oracle,
                      const FirstRead& first_read = {}) {
    for (int op = 0; op < count; ++op) {
      auto buffers = manager_->BeginOp();
      if (!buffers.ok()) return buffers.status();
      for (size_t i = 0; i < buffers->op->weights.size(); ++i) {
        const int unit = buffers->op->weights[i];
        const bool part = op == 0 && unit == first_read.unit;
        if (!AreTheOracles(oracle, unit, buffers->weights[i], part ? &first_read.tiles : nullptr)) {
          return absl::InternalError(absl::StrCat("op ", op, " saw wrong weights of unit ", unit));
        }
      }
      if (train && buffers->index == 0) ++steps_;
      if (absl::Status status = CheckInputs(*buffers, train); !status.ok()) return status;
      if (train) {
        for (size_t i = 0; i < buffers->op->gradients.size(); ++i) {
          const int unit = buffers->op->gradients[i];
          auto* sums = reinterpret_cast<float*>(buffers->gradients[i]);
          for (uint64_t j = 0; j < shape_.units[unit]; ++j) {
            const float g = GradientOf(op, oracle.weights[unit][j], j);
            sums[j] = buffers->fresh[i] ? g : sums[j] + g;
          }
        }
      }
      manager_->EndOp();
    }
    return absl::OkStatus();
  }

  // The state equals the oracle's, plane by plane.
  absl::Status Compare(const Oracle& oracle) {
    return manager_->ReadState(0, 2, [&](const TileView& tile) -> absl::Status {
      if (!oracle.Equals(tile)) {
        return absl::InternalError(
            absl::StrCat("unit ", tile.unit, " tile ", tile.tile, " differs from the oracle"));
      }
      return absl::OkStatus();
    });
  }

  static InPlaceUnits WriteModel(const RunShape& shape, const std::string& directory) {
    std::vector<std::string> weights(shape.units.size());
    for (size_t u = 0; u < shape.units.size(); ++u) {
      if (!shape.Frozen(u)) continue;
      for (uint64_t i = 0; i < shape.units[u]; ++i) {
        const float weight = InitialWeight(u, i);
        weights[u].append(reinterpret_cast<const char*>(&weight), sizeof(weight));
      }
    }
    return WriteModelFiles(directory, weights, shape.units[0]);
  }

 private:
  SwapRun() = default;

  // Whether these tiles of its weights are; null: all.
  bool AreTheOracles(const Oracle& oracle, int unit, const char* weights,
                     const std::vector<int>* tiles) const {
    const StateLayout& layout = manager_->plan().layout;
    const auto& expected = oracle.weights[unit];
    if (tiles == nullptr) return std::memcmp(weights, expected.data(), expected.size() * 4) == 0;
    return std::all_of(tiles->begin(), tiles->end(), [&](int tile) {
      const uint64_t begin = layout.TileBegin(tile);
      const uint64_t end = std::min<uint64_t>(begin + layout.tile_parameters(), expected.size());
      return std::memcmp(weights + begin * 4, expected.data() + begin, (end - begin) * 4) == 0;
    });
  }

  absl::Status CheckInputs(const OpBuffers& buffers, bool train) {
    const StepOp& op = *buffers.op;
    const SwapPlan& plan = manager_->plan();
    const bool moves =
        train && op.kind != OpKind::kLoss && plan.activations[op.unit] != Tier::kDevice;
    if ((buffers.inputs != nullptr) != moves) return absl::InternalError("inputs out of place");
    if (!moves) return absl::OkStatus();
    if (buffers.inputs_bytes != plan.activation_bytes[op.unit]) {
      return absl::InternalError("inputs of another size");
    }
    auto* words = reinterpret_cast<uint32_t*>(buffers.inputs);
    for (uint32_t i = 0; i < buffers.inputs_bytes / sizeof(uint32_t); ++i) {
      const uint32_t word = (steps_ << 24) ^ (static_cast<uint32_t>(op.unit) << 20) ^ i;
      if (op.kind == OpKind::kForward) {
        words[i] = word;
      } else if (words[i] != word) {
        return absl::InternalError(absl::StrCat("wrong inputs of unit ", op.unit));
      }
    }
    return absl::OkStatus();
  }

  RunShape shape_;
  MemoryBudget budget_{"test", uint64_t{1} << 32};
  std::unique_ptr<Arena> host_, device_;
  std::unique_ptr<SwapStore> store_;
  StubTiles tiles_;
  std::unique_ptr<SwapManager> manager_;
  uint32_t steps_ = 0;
};

}  // namespace spillway
