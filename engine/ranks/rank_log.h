// The log of each of several ranks: rank 0 logs everything, every other one only warnings and
// errors, with its rank in front.
#pragma once

#include <string>

#include "engine/ranks/launch_environment.h"

namespace spillway {

// Returns "rank 3: ", which precedes every line of a rank but the first.
std::string RankPrefix(int rank);

// Sets the log of this process: rank r > 0 logs only warnings and errors, prefixed, and shows no
// progress. Rank 0 is unchanged. REQUIRES: no other thread logs yet.
void SetUpRankLog(const Launch& launch);

}  // namespace spillway
