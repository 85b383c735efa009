#include "swap/plan/step_simulation.h"

#include <algorithm>

#include "io/base/check.h"
#include "swap/plan/phase_traffic.h"
#include "swap/plan/step_simulation_internal.h"

namespace spillway {

Simulation::Simulation(const SwapPlan& plan, const StepClock& clock)
    : plan_(plan), clock_(clock), settled_(plan.layout.num_units(), 0) {
  SPILLWAY_CHECK((clock.collective ? clock.collective->seconds : clock.op_seconds).size() ==
                 plan.schedule.ops.size());
  for (int step = 0; step < kSteps; ++step) AddStays(step);
}

void Simulation::AddStays(int step) {
  const size_t begin = stays_.size();
  const int base = step * ops();
  const auto add = [&](Use use, int unit, int first_op, int last_op, int lead,
                       const ArenaSpan& span) {
    auto stay = std::make_unique<Stay>();
    stay->use = use;
    stay->unit = unit;
    stay->version = step;
    stay->first_op = base + first_op;
    stay->last_op = base + last_op;
    stay->lead_ops = lead;
    stay->span = span;
    const bool in_memory = use == Use::kWeights && plan_.placements[unit].weight != Tier::kNvme;
    if (stay->fetched() && !in_memory) {
      stay->needs.disk = clock_.disk.Seconds(static_cast<double>(span.bytes), 0);
    }
    if (use == Use::kWeights && plan_.separate_device) stay->needs.to_device = ToDevice(span.bytes);
    stays_.push_back(std::move(stay));
  };
  for (const WeightStay& stay : plan_.weight_stays) {
    add(Use::kWeights, stay.unit, stay.first_op, stay.last_op, stay.lead_ops, stay.span);
    stays_.back()->feeds_update = stay.feeds_update;
    stays_.back()->takes_over = stay.takes_over;
  }
  for (const GradientStay& stay : plan_.gradient_stays) {
    add(Use::kSums, stay.unit, stay.first_op, stay.last_op, 0, stay.span);
  }
  for (const ActivationStay& stay : plan_.activation_stays) {
    add(stay.loads ? Use::kLoadedInput : Use::kSavedInput, stay.unit, stay.op, stay.op,
        stay.lead_ops, stay.span);
  }
  std::stable_sort(stays_.begin() + begin, stays_.end(),
                   [](const auto& a, const auto& b) { return a->first_op < b->first_op; });
  for (size_t i = begin; i < stays_.size(); ++i) {
    const ArenaSpan& span = stays_[i]->span;
    for (size_t j = 0; j < i; ++j) {
      const ArenaSpan& other = stays_[j]->span;
      if (stays_[i]->takes_over && stays_[j]->feeds_update && stays_[j]->unit == stays_[i]->unit &&
          stays_[j]->version + 1 == stays_[i]->version) {
        continue;
      }
      if (span.Overlaps(other)) {
        stays_[i]->overlaps.push_back(stays_[j].get());
      }
    }
  }
}

bool Simulation::Free(const Stay& stay) const {
  return std::all_of(stay.overlaps.begin(), stay.overlaps.end(),
                     [](const Stay* other) { return other->state == State::kReleased; });
}

Simulation::Stay* Simulation::Find(Use use, int unit, int op) const {
  for (const auto& stay : stays_) {
    if (stay->use == use && stay->unit == unit && stay->first_op <= op && op <= stay->last_op) {
      return stay.get();
    }
  }
  return nullptr;
}

bool Simulation::Ready(int op) const {
  for (int unit : Op(op).weights) {
    if (plan_.ReadsHome(unit)) {
      if (settled_[unit] < op / ops()) return false;
    } else if (Find(Use::kWeights, unit, op)->state != State::kReady) {
      return false;
    }
  }
  for (int unit : Op(op).gradients) {
    if (Find(Use::kSums, unit, op)->state != State::kReady) return false;
  }
  const int unit = Op(op).unit;
  if (Op(op).kind == OpKind::kLoss || plan_.activations[unit] != Tier::kNvme) return true;
  const Use use = Op(op).kind == OpKind::kForward ? Use::kSavedInput : Use::kLoadedInput;
  return Find(use, unit, op)->state == State::kReady;
}

bool Simulation::CanFetch(const Stay& stay) const {
  if (stay.use == Use::kWeights) return settled_[stay.unit] == stay.version;
  return std::any_of(stays_.begin(), stays_.end(), [&](const auto& saved) {
    return saved->use == Use::kSavedInput && saved->unit == stay.unit &&
           saved->version == stay.version && saved->state == State::kReleased;
  });
}

// Starts all that can start.
void Simulation::Pump() {
  for (const auto& stay : stays_) {
    if (stay->state == State::kWaiting && stay->first_op - stay->lead_ops <= next_op_ &&
        Free(*stay)) {
      stay->state = stay->fetched() ? State::kAllocated : State::kReady;
    }
    if (stay->state == State::kAllocated && CanFetch(*stay)) stay->state = State::kFilling;
  }
  if (OpsBehind() == next_op_ && next_op_ < kSteps * ops() && MayExchange(next_op_) &&
      Ready(next_op_)) {
    BeginOp();
  }
  if (clock_.collective && !computing_ && MayCompute()) BeginComputation();
}

bool Simulation::MayExchange(int op) const {
  if (!clock_.collective) return true;
  return ComputedBehind() >= op / ops() * computations() + clock_.collective->after[op % ops()];
}

bool Simulation::MayCompute() const {
  const int step = next_computation_ / computations();
  if (step == kSteps) return false;
  const auto& next = clock_.collective->computations[next_computation_ % computations()];
  return OpsBehind() >= step * ops() + next.needs_ops;
}

void Simulation::BeginComputation() {
  computing_ = true;
  compute_left_ = clock_.collective->computations[next_computation_ % computations()].seconds;
  ++next_computation_;
}

void Simulation::BeginOp() {
  const StepOp& op = Op(next_op_);
  if (clock_.collective) {
    exchanging_ = true;
    exchange_left_ = clock_.collective->seconds[next_op_ % ops()];
    ++next_op_;
    return;
  }
  computing_ = true;
  compute_left_ = clock_.op_seconds[next_op_ % ops()];
  input_ = {};
  if (op.kind == OpKind::kForward) input_.to_host = ToHost(InputCopyBytes(plan_, op.unit));
  if (op.kind == OpKind::kBackward) input_.to_device = ToDevice(InputCopyBytes(plan_, op.unit));
  input_left_ = input_.to_host + input_.to_device > 0 ? 1 : 0;
  ++next_op_;
}

void Simulation::AddRounding(int unit, Shares& needs) const {
  if (!plan_.separate_device) {
    needs.workers += OnWorkers(RoundTouches(plan_, unit));
    return;
  }
  needs.to_host += OnDevice(RoundTouches(plan_, unit)) + ToHost(GradientToHostBytes(plan_, unit));
}

void Simulation::AddUpdate(int unit, int version, Stay* sums) {
  const double parameters = static_cast<double>(plan_.layout.PaddedParameters(unit));
  const bool spilled = plan_.deferred[unit] && plan_.placements[unit].gradient == Tier::kNvme;
  Pass pass;
  pass.unit = unit;
  pass.version = version;
  pass.sums = sums;
  pass.streamed = plan_.streams_update[unit];
  if (sums && plan_.weight_at_hand[unit]) pass.weights = Find(Use::kWeights, unit, next_op_ - 1);
  pass.needs.disk = clock_.disk.Seconds(
      parameters * plan_.UpdateBytesRead(unit) + (spilled ? GradientBytes(unit) : 0),
      parameters * plan_.UpdateBytesWritten(unit));
  Pass rest;
  rest.round = true;
  rest.unit = -1;
  if (sums && unit == plan_.turn_unit) {
    // What was read ahead, and what waits to be written, keeps the disk busy without anybody
    // waiting for it.
    const double tiles = plan_.layout.NumTiles(unit);
    const double read = std::max(0.0, 1 - plan_.turn_tiles() / tiles);
    const double written = std::max(0.0, read - plan_.tile_buffers / tiles);
    const double whole = pass.needs.disk;
    pass.needs.disk = clock_.disk.Seconds(parameters * plan_.UpdateBytesRead(unit) * read,
                                          parameters * plan_.UpdateBytesWritten(unit) * written);
    rest.needs.disk = whole - pass.needs.disk;
  }
  if (sums) AddRounding(unit, pass.needs);
  if (plan_.DeviceUpdates(unit)) {
    pass.needs.to_host += OnDevice(UpdateTouches(plan_, unit));
  } else {
    pass.needs.workers += OnWorkers(UpdateTouches(plan_, unit));
  }
  pass.needs.to_host += ToHost(UpdateToHostBytes(plan_, unit));
  pass.needs.to_device = ToDevice(UpdateToDeviceBytes(plan_, unit));
  passes_.push_back(pass);
  if (rest.needs.disk > 0) passes_.push_back(rest);
}

void Simulation::FinishOp(int op) {
  const int version = op / ops() + 1;
  std::vector<Stay*> complete;
  for (const auto& stay : stays_) {
    if (stay->last_op != op || stay->state == State::kReleased) continue;
    if (stay->use == Use::kSums) {
      complete.push_back(stay.get());
    } else if (stay->use == Use::kSavedInput) {
      Pass save;
      save.round = true;
      save.unit = -1;  // no gradient that an update would wait for
      save.sums = stay.get();
      save.needs.disk = clock_.disk.Seconds(0, static_cast<double>(stay->span.bytes));
      rounds_.push_back(save);
    } else if (!stay->feeds_update) {
      stay->state = State::kReleased;
    }
  }
  for (Stay* sums : complete) {
    if (!plan_.deferred[sums->unit]) {
      AddUpdate(sums->unit, version, sums);
      continue;
    }
    Pass round;
    round.round = true;
    round.unit = sums->unit;
    round.sums = sums;
    if (plan_.placements[sums->unit].gradient == Tier::kNvme) {
      round.needs.disk = clock_.disk.Seconds(0, GradientBytes(sums->unit));
    }
    AddRounding(sums->unit, round.needs);
    rounds_.push_back(round);
  }
  if ((op + 1) % ops() != 0) return;
  std::vector<bool> seen(plan_.layout.num_units(), false);
  for (const StepOp& step_op : plan_.schedule.ops) {
    for (int unit : step_op.weights) {
      if (seen[unit] || !plan_.deferred[unit]) continue;
      seen[unit] = true;
      AddUpdate(unit, version, nullptr);
    }
  }
}

bool Simulation::CanRun(Pass& pass) {
  if (pass.begun || pass.round) return true;
  if (settled_[pass.unit] != pass.version - 1) return false;
  if (!pass.sums && std::any_of(rounds_.begin(), rounds_.end(),
                                [&](const Pass& round) { return round.unit == pass.unit; })) {
    return false;
  }
  if (plan_.UpdateFillsStays(pass.unit)) {
    for (const auto& stay : stays_) {
      if (stay->use != Use::kWeights || stay->unit != pass.unit || stay->version != pass.version)
        continue;
      if (stay->state == State::kReleased) continue;
      if (stay->state == State::kAllocated) pass.destination = stay.get();
      break;
    }
    // After the last step there is no forward to wait for.
    if (!pass.destination && !pass.sums && pass.version < kSteps) return false;
  }
  pass.begun = true;
  if (pass.destination) {
    pass.destination->state = State::kFilling;
    if (!plan_.streams_update[pass.unit]) {
      pass.needs.to_device += pass.destination->needs.to_device;
    }
  }
  return true;
}

void Simulation::EndPass(Pass& pass) {
  if (pass.sums) pass.sums->state = State::kReleased;
  if (pass.round) return;
  if (pass.weights) pass.weights->state = State::kReleased;
  if (pass.destination) pass.destination->state = State::kReady;
  settled_[pass.unit] = pass.version;
}

}  // namespace spillway
