// How a simulation's time passes: who has which part of which resource until something ends.
#include <algorithm>
#include <cmath>
#include <limits>

#include "io/base/check.h"
#include "swap/plan/step_simulation_internal.h"

namespace spillway {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

// How fast something that needs so much goes on with what is there: parts of it a second.
double RateOf(const Shares& needs, const Shares& there) {
  double rate = 1e9;  // nothing at all
  const auto bound = [&](double need, double part) {
    if (need > 0) rate = std::min(rate, part / need);
  };
  bound(needs.disk, there.disk);
  bound(needs.workers, there.workers);
  bound(needs.to_device, there.to_device);
  bound(needs.to_host, there.to_host);
  return rate;
}

Shares Taken(const Shares& needs, double rate) {
  return {rate * needs.disk, rate * needs.workers, rate * needs.to_device, rate * needs.to_host};
}

void Take(const Shares& taken, Shares& there) {
  there.disk = std::max(0.0, there.disk - taken.disk);
  there.workers = std::max(0.0, there.workers - taken.workers);
  there.to_device = std::max(0.0, there.to_device - taken.to_device);
  there.to_host = std::max(0.0, there.to_host - taken.to_host);
}

}  // namespace

// In order, each as fast as disk and link let it; one that an update fills is no fetch.
Simulation::Stay* Simulation::NextFetch(bool from_store) const {
  for (const auto& stay : stays_) {
    if (!stay->fetched() || stay->state != State::kFilling) continue;
    if ((stay->needs.disk > 0) != from_store) continue;
    const bool filled = std::any_of(passes_.begin(), passes_.end(), [&](const Pass& pass) {
      return pass.destination == stay.get();
    });
    if (!filled) return stay.get();
  }
  return nullptr;
}

Simulation::Pass* Simulation::NextUpdate(bool streamed) {
  const auto found = std::find_if(passes_.begin(), passes_.end(),
                                  [&](const Pass& pass) { return pass.streamed == streamed; });
  return found != passes_.end() && CanRun(*found) ? &*found : nullptr;
}

