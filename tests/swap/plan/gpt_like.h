// A plan's request for a model like GPT-2, for tests: like layers between an embedding and a
// head that borrows it, in bf16 with AdamW, on a machine with memory for everything.
#pragma once

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "swap/plan/planner.h"

namespace spillway {

inline PlanRequest GptLikeRequest(UpdateMode update, TierChoice tier, int layers,
                                  uint64_t layer_parameters, bool storage = true) {
  PlanRequest request;
  std::vector<UnitLayout> units = {{"embedding", 1 << 20}};
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

}  // namespace spillway
