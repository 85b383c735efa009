// Formats a command as a shell reads it, for messages and logs. Pure.
#pragma once

#include <string>
#include <vector>

namespace spillway {

// The words separated by spaces, quoted if necessary.
std::string ShellLine(const std::vector<std::string>& words);

}  // namespace spillway
