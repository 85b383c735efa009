// Requests for plans, drawn from a seed: of every kind, small and of some size.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "swap/plan/planner.h"
#include "swap/plan/step_clock.h"

namespace spillway {

class RandomRequests {
 public:
  explicit RandomRequests(uint64_t seed) : random_(seed) {}

  // One whose budgets suffice, with a clock.
  PlanRequest Draw() {
    PlanRequest request;
    const int layers = OneIn(20) ? Between(10, 16) : Between(1, 6);
    const int units = layers + 2;
    const uint64_t layer = 2048ull * Between(1, 400);
    const bool alike = !OneIn(3);
    std::vector<UnitLayout> layout;
    for (int unit = 0; unit < units; ++unit) {
      uint64_t parameters = alike ? layer : 2048ull * Between(1, 400);
      if (unit == 0) parameters = layer * Between(1, 8) / 2 + 2048;
      if (unit == units - 1) parameters = OneIn(2) ? 2048 : layer;
      layout.push_back({std::to_string(unit), parameters});
    }
    std::vector<PlaneSpec> planes = {{Plane::kWeight, 2}, {Plane::kResidual, 2}};
    if (OneIn(4)) planes = {{Plane::kWeight, 4}};
    planes.push_back({Plane::kExpAvg, 4});
    planes.push_back({Plane::kExpAvgSq, 4});
    const uint32_t gradient = planes[0].bytes;
    request.layout = StateLayout(layout, planes, gradient, 2048ull * Between(4, 64));
    ScheduleModel model;
    model.borrows.resize(units);
    if (OneIn(2)) model.borrows.back() = {0};
    const bool deferred = OneIn(2);
    request.schedule =
        BuildTrainSchedule(model, deferred ? UpdateMode::kDeferred : UpdateMode::kImmediate);
    request.has_storage = !OneIn(12);
    request.separate_device = OneIn(3);
    const bool nvme = request.has_storage && OneIn(4);
    if (nvme) request.weights = request.optimizer = TierChoice::kNvme;
    if (!nvme && OneIn(6)) request.weights = TierChoice::kHost;
    if (!nvme && OneIn(6)) request.optimizer = TierChoice::kHost;
    if (OneIn(2)) {
      request.activation_bytes.assign(units, 4096ull * Between(1, 300));
      request.activation_bytes[0] = 0;
      request.input_in_flight_bytes = request.activation_bytes[1];
    }
    if (!request.separate_device && OneIn(3)) request.rounded_sums.assign(units, true);
    DrawClock(request);
    DrawBudgets(request);
    return request;
  }

 private:
  int Between(int low, int high) {
    return low + static_cast<int>(random_() % static_cast<uint64_t>(high - low + 1));
  }
  bool OneIn(int n) { return Between(1, n) == 1; }
  double Rate() { return 1e9 * Between(1, 60) / 10; }

  void DrawClock(PlanRequest& request) {
    StepClock clock;
    clock.disk = {Rate(), Rate(), Rate()};
    clock.link = {2 * Rate(), 2 * Rate()};
    clock.update_bytes_per_second = 4 * Rate();
    if (request.separate_device) clock.device_update_bytes_per_second = 40 * Rate();
    clock.shared_cores = Between(0, 4) / 4.0;
    clock.workers = Between(1, 4);
    const double per_parameter = 1e-9 * Between(1, 60) / 4;
    for (const StepOp& op : request.schedule.ops) {
      const double parameters = static_cast<double>(request.layout.PaddedParameters(op.unit));
      clock.op_seconds.push_back(parameters * per_parameter *
                                 (op.kind == OpKind::kForward ? 1 : 3));
    }
    request.clock = clock;
  }

  void DrawBudgets(PlanRequest& request) {
    const std::vector<BudgetPair> smallest = *SmallestBudgets(request);
    const BudgetPair& least = smallest[random_() % smallest.size()];
    const uint64_t all = request.layout.TotalPaddedParameters() * 20;
    request.host_bytes = least.host_bytes + all / 100 * Between(0, OneIn(3) ? 100 : 25);
    request.device_bytes = least.device_bytes + all / 100 * Between(0, OneIn(3) ? 100 : 15);
  }

  std::mt19937_64 random_;
};

}  // namespace spillway
