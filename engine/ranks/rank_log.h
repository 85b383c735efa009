// Who says what where several ranks run: rank 0 talks to people, every other one is silent but
// for warnings and errors, which say whose they are.
#pragma once

#include <string>

#include "engine/ranks/launch_environment.h"

namespace spillway {

// "rank 3: ", before all that is not rank 0's.
std::string RankPrefix(int rank);

// Of this process, from now on: rank r > 0 logs warnings and errors alone, prefixed, and shows no
// progress. Nothing changes for rank 0. Before other threads log.
void SetUpRankLog(const Launch& launch);

}  // namespace spillway
