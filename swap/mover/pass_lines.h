// The passes under way, in lines of passes that wait for the same thing: where the first pass of a
// line has to wait, all behind it have to wait, too. So only the first ones are looked at, however
// many units there are.
//
//   updates, measures,     in order, each close behind the one before it
//   first states
//   remaining tiles of     behind all of those, and while they have to wait: the next forward needs
//   an update              other units first
//   streamed updates       in order, beside the others, since they use other resources
//   rounding and saving    wait only for memory, in tile buffers or where the state lives, and
//                          so may overtake an update
//
// A pass without tiles stands in no line: its unit has no parameters, or its update is skipped.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "swap/mover/pass.h"

namespace spillway {

// The mover's thread.
class PassLines {
 public:
  explicit PassLines(int units) : rounds_left_(units) {}

  // Puts a pass at the end of its line; its address does not change until it is removed. REQUIRES:
  // it is routed (Pass::Route), and no tile has begun.
  Pass& Add(Pass pass);
  // REQUIRES: all its tiles have begun.
  void Remove(const Pass& pass);
  bool empty() const { return passes_.empty(); }

  // From now on the updates from complete gradients that have not begun wait in the order of `need`
  // [unit].
  void SortUpdates(const std::vector<int>& need);

  // Calls `begin`, in order, for every pass that may be able to begin a tile. A pass that has not
  // begun all of its tiles afterwards waits, and so does its line.
  void BeginTiles(const std::function<void(Pass&)>& begin);
  // Takes a pass without tiles for which `may_start` is true; null: there is none. The caller
  // removes it next.
  Pass* TakeEmpty(const std::function<bool(const Pass&)>& may_start);

  // Whether a pass that rounds the unit's gradient is left, and whether one that saves or makes the
  // first state is.
  bool AnyRound(int unit) const { return rounds_left_[unit] > 0; }
  bool AnySave() const { return saves_left_ > 0; }
  // The oldest and the newest version that updates under way make; none where there is no update.
  std::optional<int64_t> oldest_version() const;
  std::optional<int64_t> newest_version() const;

  // How often a pass was examined for whether it can start.
  int64_t looks() const { return looks_; }

 private:
  enum Line { kInOrder, kStreamed, kInTileBuffers, kInPlace, kLast, kLines };
  static Line LineOf(const Pass& pass);
  // The line, of those that need not wait, whose first pass is the oldest; kLines: there is none.
  int NextLine(const bool (&waits)[kLines]) const;

  std::map<int64_t, Pass> passes_;  // by number
  int64_t next_number_ = 0;
  std::deque<Pass*> lines_[kLines];         // those with tiles to begin
  std::map<int, std::deque<Pass*>> empty_;  // [unit] those without tiles
  std::deque<int> empty_to_look_at_;        // units whose first pass without tiles may start now
  std::vector<int> rounds_left_;            // [unit]
  std::map<int64_t, int> updates_left_;     // by version
  int saves_left_ = 0;                      // passes that save, or make the first state
  int64_t looks_ = 0;
};

}  // namespace spillway
