#include "tests/sim/sim_faults.h"

#include "absl/strings/str_cat.h"

namespace spillway {

const char* SimFaultName(SimFault fault) {
  switch (fault) {
    case SimFault::kSlow:
      return "slow";
    case SimFault::kInterrupted:
      return "EINTR";
    case SimFault::kAgain:
      return "EAGAIN";
    case SimFault::kShort:
      return "short transfer";
    case SimFault::kReadError:
      return "EIO of a read";
    case SimFault::kWriteError:
      return "EIO or ENOSPC of a write";
    case SimFault::kSyncError:
      return "EIO of fdatasync";
    case SimFault::kReserveNoSpace:
      return "ENOSPC of fallocate";
    case SimFault::kCreateError:
      return "ENOSPC of a creation";
    case SimFault::kAppendNoSpace:
      return "ENOSPC in a small file";
    case SimFault::kRenameError:
      return "EIO of rename";
    case SimFault::kDirectorySync:
      return "EIO of a directory's fsync";
    case SimFault::kOpenError:
      return "EIO of open";
    case SimFault::kReadSmallError:
      return "EIO of a small file";
    case SimFault::kFlippedOnMedium:
      return "bit flipped on the medium";
    case SimFault::kFlippedInTransfer:
      return "bit flipped in a read";
    case SimFault::kFlippedAtRest:
      return "bit flipped at rest";
    case SimFault::kMisdirected:
      return "misdirected write";
    case SimFault::kLost:
      return "lost write";
    case SimFault::kStale:
      return "stale read";
    case SimFault::kSmallFileFlipped:
      return "bit flipped in a small file";
    case SimFault::kSmallFileMisdirected:
      return "misdirected write of a small file";
    case SimFault::kSmallFileLost:
      return "lost write of a small file";
    case SimFault::kSmallFileStale:
      return "stale read of a small file";
  }
  return "?";
}

SimFaults::SimFaults(SimWorld& world) : world_(world) {
  for (uint64_t& every : every_) every = world.random().OneIn(3) ? 0 : 4 << world.random().Below(6);
}

void SimFaults::Arm(SimFault fault, uint64_t after) { armed_.push_back({fault, after}); }

void SimFaults::Note(SimFault fault) {
  ++counts_[static_cast<int>(fault)];
  if (IsRefusal(fault)) ++refusals_;
  if (IsLie(fault)) ++lies_;
  damaged_ |= Damages(fault);
  world_.Trace(SimFaultName(fault));
}

bool SimFaults::Happens(SimFault everyday) {
  const uint64_t every = every_[static_cast<int>(everyday)];
  if (every == 0 || !world_.random().OneIn(every)) return false;
  Note(everyday);
  return true;
}

bool SimFaults::Strikes(SimFault fault) {
  for (size_t i = 0; i < armed_.size(); ++i) {
    if (armed_[i].fault != fault) continue;
    if (armed_[i].after-- > 0) continue;
    armed_.erase(armed_.begin() + static_cast<ptrdiff_t>(i));
    Note(fault);
    return true;
  }
  return false;
}

std::optional<SimFault> SimFaults::only_lie() const {
  std::optional<SimFault> found;
  if (counts_[static_cast<int>(SimFault::kSyncError)] > 0) return found;
  for (int i = 0; i < kSimFaults; ++i) {
    const auto fault = static_cast<SimFault>(i);
    if (counts_[i] == 0 || !IsLie(fault)) continue;
    if (found) return std::nullopt;
    found = fault;
  }
  return found;
}

std::string SimFaults::Summary() const {
  std::string text;
  for (int i = 0; i < kSimFaults; ++i) {
    if (counts_[i] == 0) continue;
    absl::StrAppend(&text, text.empty() ? "" : ", ", counts_[i], " x ",
                    SimFaultName(static_cast<SimFault>(i)));
  }
  return text.empty() ? "none" : text;
}

}  // namespace spillway
