// A command as a shell reads it, for messages and logs. Pure.
#pragma once

#include <string>
#include <vector>

namespace spillway {

// Words with spaces between them, quoted where they need it.
std::string ShellLine(const std::vector<std::string>& words);

}  // namespace spillway
