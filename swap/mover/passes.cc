#include "swap/mover/passes.h"

#include <algorithm>
#include <utility>

#include "io/base/check.h"

namespace spillway {

Passes::Passes(const MoverContext& context, Buffers* buffers, TileBuffers* tile_buffers,
               DeviceTiles* device_tiles)
    : context_(context),
      buffers_(buffers),
      tile_buffers_(tile_buffers),
      tiles_(context, tile_buffers, device_tiles, this),
      passes_(context.layout.num_units()),
      ahead_of_update_(context.layout.num_units()),
      partials_(context.layout.num_units()) {
  const std::vector<StepOp>& ops = context.plan.schedule.ops;
  need_.assign(context.layout.num_units(), static_cast<int>(ops.size()));
  for (int op = static_cast<int>(ops.size()) - 1; op >= 0; --op) {
    for (int unit : ops[op].weights) need_[unit] = op;
  }
  for (int unit = 0; unit < partials_.size(); ++unit) {
    partials_[unit].resize(context.layout.NumTiles(unit));
  }
}

// --- Passes begin ---------------------------------------------------------------

Pass& Passes::Add(PassKind kind, int unit, int64_t version, Buffer* sums) {
  Pass pass;
  pass.kind = kind;
  pass.unit = unit;
  pass.version = version;
  pass.sums = sums;
  if (sums != nullptr) pass.sums_complete = context_.lane->op_done();
  if (pass.reads_gradient()) pass.scalars = scalars_;
  if (kind == PassKind::kMeasure) pass.measure = measure_;
  pass.generation = kind == PassKind::kRound ? version + 1 : pass.scalars.step;
  pass.Route(context_);
  return passes_.Add(std::move(pass));
}

void Passes::Initialize(const FillTile* fill, std::function<void(double)> progress, Done done) {
  SPILLWAY_CHECK(!initialize_waiter_ && passes_.empty());
  initialize_progress_ = std::move(progress);
  initialize_waiter_ = std::move(done);
  for (int unit = 0; unit < layout_.num_units(); ++unit) {
    if (context_.store != nullptr && context_.store->IsInPlace(unit)) continue;
    Add(PassKind::kInitialize, unit, 0, nullptr).fill = fill;
    initialize_tiles_ += layout_.NumTiles(unit);
  }
}

void Passes::BeginGradients(int64_t version) {
  SPILLWAY_CHECK(version >= gradients_version_);
  SPILLWAY_CHECK(plan_.schedule.update == UpdateMode::kImmediate || gradients_to_round_ == 0);
  gradients_version_ = version;
  // Awaited only where every update is deferred.
  gradients_to_round_ = static_cast<int>(plan_.gradient_stays.size());
}

void Passes::TakeGradient(Buffer& sums, int64_t op) {
  SPILLWAY_CHECK(sums.use == BufferUse::kSums && sums.state() == BufferState::kReady);
  if (plan_.deferred[sums.unit]) {
    Add(PassKind::kRound, sums.unit, sums.version, &sums);
    return;
  }
  Pass& pass = Add(PassKind::kUpdate, sums.unit, sums.version + 1, &sums);
  if (!plan_.weight_at_hand[sums.unit]) return;
  pass.weights = &buffers_->Find(BufferUse::kWeights, sums.unit, op);
  SPILLWAY_CHECK(pass.weights->state() == BufferState::kReady);
}

void Passes::Measure(const UpdateScalars& scalars, int measure, Done done) {
  SPILLWAY_CHECK(!measure_waiter_ && units_to_measure_ == 0);
  SPILLWAY_CHECK(measure >= 0 && measure < plan_.schedule.measures.all());
  scalars_ = scalars;
  measure_ = measure;
  measure_waiter_ = std::move(done);
  units_to_measure_ = AddDeferred(PassKind::kMeasure, gradients_version_ + 1);
}

void Passes::Announce(const UpdateScalars& scalars) {
  scalars_ = scalars;
  if (plan_.schedule.update == UpdateMode::kDeferred) UpdateDeferred(gradients_version_ + 1);
}

void Passes::UpdateDeferred(int64_t version) {
  passes_.SortUpdates(need_);
  AddDeferred(PassKind::kUpdate, version);
}

int Passes::AddDeferred(PassKind kind, int64_t version) {
  int added = 0;
  std::vector<bool> seen(layout_.num_units(), false);
  for (const StepOp& op : plan_.schedule.ops) {
    for (int unit : op.weights) {
      if (seen[unit] || !plan_.deferred[unit]) continue;
      seen[unit] = true;
      Add(kind, unit, version, nullptr);
      ++added;
    }
  }
  return added;
}

void Passes::Save(int unit, uint64_t generation) {
  SPILLWAY_CHECK(context_.store != nullptr);
  Add(PassKind::kSave, unit, 0, nullptr).generation = generation;
}

// --- Tiles start ----------------------------------------------------------------

void Passes::Start() {
  passes_.BeginTiles([this](Pass& pass) { BeginTiles(pass); });
  const auto may_start = [this](const Pass& pass) { return MayStart(pass); };
  while (Pass* const pass = passes_.TakeEmpty(may_start)) {
    if (pass->at_turn) tile_buffers_->CloseTurn(pass->version);
    PassComputed(*pass);
    PassDone(*pass);
  }
}

void Passes::BeginTiles(Pass& pass) {
  while (!pass.all_begun()) {
    if (pass.MayGoLast() && !pass.goes_last) return;
    if (context_.thread->failed() || !MayStartTile(pass)) return;
    tiles_.Begin(pass);
  }
  if (pass.at_turn) tile_buffers_->CloseTurn(pass.version);
}

// An update may only read what the one before it has finished writing, and a deferred one a
// gradient that is rounded: the next one is not rounded over it before that.
bool Passes::MayStart(const Pass& pass) const {
  if (pass.kind == PassKind::kRound) return !ahead_of_update_[pass.unit];
  if (!pass.reads_gradient()) return true;
  if (buffers_->settled(pass.unit) != pass.version - 1) return false;
  return !pass.deferred || pass.begun || !passes_.AnyRound(pass.unit);
}

// The slot that a later update would write to is the last commit's until this one is
// durable, and what lives in memory is being saved.
bool Passes::HeldByCommit(const Pass& pass) {
  if (!pass.updates() || pass.version <= held_after_) return false;
  held_ = true;
  return true;
}

bool Passes::MayStartTile(Pass& pass) {
  if (!tiles_.HasRoom(pass) || !MayStart(pass) || HeldByCommit(pass)) return false;
  pass.fills_forward = pass.deferred && !flushing_;
  const bool begins = pass.updates() && !pass.begun;
  if (begins && plan_.UpdateFillsStays(pass.unit)) {
    // A deferred update has the forward right behind it, and waits for its memory.
    pass.destination = buffers_->FindDestination(pass.unit, pass.version);
    if (pass.destination == nullptr && pass.fills_forward) return false;
  }
  if (begins) ChooseOrder(pass);
  if (pass.needs_tile_buffer && !tile_buffers_->Has(pass.at_turn, pass.NextTile())) {
    return false;
  }
  if (!begins) return true;
  pass.begun = true;
  if (pass.first_tiles > 0) ahead_of_update_[pass.unit] = true;
  context_.record->Event("update", pass.unit);
  if (pass.destination != nullptr) {
    pass.destination->Become(BufferState::kTakingUpdate);
    context_.record->Event("fill", pass.unit);
  }
  return true;
}

// Tiles that the next program reads first go first, if the update writes them where it reads them.
void Passes::ChooseOrder(Pass& pass) const {
  pass.order.clear();
  pass.first_tiles = pass.first_left = 0;
  pass.fills_first = false;
  if (pass.destination == nullptr && !plan_.ReadsHome(pass.unit)) return;
  const std::vector<int>* const tiles = buffers_->FirstTiles(pass.unit, pass.version);
  if (tiles == nullptr) return;
  pass.BeginWith(*tiles);
  // The remaining tiles are read from the destination itself.
  pass.fills_first = pass.first_tiles > 0 && pass.destination != nullptr &&
                     pass.destination->first_op == pass.destination->last_op;
}

// --- Tiles and passes end -------------------------------------------------------

void Passes::TileComputed(const TileJob& job) {
  Pass& pass = *job.pass;
  SPILLWAY_CHECK(pass.tiles_computed < pass.next_tile);
  SPILLWAY_CHECK(!job.first || pass.first_left > 0);
  if (pass.kind == PassKind::kRound) partials_[pass.unit][job.tile] = job.partial;
  if (job.first && --pass.first_left == 0) FirstTilesComputed(pass);
  const bool last = ++pass.tiles_computed == pass.num_tiles;
  // Rounded gradients are written from the sums themselves.
  if (last && pass.kind != PassKind::kRound) PassComputed(pass);
}

void Passes::FirstTilesComputed(Pass& pass) {
  const auto begin = pass.order.begin();
  first_there_ = {pass.unit, {begin, begin + pass.first_tiles}};
  first_version_ = pass.version;
  if (pass.fills_first) FillEnds(pass);
  context_.thread->NoteProgress();
}

// The pass puts nothing more into its destination.
void Passes::FillEnds(Pass& pass) {
  Buffer* const destination = std::exchange(pass.destination, nullptr);
  if (destination == nullptr) return;
  destination->Become(BufferState::kReady);
  destination->filled = context_.lane->Record(StreamId::kToDevice);
  if (destination->abandoned) buffers_->Release(*destination);
}

void Passes::PassStreamed(Pass& pass) {
  const DeviceEvent streamed = context_.lane->Record(StreamId::kToHost);
  for (Buffer** used : {&pass.weights, &pass.sums}) {
    Buffer* const buffer = std::exchange(*used, nullptr);
    if (buffer == nullptr) continue;
    buffer->last_use = streamed;
    buffers_->Release(*buffer);
  }
  if (Buffer* const destination = std::exchange(pass.destination, nullptr)) {
    destination->filled = streamed;
    destination->Become(BufferState::kReady);
    if (destination->abandoned) buffers_->Release(*destination);
  }
  context_.thread->NoteProgress();
}

// Every tile has its new values in memory.
void Passes::PassComputed(Pass& pass) {
  SPILLWAY_CHECK(pass.tiles_computed == pass.num_tiles);
  if (pass.first_tiles > 0) ahead_of_update_[pass.unit] = false;
  if (pass.updates() && pass.sums != nullptr) {
    buffers_->Release(*std::exchange(pass.sums, nullptr));
    if (pass.weights != nullptr) buffers_->Release(*std::exchange(pass.weights, nullptr));
  }
  FillEnds(pass);
  context_.thread->NoteProgress();
}

void Passes::TileEnded(Pass& pass) {
  if (pass.kind == PassKind::kInitialize) {
    ++initialize_tiles_done_;
    if (initialize_progress_) {
      initialize_progress_(static_cast<double>(initialize_tiles_done_) / initialize_tiles_);
    }
  }
  SPILLWAY_CHECK(pass.tiles_done < pass.tiles_computed);
  if (++pass.tiles_done == pass.num_tiles) PassDone(pass);
}

// Every tile is where it lives.
void Passes::PassDone(Pass& pass) {
  SPILLWAY_CHECK(pass.tiles_done == pass.num_tiles && pass.destination == nullptr);
  if (pass.kind == PassKind::kRound) {
    buffers_->Release(*pass.sums);
    SPILLWAY_CHECK(gradients_to_round_ > 0);
    --gradients_to_round_;
  } else if (pass.kind == PassKind::kMeasure) {
    SPILLWAY_CHECK(units_to_measure_ > 0);
    --units_to_measure_;
  } else if (pass.updates()) {
    buffers_->Settle(pass.unit, pass.version);
  }
  passes_.Remove(pass);
  context_.thread->NoteProgress();
}

// --- Those who wait -------------------------------------------------------------

void Passes::AwaitGradients(GradientTotal* total, Done done) {
  SPILLWAY_CHECK(!gradients_waiter_ && total != nullptr);
  gradients_total_ = total;
  gradients_waiter_ = std::move(done);
}

void Passes::Flush(Done done) {
  SPILLWAY_CHECK(!flush_waiter_);
  flushing_ = true;
  flush_waiter_ = std::move(done);
}

void Passes::AnswerWaiters() {
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
  if (measure_waiter_ && units_to_measure_ == 0) {
    std::exchange(measure_waiter_, nullptr)(absl::OkStatus());
  }
  if (!passes_.empty() || !tiles_.at_rest()) return;
  if (flush_waiter_) {
    flushing_ = false;
    std::exchange(flush_waiter_, nullptr)(absl::OkStatus());
  }
  if (initialize_waiter_) std::exchange(initialize_waiter_, nullptr)(absl::OkStatus());
}

void Passes::FailWaiters(const absl::Status& status) {
  for (Done* waiter : {&gradients_waiter_, &measure_waiter_, &flush_waiter_, &initialize_waiter_}) {
    if (*waiter) std::exchange(*waiter, nullptr)(status);
  }
}

int64_t Passes::newest_version() const {
  const std::vector<int64_t>& settled = buffers_->settled();
  const int64_t newest = settled.empty() ? 0 : *std::max_element(settled.begin(), settled.end());
  return std::max(newest, passes_.newest_version().value_or(0));
}

bool Passes::AnyAwaitedBy(int64_t version) const {
  return passes_.AnySave() || passes_.oldest_version().value_or(kNoVersion) <= version;
}

bool Passes::IsThere(const FirstRead& read, int64_t version) const {
  return first_version_ == version && first_there_ == read;
}

bool Passes::AnyUpdateAfter(int64_t version) const {
  return passes_.newest_version().value_or(0) > version;
}

}  // namespace spillway
