// The arithmetic of a simulated run, and the plain in-memory copy that it is held against.
//
// As tests/swap/mover/swap_run.h, but with whole numbers of 16 bits instead of fp32, which
// takes a hundredth of the time: a seed is a whole training run. Every order of additions
// gives the same bits, and any stale, torn or missing byte shows.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "swap/device/tile_compute.h"
#include "swap/plan/state_layout.h"
#include "swap/plan/step_schedule.h"

namespace spillway {

struct SimShape {
  std::vector<uint64_t> units;            // parameters, multiples of 2048
  std::vector<std::vector<int>> borrows;  // [unit that computes]
  std::vector<bool> frozen;               // [unit]
  uint64_t tile_parameters = 2048;
  bool residual = false;  // a plane between the weight and the moment

  int num_planes() const { return residual ? 3 : 2; }
  // Two bytes a parameter for each plane and the gradient.
  StateLayout Layout() const;
  StepSchedule Schedule(UpdateMode update, MeasurePasses measures = {}) const;
};

struct SimOracle {
  explicit SimOracle(const SimShape& shape);
  // One training step, whose gradients are as those of parameters `salt` further on. Returns the
  // sum of squares of the gradients.
  double Step(const StepSchedule& schedule, int64_t step, bool skip, uint64_t salt = 0);

  std::vector<std::vector<uint16_t>> weights, moments;  // [unit][parameter]
  std::vector<std::vector<uint16_t>> residuals;         // likewise; empty without that plane
  std::vector<bool> frozen;                             // [unit] these have weights alone
};

// The first state, as the oracle has it.
absl::Status SimFill(const TileView& tile);

// Adds what `op` adds to a unit's sums; `fresh`: sets them; `rounded`: they are as the gradient is.
// `first`: the number of the first parameter.
void SimAddGradient(int op, const uint16_t* weights, uint64_t parameters, bool fresh, bool rounded,
                    char* sums, uint64_t first = 0);

class SimCompute final : public TileCompute {
 public:
  explicit SimCompute(const SimShape& shape) : residual_(shape.residual) {}
  // Before the first step: how often the first Measures see gradients alone.
  void SetMeasures(MeasurePasses measures) { measures_ = measures; }
  GradientPartial Round(int unit, int tile, uint64_t parameters, const float* sums,
                        void* gradient) override;
  GradientPartial Learn(int unit, int tile, uint64_t parameters, const void* gradient) override;
  absl::Status Update(const TileView& tile, const UpdateScalars& scalars) override;
  void Measure(const TileView& tile, const UpdateScalars& scalars, int measure) override;

  // What each tile's gradient was, and its weights will be by its update (where gradients alone
  // were looked at: none), as it was measured; begins anew.
  struct Measured {
    int unit = 0;
    uint64_t first_parameter = 0;
    std::vector<uint16_t> gradient;
    std::vector<uint16_t> weights;
  };
  std::vector<Measured> TakeMeasured() { return std::exchange(measured_, {}); }

 private:
  const bool residual_;
  MeasurePasses measures_;
  std::vector<Measured> measured_;
  // Of tiles that are to be updated: what any pass has seen of their gradients.
  std::map<std::pair<int, uint64_t>, std::vector<uint16_t>> gradients_;
};
// Whether every tile of what is trained was measured so many times, and with the state that its
// update then had.
bool SimMeasuredAll(const std::vector<SimCompute::Measured>& measured, int times,
                    const StateLayout& layout, const SimOracle& after);

// Whether a tile's planes (null: not looked at) are the oracle's, as far as that has parameters.
bool SimSameTile(const TileView& tile, const SimOracle& oracle);

}  // namespace spillway
