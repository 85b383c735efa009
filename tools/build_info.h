// Which sources this program was built from, and how. Any thread. CMake writes the source with the
// values of one build (cmake/SpillwayBuildCommit.cmake), so that every other source compiles alike
// in all of them.
#pragma once

#include <string>
#include <vector>

#include "engine/options/run_origin.h"

namespace spillway {

// "0.1.0".
const char* Version();
// "54cd008c1a2b", with "+" behind it if the sources were changed since; "unknown" where they were
// in no Git repository.
const char* BuildCommit();
// "Release, GCC 12.2.0, without CUDA".
const char* BuildKind();
// False: there is no GPU for this program, and nothing needs to be opened to know that.
bool BuiltWithCuda();
// The LibTorch that it was built with: "2.11.0".
const char* TorchVersion();

// "spillway 0.1.0 (54cd008c1a2b; Release, GCC 12.2.0, without CUDA)".
std::string VersionText();

// This build, started with `arguments`.
void SetCommandLine(std::vector<std::string> arguments);
RunOrigin ThisRunOrigin();

}  // namespace spillway
