// Log lines on stderr, one line each: "spillway: warning: ...".
// Progress and logs never go to stdout, which belongs to answers (--json).
// On a terminal information is folded to its width; warnings and errors stay whole, so that a
// command in them can be copied, and begin in yellow and red. Any thread.
#pragma once

#include "absl/strings/string_view.h"

namespace spillway {

// kResult: the result of a command, shown with --quiet, too.
enum class LogLevel { kInfo, kResult, kWarning, kError };

// Lines below `level` are dropped. Default: kInfo.
void SetLogLevel(LogLevel level);
bool IsLogged(LogLevel level);

// Sets the prefix of every later line, e.g. "rank 2: ". Empty by default.
void SetLogPrefix(absl::string_view prefix);

// Sets whether another process draws a standing line on this terminal, which log lines then clear.
void ShareTerminal(bool shared);

void LogInfo(absl::string_view line);
void LogResult(absl::string_view line);
void LogWarning(absl::string_view line);
void LogError(absl::string_view line);

// Draws or replaces the standing line: the terminal's last line, above which log lines appear. It
// must be narrower than the terminal. REQUIRES: RedrawsStderr().
void DrawStandingLine(absl::string_view line);
// Leaves the standing line on the terminal as it is and starts a new line.
void KeepStandingLine();

}  // namespace spillway
