// Updates streamed through a device with memory of its own give the bits of those done in the
// host's memory: every dtype's planes, every optimizer, immediate and deferred, over commits and
// what resumes from them. The GPU's kernels (emulated) update there.
#include <atomic>
#include <cstring>
#include <filesystem>
#include <memory>
#include <random>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/cuda/cuda_optimizer_tiles.h"
#include "engine/numeric/optimizer_state.h"
#include "engine/weights/master_weights.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "io/base/status.h"
#include "swap/mover/swap_manager.h"
#include "swap/plan/planner.h"
#include "tests/device/slow_link_device.h"
#include "tests/device/test_device.h"
#include "tests/engine/cuda/emulated_kernels.h"

namespace spillway {
namespace {

// On the test device, which calls kernels when their stream has come to them, the emulated GPU's.
class DeviceTiles final : public CudaOptimizerTiles {
 public:
  using CudaOptimizerTiles::CudaOptimizerTiles;
  absl::Status UpdateOnDevice(void*, const TileView& tile, const UpdateScalars& scalars,
                              uint32_t* largest_magnitude) override {
    ++updates;
    if (device_tiles != nullptr) ++*device_tiles;
    return CudaOptimizerTiles::UpdateOnDevice(EmulatedStream(), tile, scalars, largest_magnitude);
  }
  absl::Status Update(const TileView& tile, const UpdateScalars& scalars) override {
    if (device_tiles != nullptr) device_tiles_at_last_update = device_tiles->load();
    return CudaOptimizerTiles::Update(tile, scalars);
  }
  std::atomic<int> updates = 0;
  std::atomic<int>* device_tiles = nullptr;  // counted where it is not null
  std::atomic<int> device_tiles_at_last_update = 0;
};

struct Model {
  DType dtype = DType::kBFloat16;
  OptimizerSpec spec;
  StateLayout layout;
  std::vector<std::vector<int>> borrows;
  UpdateMode update = UpdateMode::kImmediate;
  int64_t steps = 6;
  double rate = 0.01;

  explicit Model(std::mt19937& random) {
    constexpr DType kDTypes[] = {DType::kBFloat16, DType::kFloat16, DType::kFloat32};
    dtype = kDTypes[random() % 3];
    if (random() % 3 == 0) spec.kind = OptimizerSpec::Kind::kSgd;
    if (random() % 2) spec.momentum = 0.9;
    spec.weight_decay = 0.1;
    update = random() % 2 ? UpdateMode::kImmediate : UpdateMode::kDeferred;
    std::vector<UnitLayout> units;
    const int count = 2 + random() % 4;
    for (int unit = 0; unit < count; ++unit) {
      units.push_back({absl::StrCat("u", unit), random() % 6 ? 1 + random() % 9000 : 0});
      borrows.emplace_back();
      if (unit > 0 && random() % 4 == 0) borrows[unit].push_back(random() % unit);
    }
    layout =
        StateLayout(units, StatePlanes(spec, dtype), DTypeBytes(dtype), 2048 * (1 + random() % 2));
  }

  std::vector<std::vector<ParameterRange>> Decayed() const {
    std::vector<std::vector<ParameterRange>> ranges;
    for (const UnitLayout& unit : layout.units()) ranges.push_back({{0, unit.parameters * 2 / 3}});
    return ranges;
  }
  float Weight(const char* weights, uint64_t i) const {
    const auto* halves = reinterpret_cast<const uint16_t*>(weights);
    if (dtype == DType::kBFloat16) return FloatFromBFloat16(halves[i]);
    if (dtype == DType::kFloat16) return FloatFromFloat16(halves[i]);
    return reinterpret_cast<const float*>(weights)[i];
  }
};

// The bytes of every plane of every tile.
using State = std::vector<std::vector<char>>;

// One process of a run: it begins with the first state, or resumes from the commit in `folder`.
class Process {
 public:
  Process(const Model& model, const std::string& folder)
      : model_(model),
        folder_(folder),
        tiles_(model.spec, model.dtype, model.layout, model.Decayed()) {}

