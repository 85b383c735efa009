// The passes under way, in lines of those that wait for the same: where the first of a line has to
// wait, so have all behind it. So only first ones are looked at, however many units there are.
//
//   updates, what is measured  in order, each close behind the one before it
//   for them, and first states
//   what is left of an update  behind all of those, and where they have to wait: the forward that
//                              follows needs other units first
//   staged updates             likewise: they use nothing that the others do
//   rounding and saving        wait for nothing but memory, in tile buffers or where they are, and
//                              so may overtake an update
//
// A pass without tiles stands in none of them: its unit has no parameters, or its update is
// skipped.
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

  // At the end of its line; in place until it is removed. REQUIRES: it is routed.
  Pass& Add(Pass pass);
  // REQUIRES: all its tiles have begun.
  void Remove(const Pass& pass);
  bool empty() const { return passes_.empty(); }

  // Updates from complete gradients that have not begun wait in the order of `need` [unit] from now
  // on.
  void SortUpdates(const std::vector<int>& need);

  // Calls `begin` for every pass that may be able to begin a tile, in order. One of which it has
  // not begun all tiles has to wait.
  void BeginTiles(const std::function<void(Pass&)>& begin);
  // A pass without tiles that `may_start`; null: there is none. It is removed next.
  Pass* TakeEmpty(const std::function<bool(const Pass&)>& may_start);

  // Of the unit's gradient.
  bool AnyRound(int unit) const { return rounds_left_[unit] > 0; }
  bool AnySave() const { return saves_left_ > 0; }
  // The versions that updates are to make; none where there is no update.
  std::optional<int64_t> oldest_version() const;
  std::optional<int64_t> newest_version() const;

  // How often a pass has been looked at, whether it can start.
  int64_t looks() const { return looks_; }

 private:
  enum Line { kInOrder, kStaged, kInTileBuffers, kInPlace, kLast, kLines };
  static Line LineOf(const Pass& pass);
  // Of those that need not wait, the one whose first pass comes first; kLines: there is none.
  int NextLine(const bool (&waits)[kLines]) const;

  std::map<int64_t, Pass> passes_;  // by number
  int64_t next_number_ = 0;
  std::deque<Pass*> lines_[kLines];         // those with tiles to begin
  std::map<int, std::deque<Pass*>> empty_;  // [unit] those without tiles
  std::deque<int> empty_to_look_at_;        // units of which the first of these may start now
  std::vector<int> rounds_left_;            // [unit]
  std::map<int64_t, int> updates_left_;     // by version
  int saves_left_ = 0;                      // and first states
  int64_t looks_ = 0;
};

}  // namespace spillway
