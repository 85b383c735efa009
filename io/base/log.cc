#include "io/base/log.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "io/base/mutex.h"
#include "io/base/terminal.h"

namespace spillway {
namespace {

TextStyle StyleOf(LogLevel level) {
  return level == LogLevel::kError     ? TextStyle::kError
         : level == LogLevel::kWarning ? TextStyle::kWarning
                                       : TextStyle::kPlain;
}

// Dims the labels of a table's rows.
std::string WithDimLabels(absl::string_view text) {
  std::vector<std::string> lines;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    const size_t label = LabelWidth(line);
    lines.push_back(label == 0 ? std::string(line)
                               : absl::StrCat(Styled(TextStyle::kLabel, line.substr(0, label)),
                                              line.substr(label)));
  }
  return absl::StrJoin(lines, "\n");
}

// The text of a line for a terminal.
std::string ForTerminal(LogLevel level, absl::string_view kind, const std::string& text) {
  const bool colours = UsesColours(/*redraws=*/true);
  if (level < LogLevel::kWarning) {
    // The last column stays free: some terminals break a line that fills it.
    const std::string folded = FoldText(text, TerminalColumns(STDERR_FILENO) - 1);
    return colours ? WithDimLabels(folded) : folded;
  }
  const size_t at = kind.empty() ? std::string::npos : text.find(kind.data(), 0, kind.size());
  if (!colours || at == std::string::npos) return text;
  return absl::StrCat(text.substr(0, at), Styled(StyleOf(level), kind),
                      text.substr(at + kind.size()));
}

// Writes with one call, so that lines of several processes do not mix.
void WriteToStderr(absl::string_view text) { std::fwrite(text.data(), 1, text.size(), stderr); }

class Log {
 public:
  void SetLevel(LogLevel level) { level_.store(level, std::memory_order_relaxed); }

  bool IsLogged(LogLevel level) const { return level >= level_.load(std::memory_order_relaxed); }

  void SetPrefix(absl::string_view prefix) {
    MutexLock lock(mutex_);
    prefix_ = std::string(prefix);
  }

  void ShareTerminal(bool shared) {
    MutexLock lock(mutex_);
    shared_ = shared;
  }

  void Write(LogLevel level, absl::string_view kind, absl::string_view line) {
    if (!IsLogged(level)) return;
    MutexLock lock(mutex_);
    std::string text = ShownText(absl::StrCat(prefix_, kind, line), ShownLines::kRows);
    if (RedrawsStderr()) {
      const bool clears = shared_ || !standing_.empty();
      text = absl::StrCat(clears ? kClearLine : "", ForTerminal(level, kind, text));
    }
    WriteToStderr(absl::StrCat(text, "\n", standing_));
  }

  void Stand(absl::string_view line) {
    MutexLock lock(mutex_);
    std::string shown(line);
    std::replace_if(
        shown.begin(), shown.end(), [](char c) { return c == '\n' || c == '\t'; }, ' ');
    // Escapes are wider than the characters they replace.
    standing_ = std::string(FirstColumns(ShownText(shown), ColumnsOf(shown)));
    // Clears the rest of the line last: a line that is cleared first flickers.
    WriteToStderr(absl::StrCat("\r", standing_, "\x1b[K"));
  }

  void KeepStanding() {
    MutexLock lock(mutex_);
    if (standing_.empty()) return;
    standing_.clear();
    WriteToStderr("\n");
  }

 private:
  std::atomic<LogLevel> level_ = LogLevel::kInfo;
  Mutex mutex_;  // held while a line is written, so that standing_ matches the screen
  std::string prefix_ ABSL_GUARDED_BY(mutex_);
  bool shared_ ABSL_GUARDED_BY(mutex_) = false;   // with other processes
  std::string standing_ ABSL_GUARDED_BY(mutex_);  // the terminal's last line; empty: nothing
};

// Never destroyed: threads may log while the program exits.
Log& TheLog() {
  static Log& log = *new Log;
  return log;
}

}  // namespace

void SetLogLevel(LogLevel level) { TheLog().SetLevel(level); }
bool IsLogged(LogLevel level) { return TheLog().IsLogged(level); }
void ShareTerminal(bool shared) { TheLog().ShareTerminal(shared); }
void SetLogPrefix(absl::string_view prefix) { TheLog().SetPrefix(prefix); }

void LogInfo(absl::string_view line) { TheLog().Write(LogLevel::kInfo, "", line); }
void LogResult(absl::string_view line) { TheLog().Write(LogLevel::kResult, "", line); }
void LogWarning(absl::string_view line) {
  TheLog().Write(LogLevel::kWarning, "spillway: warning: ", line);
}
void LogError(absl::string_view line) {
  TheLog().Write(LogLevel::kError, "spillway: error: ", line);
}

void DrawStandingLine(absl::string_view line) { TheLog().Stand(line); }
void KeepStandingLine() { TheLog().KeepStanding(); }

}  // namespace spillway