  absl::Status Open(PlanRequest request, Device* device, bool resume) {
    device_ = device;
    request.layout = model_.layout;
    request.schedule = BuildTrainSchedule({model_.borrows}, model_.update);
    request.has_storage = true;
    ASSIGN_OR_RETURN(SwapPlan plan, PlanSwaps(request));
    std::filesystem::create_directories(folder_);
    CommitRecord record;
    if (resume) {
      ASSIGN_OR_RETURN(store_, SwapStore::Open(manifest(), false, plan.spill_room, &record));
    } else {
      StoreOptions options;
      options.directories = {folder_};
      options.spill = plan.spill_room;
      ASSIGN_OR_RETURN(store_, SwapStore::Create(model_.layout, options));
    }
    ASSIGN_OR_RETURN(host_, Arena::Create(plan.host_arena_bytes, &budget_, device));
    ASSIGN_OR_RETURN(arena_, device ? Arena::CreateOn(device, plan.device_arena_bytes, &budget_)
                                    : Arena::Create(plan.device_arena_bytes, &budget_));
    SwapManagerOptions options;
    options.device = device;
    ASSIGN_OR_RETURN(manager_, SwapManager::Create(std::move(plan), store_.get(), host_.get(),
                                                   arena_.get(), &tiles_, options));
    step_ = static_cast<int64_t>(record.step);
    if (resume) return manager_->LoadResident();
    return manager_->Initialize([this](const TileView& tile) {
      const uint64_t parameters = model_.layout.units()[tile.unit].parameters;
      if (tile.first_parameter >= parameters) return absl::OkStatus();
      std::vector<float> values(std::min(tile.parameters, parameters - tile.first_parameter));
      for (size_t i = 0; i < values.size(); ++i) {
        values[i] = static_cast<float>((tile.first_parameter + i) % 89) * 0.03f - 1.3f;
      }
      StoreMaster(MasterFormat(model_.layout, model_.dtype), values.data(), 0, values.size(),
                  tile.planes);
      return absl::OkStatus();
    });
  }

  // Up to the end of step `last`; commits after step `commit`.
  absl::Status Train(int64_t last, int64_t commit) {
    while (step_ < last) {
      ++step_;
      manager_->Enqueue(Program::kTrain);
      UpdateScalars scalars;
      scalars.step = step_;
      scalars.learning_rate = model_.rate * static_cast<double>(step_);
      if (model_.update == UpdateMode::kImmediate) manager_->AnnounceUpdate(scalars);
      RETURN_IF_ERROR(RunOps());
      if (model_.update == UpdateMode::kDeferred) {
        ASSIGN_OR_RETURN(const GradientTotal total, manager_->AwaitGradients());
        scalars.gradient_scale = 1 / (1 + std::sqrt(total.sum_of_squares));
        manager_->AnnounceUpdate(scalars);
      }
      if (step_ == commit) {
        RETURN_IF_ERROR(manager_->StartCommit(manifest(), {static_cast<uint64_t>(step_), "{}"}));
      }
    }
    RETURN_IF_ERROR(manager_->Flush());
    return manager_->AwaitCommit();
  }

  absl::StatusOr<State> Read() {
    State state;
    RETURN_IF_ERROR(manager_->ReadState(0, model_.layout.num_planes(), [&](const TileView& tile) {
      for (int plane = 0; plane < model_.layout.num_planes(); ++plane) {
        const uint64_t bytes = model_.layout.PlaneBytes(tile.unit, tile.tile, plane);
        state.emplace_back(tile.planes[plane], tile.planes[plane] + bytes);
      }
      return absl::OkStatus();
    }));
    return state;
  }

  const SwapPlan& plan() const { return manager_->plan(); }
  int device_updates() const { return tiles_.updates; }
  DeviceTiles& tiles() { return tiles_; }

 private:
  std::string manifest() const { return folder_ + "/manifest"; }

  absl::Status RunOps() {
    for (size_t op = 0; op < plan().schedule.ops.size(); ++op) {
      ASSIGN_OR_RETURN(const OpBuffers buffers, manager_->BeginOp());
      for (size_t i = 0; i < buffers.gradients.size(); ++i) {
        const int unit = buffers.op->gradients[i];
        const uint64_t parameters = model_.layout.units()[unit].parameters;
        const uint64_t padded = model_.layout.PaddedParameters(unit);
        auto* const sums = reinterpret_cast<float*>(buffers.gradients[i]);
        if (buffers.fresh[i]) std::fill(sums, sums + padded, 0.0f);
        for (uint64_t j = 0; j < parameters; ++j) {
          const float target = static_cast<float>((op * 5 + j) % 13) * 0.1f;
          sums[j] += model_.Weight(buffers.weights[i], j) - target;
        }
      }
      manager_->EndOp();
    }
    return absl::OkStatus();
  }

