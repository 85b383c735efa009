// The directories of ranks that a run had and has no more.
#pragma once

#include <string>
#include <vector>

#include "io/file_system.h"

namespace spillway {

// Removes OUTPUT/ranks/r for every r from `ranks` on, with its swap below `parents` and where its
// commit has it. Warns of what stays. REQUIRES: no commit needs them.
void RemoveFormerRanks(const std::string& output, int ranks,
                       const std::vector<std::string>& parents, FileSystem& files);

}  // namespace spillway
