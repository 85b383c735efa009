// The mover's passes over tiles: which may start when, and what ends with them. What
// happens to one tile of a pass is in swap/mover/mover_tiles.cc.
#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "io/base/check.h"
#include "io/base/status.h"
#include "swap/mover/mover.h"
#include "swap/mover/mover_internal.h"

namespace spillway {

void SwapManager::Mover::AddPass(std::unique_ptr<Pass> pass) { passes_.push_back(std::move(pass)); }

void SwapManager::Mover::StartRounding(int unit, Stay* sums, int64_t version) {
  auto pass = std::make_unique<Pass>();
  pass->kind = PassKind::kRound;
  pass->unit = unit;
  pass->version = version;
  pass->sums = sums;
  pass->sums_complete = op_done_;
  AddPass(std::move(pass));
}

void SwapManager::Mover::StartUpdate(int unit, Stay* sums, int64_t version) {
  auto pass = std::make_unique<Pass>();
  pass->kind = PassKind::kUpdate;
  pass->unit = unit;
  pass->version = version;
  pass->sums = sums;
  if (sums && plan_.weight_at_hand[unit])
    pass->weights = FindStay(StayUse::kWeights, unit, next_op_ - 1);
  if (sums) pass->sums_complete = op_done_;
  pass->scalars = scalars_;
  AddPass(std::move(pass));
}

void SwapManager::Mover::AnnounceUpdate(const UpdateScalars& scalars) {
  scalars_ = scalars;
  if (deferred_) StartDeferredUpdates(train_version_ + 1);
}

// The units in the order in which the next forward needs them.
void SwapManager::Mover::StartDeferredUpdates(int64_t version) {
  std::vector<bool> seen(layout_.num_units(), false);
  for (const StepOp& op : plan_.schedule.ops) {
    for (int unit : op.weights) {
      if (seen[unit] || !plan_.deferred[unit]) continue;
      seen[unit] = true;
      StartUpdate(unit, nullptr, version);
    }
  }
}

// Tiles of a pass start in order and passes follow each other; but updates that are streamed
// through a device go beside those of the workers, which use nothing that they do, and rounding
// and saving, which wait for nothing but memory, may overtake an update that has to wait.
void SwapManager::Mover::StartTiles() {
  bool waits[2] = {false, false};
  for (size_t i = 0; i < passes_.size(); ++i) {
    Pass& pass = *passes_[i];
    const bool in_turn = pass.kind == PassKind::kUpdate || pass.kind == PassKind::kInitialize;
    if (in_turn && waits[Streams(pass)]) continue;
    while (pass.next_tile < NumTiles(pass)) {
      if (failed_ || !CanStartTile(pass)) {
        waits[Streams(pass)] |= in_turn;
        break;
      }
      StartTile(pass);
    }
    if (IsAtTurn(pass) && pass.next_tile == NumTiles(pass) && turn_begun_ != pass.version) {
      turn_version_ = pass.version;
      CloseTurn();
    }
  }
  // Units without parameters of their own, and skipped updates, have no tiles to wait for,
  // only their turn.
  for (size_t i = 0; i < passes_.size();) {
    Pass* pass = passes_[i].get();
    if (NumTiles(*pass) > 0 || !IsItsTurn(*pass)) {
      ++i;
      continue;
    }
    PassComputed(*pass);
    PassDone(*pass);
  }
}

int SwapManager::Mover::NumTiles(const Pass& pass) const {
  return pass.scalars.skip ? 0 : layout_.NumTiles(pass.unit);
}

// An update may only read what the one before it has finished writing, and a deferred one a
// gradient that is rounded.
bool SwapManager::Mover::IsItsTurn(const Pass& pass) const {
  if (pass.kind != PassKind::kUpdate) return true;
  if (settled_[pass.unit] != pass.version - 1) return false;
  if (pass.sums) return true;
  return std::none_of(passes_.begin(), passes_.end(), [&](const auto& other) {
    return other->kind == PassKind::kRound && other->unit == pass.unit;
  });
}

bool SwapManager::Mover::FillsForward(const Pass& pass) const {
  return pass.kind == PassKind::kUpdate && !pass.sums && !flushing_;
}

bool SwapManager::Mover::HasTaskRoom(const Pass& pass) const {
  if (tasks_running_ >= max_tasks_) return false;
  return pass.kind != PassKind::kUpdate || updates_running_[Streams(pass)] < max_updates_;
}

bool SwapManager::Mover::CanStartTile(Pass& pass) {
  if (!HasTaskRoom(pass) || !IsItsTurn(pass) || HeldByCommit(pass)) return false;
  if (pass.kind == PassKind::kSave || pass.kind == PassKind::kRound) {
    return !NeedsTileBuffer(pass) || HasTileBuffer(pass);
  }
  if (pass.kind == PassKind::kUpdate && !pass.begun) {
    // A deferred update has the forward right behind it, and waits for its memory.
    const bool fills = plan_.UpdateFillsStays(pass.unit);
    const bool found = fills && FindDestination(pass);
    if (!found && FillsForward(pass) && fills) return false;
  }
  if (NeedsTileBuffer(pass) && !HasTileBuffer(pass)) return false;
  if (pass.kind == PassKind::kUpdate && !pass.begun) {
    pass.begun = true;
    Event(absl::StrCat("update ", pass.unit));
    if (pass.destination) {
      pass.destination->state = StayState::kTakingUpdate;
      Event(absl::StrCat("fill ", pass.unit));
    }
  }
  return true;
}

// The stay that the next program fills first with this unit's weights, if it already
// has its memory.
bool SwapManager::Mover::FindDestination(Pass& pass) {
  pass.destination = nullptr;
  for (auto& stay : stays_) {
    if (stay->use != StayUse::kWeights || stay->abandoned || stay->unit != pass.unit) continue;
    if (stay->version != pass.version || stay->state == StayState::kReleased) continue;
    if (stay->state == StayState::kAllocated) pass.destination = stay.get();
    break;
  }
  return pass.destination != nullptr;
}

bool SwapManager::Mover::NeedsTileBuffer(const Pass& pass) const {
  const UnitPlacement& placement = plan_.placements[pass.unit];
  // Sums in the host's memory are rounded in place.
  if (pass.kind == PassKind::kRound) return device_ != nullptr && GradientInStore(pass.unit);
  // What lives on a separate device passes through it.
  if (plan_.HomeOnDevice(pass.unit, 0)) return true;
  if (pass.kind == PassKind::kSave) return false;
  if (placement.any_nvme()) return true;
  return pass.kind == PassKind::kUpdate &&
         (GradientInStore(pass.unit) || (device_ != nullptr && pass.sums && !Streams(pass)));
}

// Every tile has its new values in memory.
void SwapManager::Mover::PassComputed(Pass& pass) {
  if (pass.kind == PassKind::kUpdate && pass.sums) {
    ReleaseStay(*std::exchange(pass.sums, nullptr));
    if (pass.weights) ReleaseStay(*std::exchange(pass.weights, nullptr));
  }
  if (Stay* destination = std::exchange(pass.destination, nullptr)) {
    destination->state = StayState::kReady;
    if (device_ != nullptr) destination->filled = device_->Record(StreamId::kToDevice);
    if (destination->abandoned) ReleaseStay(*destination);
  }
  pump_again_ = true;
}

// Every tile is where it lives.
void SwapManager::Mover::PassDone(Pass& pass) {
  if (pass.kind == PassKind::kRound) {
    ReleaseStay(*pass.sums);
    --gradients_to_round_;
  } else if (pass.kind == PassKind::kUpdate) {
    SPILLWAY_CHECK(settled_[pass.unit] == pass.version - 1);
    settled_[pass.unit] = pass.version;
  }
  const auto it =
      std::find_if(passes_.begin(), passes_.end(), [&](const auto& p) { return p.get() == &pass; });
  SPILLWAY_CHECK(it != passes_.end());
  passes_.erase(it);
  pump_again_ = true;
}

void SwapManager::Mover::WhenGradientsRounded(GradientTotal* total, Done done) {
  if (failed_) return done(error());
  gradients_total_ = total;
  gradients_waiter_ = std::move(done);
}

void SwapManager::Mover::WhenFlushed(Done done) {
  if (failed_) return done(error());
  SPILLWAY_CHECK(programs_.empty());
  flushing_ = true;
  flush_waiter_ = std::move(done);
}

void SwapManager::Mover::Initialize(const FillTile* fill, std::function<void(double)> progress,
                                    Done done) {
  if (failed_) return done(error());
  initialize_fill_ = fill;
  initialize_progress_ = std::move(progress);
  initialize_waiter_ = std::move(done);
  for (int unit = 0; unit < layout_.num_units(); ++unit) {
    auto pass = std::make_unique<Pass>();
    pass->kind = PassKind::kInitialize;
    pass->unit = unit;
    initialize_tiles_ += layout_.NumTiles(unit);
    AddPass(std::move(pass));
  }
}

void SwapManager::Mover::CheckWaiters() {
  if (gradients_waiter_ && gradients_to_round_ == 0) {
    // Units in order, tiles in order: the same sum in every placement.
    GradientTotal total;
    for (const auto& unit : partials_) {
      for (const GradientPartial& partial : unit) {
        total.sum_of_squares += partial.sum_of_squares;
        total.finite &= partial.finite;
      }
    }
    *gradients_total_ = total;
    std::exchange(gradients_waiter_, nullptr)(absl::OkStatus());
  }
  if (flush_waiter_ && passes_.empty() && tasks_running_ == 0) {
    flushing_ = false;
    std::exchange(flush_waiter_, nullptr)(absl::OkStatus());
  }
  if (initialize_waiter_ && passes_.empty() && tasks_running_ == 0) {
    std::exchange(initialize_waiter_, nullptr)(absl::OkStatus());
  }
}

}  // namespace spillway
