// What goes wrong on a simulated disk: which faults a seed has in store, and when.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tests/sim/sim_world.h"

namespace spillway {

enum class SimFault : uint8_t {
  // Part of every day: nobody may notice.
  kSlow,
  kInterrupted,  // EINTR
  kAgain,        // EAGAIN
  kShort,
  // Refusals: an error that names the file, and the last commit still opens.
  kReadError,       // EIO of a transfer
  kWriteError,      // EIO or ENOSPC of a transfer
  kSyncError,       // EIO of fdatasync; the next one succeeds, and the bytes are lost
  kReserveNoSpace,  // ENOSPC of fallocate
  kCreateError,     // ENOSPC
  kAppendNoSpace,   // ENOSPC in the middle of a small file
  kRenameError,     // EIO
  kDirectorySync,   // EIO
  kOpenError,       // EIO
  kReadSmallError,  // EIO
  // Lies: the bytes are not what was written. Noticed before anybody computes with them.
  kFlippedOnMedium,
  kFlippedInTransfer,  // of a read: the medium is right
  kFlippedAtRest,      // some time after the write
  kMisdirected,        // written somewhere else
  kLost,               // acknowledged, never there
  kStale,              // a read gives what was there before
  // The same of a sector of a small file, a manifest.
  kSmallFileFlipped,  // in a read
  kSmallFileMisdirected,
  kSmallFileLost,
  kSmallFileStale,
};
inline constexpr int kSimFaults = static_cast<int>(SimFault::kSmallFileStale) + 1;
const char* SimFaultName(SimFault fault);
inline bool IsRefusal(SimFault f) {
  return f >= SimFault::kReadError && f < SimFault::kFlippedOnMedium;
}
inline bool IsLie(SimFault f) { return f >= SimFault::kFlippedOnMedium; }
// A lie of which the medium keeps something: it may be found at any time. Of the others nothing is
// left when the call is over.
inline bool Damages(SimFault f) {
  return f == SimFault::kFlippedOnMedium || f == SimFault::kFlippedAtRest ||
         f == SimFault::kMisdirected || f == SimFault::kLost ||
         f == SimFault::kSmallFileMisdirected || f == SimFault::kSmallFileLost;
}

using SimFaultCounts = std::array<uint64_t, kSimFaults>;

class SimFaults {
 public:
  explicit SimFaults(SimWorld& world);

  // Arms a fault for its n-th opportunity, counted from 0, among those to come.
  void Arm(SimFault fault, uint64_t after);
  void DisarmAll() { armed_.clear(); }

  // The everyday ones: whether this opportunity is one. By chance, at rates of the seed.
  bool Happens(SimFault everyday);
  // The armed ones: counts the opportunity, and tells whether the fault strikes now.
  bool Strikes(SimFault fault);

  const SimFaultCounts& counts() const { return counts_; }
  uint64_t refusals() const { return refusals_; }
  uint64_t lies() const { return lies_; }
  bool damaged() const { return damaged_; }
  // The lie that has struck, where it was of one kind and no bytes were lost otherwise.
  std::optional<SimFault> only_lie() const;
  // Which were in, for the report of a seed that fails.
  std::string Summary() const;

 private:
  struct Armed {
    SimFault fault;
    uint64_t after;
  };
  void Note(SimFault fault);

  SimWorld& world_;
  std::array<uint64_t, 4> every_;  // [everyday fault] one in so many; 0: never
  std::vector<Armed> armed_;
  SimFaultCounts counts_ = {};
  uint64_t refusals_ = 0;
  uint64_t lies_ = 0;
  bool damaged_ = false;
};

}  // namespace spillway
