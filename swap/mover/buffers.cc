#include "swap/mover/buffers.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "io/base/check.h"
#include "io/base/enum_name.h"

namespace spillway {
namespace {

constexpr uint8_t Bit(BufferState state) { return uint8_t{1} << static_cast<int>(state); }

// The states that may follow each one, as bits. A buffer that is being filled is released only when
// that has ended: until then transfers and workers write to its addresses.
constexpr uint8_t kNext[] = {
    /*kWaiting=*/Bit(BufferState::kAllocated) | Bit(BufferState::kReady) |
        Bit(BufferState::kReleased),
    /*kAllocated=*/Bit(BufferState::kFetching) | Bit(BufferState::kTakingUpdate) |
        Bit(BufferState::kReleased),
    /*kFetching=*/Bit(BufferState::kReady),
    /*kTakingUpdate=*/Bit(BufferState::kReady),
    /*kReady=*/Bit(BufferState::kWriting) | Bit(BufferState::kReleased),
    /*kWriting=*/Bit(BufferState::kReleased),
    /*kReleased=*/0,
};

bool IsFetched(BufferUse use) {
  return use == BufferUse::kWeights || use == BufferUse::kLoadedInput;
}

bool MayBecome(BufferUse use, BufferState from, BufferState to) {
  if ((kNext[static_cast<int>(from)] & Bit(to)) == 0) return false;
  if (from == BufferState::kWaiting && to != BufferState::kReleased) {
    return IsFetched(use) == (to == BufferState::kAllocated);  // the others need no contents
  }
  if (to == BufferState::kTakingUpdate) return use == BufferUse::kWeights;
  return to != BufferState::kWriting || use == BufferUse::kSavedInput;
}

absl::string_view StateName(BufferState state) {
  return EnumName(state, {"waiting", "allocated", "fetching", "taking an update", "ready",
                          "writing", "released"});
}

}  // namespace

void Buffer::Become(BufferState next) {
  if (!MayBecome(use, state_, next)) [[unlikely]] {
    CheckFailed(__FILE__, __LINE__,
                absl::StrCat("a buffer of unit ", unit, ", use ", static_cast<int>(use),
                             ", may not go from ", StateName(state_), " to ", StateName(next))
                    .c_str());
  }
  SPILLWAY_CHECK(next != BufferState::kReady || transfers_left == 0);
  SPILLWAY_CHECK(next != BufferState::kReleased || transfers_left == 0);
  state_ = next;
}

std::vector<int> TileOrder(const std::vector<int>& first, int num_tiles) {
  std::vector<int> order = first;
  for (int tile = 0; tile < num_tiles; ++tile) {
    if (!std::binary_search(first.begin(), first.end(), tile)) order.push_back(tile);
  }
  SPILLWAY_CHECK(order.size() == num_tiles);  // each once
  return order;
}

Buffers::Buffers(const MoverContext& context)
    : context_(context),
      settled_(context.layout.num_units(), 0),
      saved_(context.layout.num_units(), -1) {
  const auto look = [&](const auto& planned) {
    for (const auto& one : planned) most_lead_ops_ = std::max(most_lead_ops_, one.lead_ops);
  };
  look(context.plan.weight_stays);
  look(context.plan.activation_stays);
  look(context.plan.turn_stays);
}

void Buffers::Add(const QueuedProgram& program) {
  SPILLWAY_CHECK(program.num_ops > 0);
  SPILLWAY_CHECK(coming_.empty() || coming_.back()->first_op < program.first_op);
  const size_t begin = coming_.size();
  const auto add = [&](BufferUse use, int unit, int first, int last, int lead,
                       const ArenaSpan& span) -> Buffer& {
    Buffer& buffer = *coming_.emplace_back(std::make_unique<Buffer>());
    buffer.use = use;
    buffer.unit = unit;
    buffer.first_op = program.first_op + first;
    buffer.last_op = program.first_op + std::min(last, program.num_ops - 1);
    buffer.lead_ops = lead;
    buffer.version = program.version;
    buffer.span = span;
    return buffer;
  };
  const bool trains = program.kind == Program::kTrain;
  for (const WeightStay& stay : plan_.weight_stays) {
    if (stay.first_op >= program.num_ops) continue;
    Buffer& buffer =
        add(BufferUse::kWeights, stay.unit, stay.first_op, stay.last_op, stay.lead_ops, stay.span);
    buffer.feeds_update = stay.feeds_update && trains;
    buffer.takes_over = stay.takes_over;
  }
  if (trains) {
    for (const GradientStay& stay : plan_.gradient_stays) {
      add(BufferUse::kSums, stay.unit, stay.first_op, stay.last_op, 0, stay.span);
    }
    for (const ActivationStay& stay : plan_.activation_stays) {
      add(stay.loads ? BufferUse::kLoadedInput : BufferUse::kSavedInput, stay.unit, stay.first_op,
          stay.last_op, stay.lead_ops, stay.span);
    }
    for (size_t i = 0; i < plan_.turn_stays.size(); ++i) {
      const TurnStay& stay = plan_.turn_stays[i];
      add(BufferUse::kTurnTiles, plan_.turn_unit, stay.op, stay.op, stay.lead_ops, stay.span)
          .turn_stay = static_cast<int>(i);
    }
  }
  std::stable_sort(coming_.begin() + begin, coming_.end(),
                   [](const auto& a, const auto& b) { return a->first_op < b->first_op; });
  // An update may still ask for the first read of the program before this one.
  first_reads_.erase(first_reads_.begin(), first_reads_.lower_bound(program.version - 1));
  if (program.first_read.unit >= 0) first_reads_[program.version] = program.first_read;
}

void Buffers::Abandon(const QueuedProgram& program) {
  if (program.first_read.unit >= 0) first_reads_.erase(program.version);
  while (!coming_.empty() && coming_.back()->first_op >= program.first_op) coming_.pop_back();
  for (const auto& buffer : near_) {
    if (buffer->first_op < program.first_op || buffer->abandoned) continue;
    buffer->abandoned = true;
    const BufferState state = buffer->state();
    const bool being_filled =
        state == BufferState::kFetching || state == BufferState::kTakingUpdate;
    if (!being_filled && state != BufferState::kReleased) Release(*buffer);
  }
}

void Buffers::AbandonWaiting() {
  coming_.clear();
  for (const auto& buffer : near_) {
    if (buffer->state() == BufferState::kWaiting) buffer->Become(BufferState::kReleased);
  }
}

void Buffers::Allocate(int64_t next_op, const std::function<void(Buffer&)>& open_turn) {
  std::erase_if(near_,
                [](const auto& buffer) { return buffer->state() == BufferState::kReleased; });
  while (!coming_.empty() && coming_.front()->first_op - most_lead_ops_ <= next_op) {
    near_.push_back(std::move(coming_.front()));
    coming_.pop_front();
  }
  for (size_t i = 0; i < near_.size(); ++i) {
    Buffer& buffer = *near_[i];
    if (buffer.state() != BufferState::kWaiting || buffer.first_op - buffer.lead_ops > next_op) {
      continue;
    }
    if (!AddressesFree(i)) continue;
    if (buffer.use == BufferUse::kTurnTiles) {
      open_turn(buffer);
      continue;
    }
    SPILLWAY_CHECK(buffer.first_op >= next_op);  // the first op that uses it has waited for it
    buffer.Become(IsFetched(buffer.use) ? BufferState::kAllocated : BufferState::kReady);
    if (OnDevice(buffer)) buffer.waits = uses_.Over(buffer.span);
  }
}

// Whether no earlier buffer still holds, or is still to hold, any of these addresses.
bool Buffers::AddressesFree(size_t index) const {
  const Buffer& buffer = *near_[index];
  for (size_t i = 0; i < index; ++i) {
    const Buffer& other = *near_[i];
    if (other.state() == BufferState::kReleased) continue;
    // The update reads the old weights of a tile before it puts the new ones there.
    if (buffer.takes_over && other.feeds_update && other.unit == buffer.unit &&
        other.version + 1 == buffer.version) {
      continue;
    }
    if (buffer.span.Overlaps(other.span)) return false;
  }
  return true;
}

Buffer& Buffers::Find(BufferUse use, int unit, int64_t op) const {
  for (const auto& buffer : near_) {
    if (buffer->use == use && buffer->unit == unit && buffer->first_op <= op &&
        op <= buffer->last_op && !buffer->abandoned) {
      return *buffer;
    }
  }
  SPILLWAY_CHECK(false && "an op uses a unit without a buffer in memory");
  return *near_.front();
}

Buffer* Buffers::FindDestination(int unit, int64_t version) const {
  for (const auto& buffer : near_) {
    if (buffer->use != BufferUse::kWeights || buffer->abandoned || buffer->unit != unit) continue;
    if (buffer->version != version || buffer->state() == BufferState::kReleased) continue;
    return buffer->state() == BufferState::kAllocated ? buffer.get() : nullptr;
  }
  return nullptr;
}

void Buffers::Release(Buffer& buffer) {
  if (OnDevice(buffer)) LeaveAddresses(buffer);
  buffer.Become(BufferState::kReleased);
  buffer.transfers.clear();
}

void Buffers::Settle(int unit, int64_t version) {
  SPILLWAY_CHECK(!context_.layout.frozen(unit) && settled_[unit] == version - 1);
  settled_[unit] = version;
}

void Buffers::SaveInput(int unit, int64_t version) {
  SPILLWAY_CHECK(saved_[unit] < version);
  saved_[unit] = version;
}

void Buffers::WaitForAddresses(Buffer& buffer, StreamId stream) {
  SPILLWAY_CHECK(buffer.state() != BufferState::kWaiting &&
                 buffer.state() != BufferState::kReleased);
  buffer.used = true;
  for (const DeviceEvent& event : std::exchange(buffer.waits, {})) {
    context_.lane->Wait(stream, event);
  }
}

// The next owner of the addresses waits for the uses of this buffer.
void Buffers::LeaveAddresses(Buffer& buffer) {
  if (!buffer.used) return;
  std::vector<DeviceEvent> after;
  for (const DeviceEvent& event : {buffer.filled, buffer.last_use}) {
    if (event != nullptr) after.push_back(event);
  }
  // Between two steps another buffer may have them already, with the new weights in it.
  Buffer* successor = nullptr;
  for (const auto& other : near_) {
    if (other->takes_over && buffer.feeds_update && other->unit == buffer.unit &&
        other->version == buffer.version + 1 && other->state() != BufferState::kWaiting) {
      successor = other.get();
    }
  }
  if (successor != nullptr && successor->used) return;
  if (DeviceEvent discarded =
          context_.lane->Discard(context_.Address(buffer.span), buffer.span.bytes, after)) {
    after.push_back(std::move(discarded));
  }
  uses_.Note(buffer.span, std::move(after));
  if (successor != nullptr) successor->waits = uses_.Over(buffer.span);
}

const std::vector<int>* Buffers::FirstTiles(int unit, int64_t version) const {
  const auto read = first_reads_.find(version);
  return read != first_reads_.end() && read->second.unit == unit ? &read->second.tiles : nullptr;
}

bool Buffers::CanFetch(const Buffer& buffer) const {
  return buffer.use == BufferUse::kWeights ? Holds(buffer.unit, buffer.version)
                                           : saved_[buffer.unit] == buffer.version;
}

}  // namespace spillway
