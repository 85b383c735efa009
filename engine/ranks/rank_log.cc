#include "engine/ranks/rank_log.h"

#include "absl/strings/str_cat.h"
#include "io/base/log.h"

namespace spillway {

std::string RankPrefix(int rank) { return absl::StrCat("rank ", rank, ": "); }

void SetUpRankLog(const Launch& launch) {
  if (launch.rank == 0) return;
  SetLogPrefix(RankPrefix(launch.rank));
  SetLogLevel(LogLevel::kWarning);
  ShareTerminal(true);
}

}  // namespace spillway
