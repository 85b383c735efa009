// The mover's stays: when a buffer has its addresses, what may fill it, and who finds it.
#include <algorithm>
#include <utility>

#include "io/base/check.h"
#include "swap/mover/mover.h"
#include "swap/mover/mover_internal.h"

namespace spillway {

void SwapManager::Mover::AddStays(const EnqueuedProgram& program) {
  const size_t begin = stays_.size();
  auto add = [&](StayUse use, int unit, int first, int last, int lead, const ArenaSpan& span) {
    auto stay = std::make_unique<Stay>();
    stay->use = use;
    stay->unit = unit;
    stay->first_op = program.first_op + first;
    stay->last_op = program.first_op + std::min(last, program.num_ops - 1);
    stay->lead_ops = lead;
    stay->version = program.version;
    stay->span = span;
    stays_.push_back(std::move(stay));
  };
  for (const WeightStay& stay : plan_.weight_stays) {
    if (stay.first_op >= program.num_ops) continue;
    add(StayUse::kWeights, stay.unit, stay.first_op, stay.last_op, stay.lead_ops, stay.span);
    stays_.back()->feeds_update = stay.feeds_update && program.kind == Program::kTrain;
    stays_.back()->takes_over = stay.takes_over;
  }
  if (program.kind == Program::kTrain) {
    for (const GradientStay& stay : plan_.gradient_stays) {
      add(StayUse::kSums, stay.unit, stay.first_op, stay.last_op, 0, stay.span);
    }
    for (const ActivationStay& stay : plan_.activation_stays) {
      add(stay.loads ? StayUse::kLoadedInput : StayUse::kSavedInput, stay.unit, stay.op, stay.op,
          stay.lead_ops, stay.span);
    }
    for (size_t i = 0; i < plan_.turn_stays.size(); ++i) {
      const TurnStay& stay = plan_.turn_stays[i];
      add(StayUse::kTurnTiles, plan_.turn_unit, stay.op, stay.op, stay.lead_ops, stay.span);
      stays_.back()->turn_stay = static_cast<int>(i);
    }
  }
  std::stable_sort(stays_.begin() + begin, stays_.end(),
                   [](const auto& a, const auto& b) { return a->first_op < b->first_op; });
}

void SwapManager::Mover::AllocateStays() {
  while (!stays_.empty() && stays_.front()->state == StayState::kReleased) stays_.pop_front();
  for (size_t i = 0; i < stays_.size(); ++i) {
    Stay& stay = *stays_[i];
    if (stay.state == StayState::kWaiting && stay.first_op - stay.lead_ops <= next_op_ &&
        AddressesFree(i) && (stay.use != StayUse::kTurnTiles || CanOpenTurnStay(stay))) {
      const bool fetched = stay.use == StayUse::kWeights || stay.use == StayUse::kLoadedInput;
      stay.state = fetched ? StayState::kAllocated : StayState::kReady;
      if (stay.use == StayUse::kTurnTiles) OpenTurnStay(stay);
      if (OnDevice(stay)) stay.waits = uses_.Over(stay.span);
    }
    if (stay.state == StayState::kAllocated && CanFetch(stay)) StartFetch(stay);
  }
}

// What is in the place of the right version can be fetched; other weights are filled by the
// update that is still to come, or fetched after it.
bool SwapManager::Mover::CanFetch(const Stay& stay) const {
  return (stay.use == StayUse::kWeights ? settled_ : saved_)[stay.unit] == stay.version;
}

// Whether no earlier stay still holds, or is still to hold, any of these addresses.
bool SwapManager::Mover::AddressesFree(size_t index) const {
  const Stay& stay = *stays_[index];
  const ArenaSpan& span = stay.span;
  for (size_t i = 0; i < index; ++i) {
    if (stays_[i]->state == StayState::kReleased) continue;
    const ArenaSpan& other = stays_[i]->span;
    // The update reads the old weights of a tile before it puts the new ones there.
    if (stay.takes_over && stays_[i]->feeds_update && stays_[i]->unit == stay.unit &&
        stays_[i]->version + 1 == stay.version) {
      continue;
    }
    if (span.Overlaps(other)) return false;
  }
  return true;
}

SwapManager::Mover::Stay* SwapManager::Mover::FindStay(StayUse use, int unit, int64_t op) {
  for (auto& stay : stays_) {
    if (stay->use == use && stay->unit == unit && stay->first_op <= op && op <= stay->last_op &&
        !stay->abandoned) {
      return stay.get();
    }
  }
  SPILLWAY_CHECK(false && "an op uses a unit without a stay in memory");
  return nullptr;
}

void SwapManager::Mover::ReleaseStay(Stay& stay) {
  if (OnDevice(stay)) LeaveAddresses(stay);
  stay.state = StayState::kReleased;
  stay.fetches.clear();
}

}  // namespace spillway
