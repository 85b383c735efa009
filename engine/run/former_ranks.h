// Removes the directories of ranks that a run no longer has.
#pragma once

#include <string>
#include <vector>

#include "io/file_system.h"

namespace spillway {

// Removes OUTPUT/ranks/r for every r from `ranks` on, with its swap below `parents` and at the
// paths in its commit. Warns of what cannot be removed. REQUIRES: no commit needs them.
void RemoveFormerRanks(const std::string& output, int ranks,
                       const std::vector<std::string>& parents, FileSystem& files);

}  // namespace spillway