  const Model& model_;
  const std::string folder_;
  DeviceTiles tiles_;
  Device* device_ = nullptr;
  MemoryBudget budget_{"test", uint64_t{1} << 32};
  std::unique_ptr<SwapStore> store_;
  std::unique_ptr<Arena> host_, arena_;
  std::unique_ptr<SwapManager> manager_;
  int64_t step_ = 0;
};

class StreamedUpdate : public testing::Test {
 protected:
  void SetUp() override { TearDown(); }
  void TearDown() override { std::filesystem::remove_all(folder()); }
  std::string folder() const { return testing::TempDir() + "/streamed_update"; }
};

PlanRequest Plenty() {
  PlanRequest request;
  request.host_bytes = request.device_bytes = uint64_t{1} << 30;
  return request;
}

TEST_F(StreamedUpdate, GivesTheBitsOfUpdatesInTheHostsMemory) {
  int streamed = 0;
  for (uint32_t seed = 1; seed <= 60; ++seed) {
    std::mt19937 random(seed);
    const Model model(random);
    SCOPED_TRACE(testing::Message() << "seed " << seed << " " << int(model.dtype));
    const int64_t commit = 1 + random() % (model.steps - 1);
    State expected;
    {
      PlanRequest request = Plenty();
      request.weights = request.optimizer = TierChoice::kHost;
      Process process(model, folder() + "/host");
      ASSERT_EQ(process.Open(request, nullptr, false), absl::OkStatus());
      ASSERT_EQ(process.Train(model.steps, 0), absl::OkStatus());
      auto state = process.Read();
      ASSERT_TRUE(state.ok()) << state.status();
      expected = *std::move(state);
      EXPECT_EQ(process.device_updates(), 0);
    }
    // Its steps after the commit are taken again by another, with another plan.
    for (const bool resume : {false, true}) {
      TestDeviceOptions device_options;
      device_options.seed = seed;
      TestDevice device(device_options);
      constexpr TierChoice kTiers[] = {TierChoice::kHost, TierChoice::kNvme, TierChoice::kAuto};
      PlanRequest request;
      request.separate_device = true;
      request.weights = random() % 4 ? kTiers[random() % 3] : TierChoice::kDevice;
      request.optimizer = kTiers[random() % 2];
      request.deferred_share = (random() % 3) / 2.0;
      request.device_update_share = random() % 3 ? 1 : 0.5;
      request.layout = model.layout;
      request.schedule = BuildTrainSchedule({model.borrows}, model.update);
      request.has_storage = true;
      const BudgetPair smallest = SmallestBudgets(request)->front();
      request.host_bytes = smallest.host_bytes + random() % 100000;
      request.device_bytes = smallest.device_bytes + 150000 + random() % 200000;
      Process process(model, folder() + "/device");
      ASSERT_EQ(process.Open(request, &device, resume), absl::OkStatus());
      ASSERT_EQ(process.Train(resume ? model.steps : commit + 1, resume ? 0 : commit),
                absl::OkStatus());
      streamed += process.device_updates();
      if (!resume) continue;
      const auto state = process.Read();
      ASSERT_TRUE(state.ok()) << state.status();
      ASSERT_TRUE(*state == expected);
    }
    std::filesystem::remove_all(folder());
  }
  EXPECT_GT(streamed, 1000);
}

// Those that wait for the link keep no worker waiting: half of the units are streamed, all have
// more tiles than are ever under way, and the workers are done long before the link is.
TEST_F(StreamedUpdate, GoesBesideWhatTheWorkersUpdate) {
  std::mt19937 random(1);
  Model model(random);
  model.dtype = DType::kBFloat16;
  model.spec = {};
  model.update = UpdateMode::kDeferred;
  model.layout = StateLayout({{"u0", 80 * 2048}, {"u1", 80 * 2048}},
                             StatePlanes(model.spec, model.dtype), 2, 2048);
  model.borrows = {{}, {}};
  TestDevice below({.most_dawdling_us = 0});
  SlowLinkDevice device(&below, {4e6, 0});  // 7 ms a tile
  PlanRequest request = Plenty();
  request.separate_device = true;
  request.weights = request.optimizer = TierChoice::kHost;
  request.device_update_share = 0.5;
  Process process(model, folder());
  ASSERT_EQ(process.Open(request, &device, false), absl::OkStatus());
  ASSERT_EQ(process.plan().streams_update, (std::vector<bool>{true, false}));
  std::atomic<int> streamed = 0;
  process.tiles().device_tiles = &streamed;
  ASSERT_EQ(process.Train(1, 0), absl::OkStatus());
  EXPECT_EQ(streamed, 80);
  EXPECT_LT(process.tiles().device_tiles_at_last_update, 40);
}

// A master that may not stand is found there, too.
TEST_F(StreamedUpdate, AMasterThatMayNotStandEndsTheRunAsOnTheHost) {
  for (const TierChoice tier : {TierChoice::kHost, TierChoice::kNvme}) {
    for (const bool weights_there : {false, true}) {
      for (const bool on_device : {false, true}) {
        std::mt19937 random(3);
        Model model(random);
        model.dtype = DType::kBFloat16;
        model.spec = {.kind = OptimizerSpec::Kind::kSgd};
        model.layout = StateLayout({{"u0", 5000}, {"u1", 3000}},
                                   StatePlanes(model.spec, model.dtype), 2, 2048);
        model.borrows = {{}, {}};
        TestDevice device({});
        PlanRequest request = Plenty();
        request.separate_device = true;
        request.weights = weights_there ? TierChoice::kDevice : tier;
        request.optimizer = tier;
        request.device_update_share = on_device ? 1 : 0;
        model.rate = 1e38;
        Process process(model, folder());
        ASSERT_EQ(process.Open(request, &device, false), absl::OkStatus());
        const absl::Status status = process.Train(model.steps, 0);
        EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange) << status;
        EXPECT_THAT(std::string(status.message()), testing::HasSubstr("which bf16 cannot hold"));
        EXPECT_EQ(process.device_updates() > 0, on_device);
        std::filesystem::remove_all(folder());
      }
    }
  }
}

}  // namespace
}  // namespace spillway
