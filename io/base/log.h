// Log lines on stderr, one line each: "spillway: warning: ...".
// Progress and logs never go to stdout, which belongs to answers (--json).
// Any thread.
#pragma once

#include "absl/strings/string_view.h"

namespace spillway {

enum class LogLevel { kInfo, kWarning, kError };

// Lines below `level` are dropped. Default: kInfo.
void SetLogLevel(LogLevel level);
bool IsLogged(LogLevel level);

// Put before every later line, e.g. "rank 2: ". Empty by default.
void SetLogPrefix(absl::string_view prefix);

void LogInfo(absl::string_view line);
void LogWarning(absl::string_view line);
void LogError(absl::string_view line);

}  // namespace spillway