void Simulation::Advance() {
  Stay* const fetch = NextFetch(/*from_store=*/true);
  Stay* const copy = NextFetch(/*from_store=*/false);
  Pass* round = rounds_.empty() ? nullptr : &rounds_.front();
  std::vector<Pass*> updates;
  const bool streamed_first = !passes_.empty() && passes_.front().streamed;
  for (const bool streamed : {streamed_first, !streamed_first}) {
    if (Pass* const update = NextUpdate(streamed)) updates.push_back(update);
  }

  // Each takes of every resource what those before it have left. What an operation copies is
  // not held up: nothing else waits for anything while it does.
  Shares there = {1, 1, 1, 1};
  const auto share_out = [&there](const Shares* needs, const Shares& most) {
    if (needs == nullptr) return 0.0;
    const double rate = RateOf(*needs, most);
    Take(Taken(*needs, rate), there);
    return rate;
  };
  const bool moves = computing_ && input_left_ > 0;
  const double input_rate = share_out(moves ? &input_ : nullptr, there);
  // The one that is needed first goes first over the link.
  const bool copy_first = copy && fetch && copy->first_op < fetch->first_op;
  double copy_rate = copy_first ? share_out(&copy->needs, there) : 0;
  // A deferred update reads in the same class as a fetch.
  const bool shares = std::any_of(updates.begin(), updates.end(), [](const Pass* update) {
    return !update->sums && !update->round && update->needs.disk > 0;
  });
  Shares of_fetch = there;
  if (shares) of_fetch.disk = 0.5;
  const double fetch_rate = share_out(fetch ? &fetch->needs : nullptr, of_fetch);
  if (!copy_first) copy_rate = share_out(copy ? &copy->needs : nullptr, there);
  const double round_rate = share_out(round ? &round->needs : nullptr, there);
  std::vector<double> update_rates;
  for (const Pass* update : updates) update_rates.push_back(share_out(&update->needs, there));
  // How often any of the workers is busy, each of them as often as all are on average.
  const double any_busy = 1 - std::pow(there.workers, clock_.workers);
  // Never quite nothing: then both would share the cores.
  const double compute_rate = std::max(0.05, 1 - clock_.shared_cores * any_busy);

  double passed = kNever;
  const auto ends_after = [&](double left, double rate) {
    if (rate > 0) passed = std::min(passed, left / rate);
  };
  if (moves) ends_after(input_left_, input_rate);
  if (fetch) ends_after(fetch->left, fetch_rate);
  if (copy) ends_after(copy->left, copy_rate);
  if (round) ends_after(round->left, round_rate);
  for (size_t i = 0; i < updates.size(); ++i) ends_after(updates[i]->left, update_rates[i]);
  if (computing_ && !moves) ends_after(compute_left_, compute_rate);
  if (exchanging_) ends_after(exchange_left_, 1);
  SPILLWAY_CHECK(passed < kNever && "a plan whose steps come to a standstill");

  now_ += passed;
  const bool updates_move = std::any_of(updates.begin(), updates.end(),
                                        [](const Pass* update) { return update->needs.disk > 0; });
  if (fetch || (round && round_rate * round->needs.disk > 0) || updates_move) {
    disk_busy_ += passed;
  }
  if (there.to_device < 1 || there.to_host < 1) copy_busy_ += passed;
  if (exchanging_) exchange_busy_ += passed;
  if (!computing_) stalled_ += passed;
  const auto done = [&](double& left, double rate) {
    left -= passed * rate;
    if (left > 1e-12) return false;
    left = 0;
    return true;
  };
  if (fetch && done(fetch->left, fetch_rate)) fetch->state = State::kReady;
  if (copy && done(copy->left, copy_rate)) copy->state = State::kReady;
  const bool round_ends = round && done(round->left, round_rate);
  if (round_ends) {
    EndPass(*round);
    rounds_.pop_front();
  }
  for (size_t i = 0; i < updates.size(); ++i) {
    if (done(updates[i]->left, update_rates[i])) EndPass(*updates[i]);
  }
  std::erase_if(passes_, [](const Pass& pass) { return pass.left == 0; });
  if (moves) {
    done(input_left_, input_rate);
  } else if (computing_ && done(compute_left_, compute_rate)) {
    computing_ = false;
    if (!clock_.collective) FinishOp(next_op_ - 1);
  }
  if (exchanging_ && done(exchange_left_, 1)) {
    exchanging_ = false;
    FinishOp(next_op_ - 1);
  }
}

SimulatedStep Simulation::Run() {
  const int loss_op =
      static_cast<int>(std::find_if(plan_.schedule.ops.begin(), plan_.schedule.ops.end(),
                                    [](const StepOp& op) { return op.kind == OpKind::kLoss; }) -
                       plan_.schedule.ops.begin());
  const int counted = (kSteps - 1) * ops();
  // What is computed up to the loss of the step that counts.
  int forward = counted + loss_op;
  if (clock_.collective) {
    const auto& all = clock_.collective->computations;
    forward = (kSteps - 1) * computations() +
              static_cast<int>(std::count_if(all.begin(), all.end(),
                                             [](const auto& each) { return each.forward; }));
  }
  SimulatedStep before, step;
  double forward_end = 0;
  while (true) {
    Pump();
    const int done = OpsBehind();
    if (done == counted && before.seconds == 0) {
      before = {now_, 0, disk_busy_, copy_busy_, exchange_busy_, stalled_};
    }
    if (ComputedBehind() == forward && forward_end == 0) forward_end = now_;
    if (done == counted + ops()) break;
    Advance();
  }
  step.seconds = now_ - before.seconds;
  step.forward_seconds = std::max(0.0, forward_end - before.seconds);
  step.disk_seconds = disk_busy_ - before.disk_seconds;
  step.copy_seconds = copy_busy_ - before.copy_seconds;
  step.collective_seconds = exchange_busy_ - before.collective_seconds;
  step.stall_seconds = stalled_ - before.stall_seconds;
  return step;
}

SimulatedStep SimulateStep(const SwapPlan& plan, const StepClock& clock) {
  return Simulation(plan, clock).Run();
}

}  // namespace spillway
