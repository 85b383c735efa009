// A plan's request for a model like GPT-2, for tests: like layers between an embedding and a
// head that borrows it, in bf16 with AdamW, on a machine with memory for everything.
#pragma once

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "swap/forecast/step_simulation.h"

namespace spillway {

inline PlanRequest GptLikeRequest(UpdateMode update, TierChoice tier, int layers,
                                  uint64_t layer_parameters, bool storage = true,
                                  uint64_t embedding_parameters = 1 << 20) {
  PlanRequest request;
  std::vector<UnitLayout> units = {{"embedding", embedding_parameters}};
  ScheduleModel model{{{}}};
  for (int i = 0; i < layers; ++i) {
    units.push_back({absl::StrCat("h.", i), layer_parameters});
    model.borrows.push_back({});
  }
  units.push_back({"head", 2048});
  model.borrows.push_back({0});
  request.layout = StateLayout(
      std::move(units),
      {{Plane::kWeight, 2}, {Plane::kResidual, 2}, {Plane::kExpAvg, 4}, {Plane::kExpAvgSq, 4}}, 2,
      65536);
  request.schedule = BuildTrainSchedule(model, update);
  request.weights = request.optimizer = tier;
  request.has_storage = storage;
  request.host_bytes = request.device_bytes = uint64_t{1} << 40;
  return request;
}

inline SwapPlan PlanOf(const PlanRequest& request) {
  auto plan = PlanByClock(request);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return *std::move(plan);
}

inline double Sum(const std::vector<double>& values) {
  double sum = 0;
  for (double value : values) sum += value;
  return sum;
}

inline constexpr uint64_t kInputBytes = 350 * 2048;

// Inputs of every layer, a quarter as large as its weights; 0 of the first and last unit.
inline void AddInputs(PlanRequest& request, TierChoice choice) {
  request.activation_bytes.assign(request.layout.num_units(), kInputBytes);
  request.activation_bytes.front() = request.activation_bytes.back() = 0;
  request.input_in_flight_bytes = kInputBytes;
  request.activations = choice;
}

}  // namespace spillway
