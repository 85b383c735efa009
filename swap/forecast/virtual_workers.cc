#include "swap/forecast/virtual_workers.h"

#include <utility>

#include "io/base/check.h"
#include "swap/plan/phase_traffic.h"

namespace spillway {

VirtualWorkers::VirtualWorkers(const SwapPlan& plan, const StepClock& clock,
                               VirtualMachine* machine)
    : plan_(plan), clock_(clock), machine_(machine) {
  for (int unit = 0; unit < plan.layout.num_units(); ++unit) {
    const auto of_parameter = [&](uint64_t touched) {
      const double seconds = SecondsAt(clock.update_bytes_per_second, static_cast<double>(touched));
      return seconds <= 0 ? 0 : seconds * machine->workers() / plan.layout.PaddedParameters(unit);
    };
    // A separate device rounds.
    round_.push_back(plan.separate_device ? 0 : of_parameter(RoundTouches(plan, unit)));
    update_.push_back(plan.DeviceUpdates(unit) ? 0 : of_parameter(UpdateTouches(plan, unit)));
    if (!plan.deferred[unit]) update_.back() += round_.back();
    const int measures = plan.schedule.measures.all();
    measure_.push_back(measures == 0 ? 0 : of_parameter(MeasureTouches(plan, unit)) / measures);
  }
}

void VirtualWorkers::RunUntil(const std::function<bool()>& done) {
  while (!done()) SPILLWAY_CHECK(machine_->Advance());
}

double VirtualWorkers::SecondsOf(const WorkerJob& job) const {
  if (job.kind == SpanKind::kCheck) {
    const auto at = [&](double rate) {
      return rate > 0 ? static_cast<double>(job.checked_bytes) * machine_->workers() / rate : 0;
    };
    const bool placed =
        job.checked_bytes > 0 && !clock_.in_place.empty() && clock_.in_place[job.unit];
    return at(clock_.check_bytes_per_second) + (placed ? at(clock_.place_bytes_per_second) : 0);
  }
  const std::vector<double>* const of_parameter = job.kind == SpanKind::kRound     ? &round_
                                                  : job.kind == SpanKind::kUpdate  ? &update_
                                                  : job.kind == SpanKind::kMeasure ? &measure_
                                                                                   : nullptr;
  if (of_parameter == nullptr) return 0;
  return (*of_parameter)[job.unit] *
         static_cast<double>(plan_.layout.TileParameters(job.unit, job.tile));
}

void VirtualWorkers::Run(std::function<void()>) {
  SPILLWAY_CHECK(false && "a forecast commits nothing");
}

void VirtualWorkers::RunJob(WorkerJob job) {
  const double seconds = SecondsOf(job);
  if (seconds == 0) return job.then();
  waiting_.push_back({seconds, std::move(job.then)});
  for (int worker = 0; worker < machine_->workers(); ++worker) {
    GoOn(VirtualMachine::kFirstWorker + worker);
  }
}

void VirtualWorkers::GoOn(int line) {
  if (waiting_.empty() || machine_->busy(line)) return;
  Timed job = std::move(waiting_.front());
  waiting_.pop_front();
  machine_->Begin(line, job.seconds, [this, line, then = std::move(job.then)] {
    GoOn(line);
    then();
  });
}

}  // namespace spillway
