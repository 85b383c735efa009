#include "swap/mover/pass_lines.h"

#include <algorithm>
#include <utility>

#include "io/base/check.h"

namespace spillway {

PassLines::Line PassLines::LineOf(const Pass& pass) {
  if (pass.reads_state() || pass.kind == PassKind::kInitialize) {
    return pass.streamed ? kStreamed : kInOrder;
  }
  return pass.needs_tile_buffer ? kInTileBuffers : kInPlace;
}

Pass& PassLines::Add(Pass added) {
  SPILLWAY_CHECK(added.num_tiles >= 0 && added.next_tile == 0);
  added.number = next_number_++;
  Pass& pass = passes_[added.number] = std::move(added);
  if (pass.num_tiles > 0) {
    lines_[LineOf(pass)].push_back(&pass);
  } else {
    empty_[pass.unit].push_back(&pass);
    empty_to_look_at_.push_back(pass.unit);
  }
  if (pass.updates()) {
    ++updates_left_[pass.version];
  } else if (pass.kind != PassKind::kMeasure) {
    ++(pass.kind == PassKind::kRound ? rounds_left_[pass.unit] : saves_left_);
  }
  return pass;
}

void PassLines::Remove(const Pass& pass) {
  const int unit = pass.unit;
  SPILLWAY_CHECK(pass.all_begun());
  if (pass.updates()) {
    const auto left = updates_left_.find(pass.version);
    SPILLWAY_CHECK(left != updates_left_.end());
    if (--left->second == 0) updates_left_.erase(left);
  } else if (pass.kind != PassKind::kMeasure) {
    int& left = pass.kind == PassKind::kRound ? rounds_left_[unit] : saves_left_;
    SPILLWAY_CHECK(left > 0);
    --left;
  }
  SPILLWAY_CHECK(passes_.erase(pass.number) == 1);
  // It may have been what one of its unit waits for.
  if (empty_.count(unit) > 0) empty_to_look_at_.push_back(unit);
}

void PassLines::SortUpdates(const std::vector<int>& need) {
  SPILLWAY_CHECK(need.size() == rounds_left_.size());
  std::deque<Pass*>& line = lines_[kInOrder];
  const auto waits = [](const Pass* pass) { return !pass->begun && pass->sums != nullptr; };
  const auto first = std::find_if(line.begin(), line.end(), waits);
  const auto last = std::find_if_not(first, line.end(), waits);
  std::stable_sort(first, last,
                   [&](const Pass* a, const Pass* b) { return need[a->unit] < need[b->unit]; });
}

void PassLines::BeginTiles(const std::function<void(Pass&)>& begin) {
  bool waits[kLines] = {};
  for (int line = NextLine(waits); line != kLines; line = NextLine(waits)) {
    Pass& pass = *lines_[line].front();
    SPILLWAY_CHECK(!pass.all_begun());  // else it had left the line
    ++looks_;
    begin(pass);
    const bool goes_last = line == kInOrder && !pass.all_begun() && pass.MayGoLast();
    if (goes_last) {
      pass.goes_last = true;
      lines_[kLast].push_back(&pass);
    }
    waits[line] = !goes_last && !pass.all_begun();
    if (!waits[line]) lines_[line].pop_front();
  }
}

int PassLines::NextLine(const bool (&waits)[kLines]) const {
  int next = kLines;
  for (int line = 0; line < kLines; ++line) {
    if (waits[line] || lines_[line].empty()) continue;
    if (line == kLast && next != kLines) continue;
    const int64_t number = lines_[line].front()->number;
    if (next == kLines || number < lines_[next].front()->number) next = line;
  }
  return next;
}

Pass* PassLines::TakeEmpty(const std::function<bool(const Pass&)>& may_start) {
  while (!empty_to_look_at_.empty()) {
    const auto line = empty_.find(empty_to_look_at_.front());
    empty_to_look_at_.pop_front();
    if (line == empty_.end()) continue;
    Pass* const pass = line->second.front();
    ++looks_;
    if (!may_start(*pass)) continue;
    line->second.pop_front();
    if (line->second.empty()) empty_.erase(line);
    return pass;
  }
  return nullptr;
}

std::optional<int64_t> PassLines::oldest_version() const {
  if (updates_left_.empty()) return std::nullopt;
  return updates_left_.begin()->first;
}

std::optional<int64_t> PassLines::newest_version() const {
  if (updates_left_.empty()) return std::nullopt;
  return updates_left_.rbegin()->first;
}

}  // namespace spillway
