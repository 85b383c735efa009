#include "tests/sim/sim_model.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "absl/strings/str_cat.h"

namespace spillway {
namespace {

uint16_t FirstWeight(int unit, uint64_t i) {
  return static_cast<uint16_t>(unit * 7919 + i * 31 + 1);
}

// Small, so that the sums of all ops stay exact in fp32 and fit into 16 bits.
uint16_t GradientOf(int op, uint16_t weight, uint64_t i) {
  return static_cast<uint16_t>((weight + op * 37 + i) & 0x3ff);
}

void UpdateOne(uint16_t& weight, uint16_t& moment, uint16_t gradient, int64_t step) {
  moment = static_cast<uint16_t>(moment * 3 + gradient);
  weight = static_cast<uint16_t>(weight * 5 + gradient + moment + step);
}

void UpdateResiduals(const uint16_t* weights, uint64_t parameters, uint16_t* residuals) {
  for (uint64_t i = 0; i < parameters; ++i) {
    residuals[i] = static_cast<uint16_t>(residuals[i] * 7 + weights[i] + 1);
  }
}

}  // namespace

StateLayout SimShape::Layout() const {
  std::vector<UnitLayout> layouts;
  for (size_t i = 0; i < units.size(); ++i) {
    layouts.push_back({absl::StrCat("u", i), units[i], frozen[i]});
  }
  std::vector<PlaneSpec> planes = {{Plane::kWeight, 2}, {Plane::kMomentum, 2}};
  if (residual) planes.insert(planes.begin() + 1, {Plane::kResidual, 2});
  return StateLayout(layouts, planes, 2, tile_parameters);
}

StepSchedule SimShape::Schedule(UpdateMode update, MeasurePasses measures) const {
  ScheduleModel model{borrows, frozen};
  model.trains.flip();
  return BuildTrainSchedule(model, update, measures);
}

SimOracle::SimOracle(const SimShape& shape) : frozen(shape.frozen) {
  for (size_t u = 0; u < shape.units.size(); ++u) {
    weights.emplace_back(shape.units[u]);
    moments.emplace_back(shape.units[u], 0);
    if (shape.residual) residuals.emplace_back(shape.units[u], 0);
    for (uint64_t i = 0; i < shape.units[u]; ++i) {
      weights[u][i] = FirstWeight(static_cast<int>(u), i);
    }
  }
}

double SimOracle::Step(const StepSchedule& schedule, int64_t step, bool skip, uint64_t salt) {
  std::vector<std::vector<uint16_t>> sums;
  for (const auto& w : weights) sums.emplace_back(w.size(), 0);
  for (size_t op = 0; op < schedule.ops.size(); ++op) {
    for (int unit : schedule.ops[op].gradients) {
      uint16_t* const out = sums[unit].data();
      const uint16_t* const in = weights[unit].data();
      for (size_t i = 0; i < sums[unit].size(); ++i) {
        out[i] += GradientOf(static_cast<int>(op), in[i], i + salt);
      }
    }
  }
  uint64_t squares = 0;
  for (size_t u = 0; u < weights.size(); ++u) {
    uint16_t* const weight = weights[u].data();
    uint16_t* const moment = moments[u].data();
    const uint16_t* const sum = sums[u].data();
    for (size_t i = 0; i < weights[u].size(); ++i) squares += uint64_t{sum[i]} * sum[i];
    if (skip || frozen[u]) continue;
    for (size_t i = 0; i < weights[u].size(); ++i) UpdateOne(weight[i], moment[i], sum[i], step);
    if (!residuals.empty()) UpdateResiduals(weight, weights[u].size(), residuals[u].data());
  }
  return static_cast<double>(squares);
}

absl::Status SimFill(const TileView& tile) {
  auto* const weight = reinterpret_cast<uint16_t*>(tile.planes[0]);
  for (uint64_t i = 0; i < tile.parameters; ++i) {
    weight[i] = FirstWeight(tile.unit, tile.first_parameter + i);
  }
  return absl::OkStatus();
}

void SimAddGradient(int op, const uint16_t* weights, uint64_t parameters, bool fresh, bool rounded,
                    char* sums, uint64_t first) {
  const auto add = [&](auto* to) {
    using Number = std::remove_pointer_t<decltype(to)>;
    if (fresh) std::fill_n(to, parameters, Number{0});  // nothing at a null pointer is fine
    for (uint64_t i = 0; i < parameters; ++i) {
      to[i] += static_cast<Number>(GradientOf(op, weights[i], first + i));
    }
  };
  if (rounded) return add(reinterpret_cast<uint16_t*>(sums));
  add(reinterpret_cast<float*>(sums));
}

GradientPartial SimCompute::Round(int, int, uint64_t parameters, const float* sums,
                                  void* gradient) {
  auto* const out = static_cast<char*>(gradient);
  uint64_t squares = 0;
  // In pieces: `gradient` may be `sums` itself, and the compiler cannot know how far behind.
  constexpr uint64_t kPiece = 256;
  uint16_t piece[kPiece];
  for (uint64_t begin = 0; begin < parameters; begin += kPiece) {
    for (uint64_t i = 0; i < kPiece; ++i) {
      // Of a process that has died it may be anything.
      const float sum = sums[begin + i];
      piece[i] = static_cast<uint16_t>(sum >= 0 && sum < 1e9f ? static_cast<int>(sum) : 0);
      squares += uint64_t{piece[i]} * piece[i];
    }
    std::memcpy(out + begin * 2, piece, sizeof(piece));
  }
  GradientPartial partial;
  partial.sum_of_squares = static_cast<double>(squares);
  return partial;
}

GradientPartial SimCompute::Learn(int, int, uint64_t parameters, const void* gradient) {
  const auto* const values = static_cast<const uint16_t*>(gradient);
  uint64_t squares = 0;
  for (uint64_t i = 0; i < parameters; ++i) squares += uint64_t{values[i]} * values[i];
  GradientPartial partial;
  partial.sum_of_squares = static_cast<double>(squares);
  return partial;
}

absl::Status SimCompute::Update(const TileView& tile, const UpdateScalars& scalars) {
  auto* const weight = reinterpret_cast<uint16_t*>(tile.planes[0]);
  auto* const moment = reinterpret_cast<uint16_t*>(tile.planes[residual_ ? 2 : 1]);
  const auto* const gradient = static_cast<const uint16_t*>(tile.gradient);
  const auto measured = gradients_.find({tile.unit, tile.first_parameter});
  if (measured != gradients_.end()) {
    if (!std::equal(measured->second.begin(), measured->second.end(), gradient)) {
      return absl::InternalError("another gradient was measured than the update has");
    }
    gradients_.erase(measured);
  }
  for (uint64_t i = 0; i < tile.parameters; ++i) {
    UpdateOne(weight[i], moment[i], gradient[i], scalars.step);
  }
  if (residual_) {
    UpdateResiduals(weight, tile.parameters, reinterpret_cast<uint16_t*>(tile.planes[1]));
  }
  return absl::OkStatus();
}

void SimCompute::Measure(const TileView& tile, const UpdateScalars& scalars, int measure) {
  const auto* const gradient = static_cast<const uint16_t*>(tile.gradient);
  Measured measured{tile.unit, tile.first_parameter, {gradient, gradient + tile.parameters}, {}};
  if (measure >= measures_.gradients) {
    const auto* const weight = reinterpret_cast<const uint16_t*>(tile.planes[0]);
    const auto* const moment = reinterpret_cast<const uint16_t*>(tile.planes[residual_ ? 2 : 1]);
    measured.weights.assign(weight, weight + tile.parameters);
    for (uint64_t i = 0; i < tile.parameters; ++i) {
      uint16_t own_moment = moment[i];
      UpdateOne(measured.weights[i], own_moment, gradient[i], scalars.step);
    }
  }
  gradients_[{tile.unit, tile.first_parameter}] = measured.gradient;
  measured_.push_back(std::move(measured));
}

bool SimMeasuredAll(const std::vector<SimCompute::Measured>& measured, int times,
                    const StateLayout& layout, const SimOracle& after) {
  int tiles = 0;
  for (int unit = 0; unit < layout.num_units(); ++unit) {
    if (!layout.frozen(unit)) tiles += layout.NumTiles(unit);
  }
  std::map<std::pair<int, uint64_t>, int> seen;
  for (const SimCompute::Measured& tile : measured) {
    const std::vector<uint16_t>& expected = after.weights[tile.unit];
    const uint64_t count =
        std::min<uint64_t>(tile.weights.size(), expected.size() - tile.first_parameter);
    if (!std::equal(tile.weights.begin(), tile.weights.begin() + static_cast<ptrdiff_t>(count),
                    expected.begin() + static_cast<ptrdiff_t>(tile.first_parameter))) {
      return false;
    }
    if (++seen[{tile.unit, tile.first_parameter}] > times) return false;
  }
  return static_cast<int>(seen.size()) == tiles &&
         static_cast<int>(measured.size()) == times * tiles;
}

bool SimSameTile(const TileView& tile, const SimOracle& oracle) {
  const auto same = [&](const char* plane, const std::vector<uint16_t>& expected) {
    if (plane == nullptr || tile.first_parameter >= expected.size()) return true;
    const uint64_t parameters =
        std::min<uint64_t>(tile.parameters, expected.size() - tile.first_parameter);
    return std::memcmp(plane, expected.data() + tile.first_parameter, parameters * 2) == 0;
  };
  if (!same(tile.planes[0], oracle.weights[tile.unit])) return false;
  if (oracle.frozen[tile.unit]) return tile.planes[1] == nullptr;
  if (oracle.residuals.empty()) return same(tile.planes[1], oracle.moments[tile.unit]);
  return same(tile.planes[1], oracle.residuals[tile.unit]) &&
         same(tile.planes[2], oracle.moments[tile.unit]);
}

}  // namespace spillway
