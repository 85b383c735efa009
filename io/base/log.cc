#include "io/base/log.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <string>

#include "absl/strings/str_cat.h"
#include "io/base/mutex.h"

namespace spillway {
namespace {

bool IsControl(char c) {
  return (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t') || c == 0x7f;
}

class Log {
 public:
  void SetLevel(LogLevel level) { level_.store(level, std::memory_order_relaxed); }

  bool IsLogged(LogLevel level) const { return level >= level_.load(std::memory_order_relaxed); }

  void SetPrefix(absl::string_view prefix) {
    MutexLock lock(mutex_);
    prefix_ = std::string(prefix);
  }

  void Write(LogLevel level, absl::string_view kind, absl::string_view line) {
    if (!IsLogged(level)) return;
    std::string text;
    {
      MutexLock lock(mutex_);
      text = absl::StrCat(prefix_, kind, line);
    }
    // What a file has in it must not command the terminal.
    std::replace_if(text.begin(), text.end(), IsControl, '?');
    // One call, so that lines of several threads, and processes, are not mixed.
    text += '\n';
    std::fwrite(text.data(), 1, text.size(), stderr);
  }

 private:
  std::atomic<LogLevel> level_ = LogLevel::kInfo;
  Mutex mutex_;
  std::string prefix_ ABSL_GUARDED_BY(mutex_);
};

// Never destroyed: threads may log while the program ends.
Log& TheLog() {
  static Log& log = *new Log;
  return log;
}

}  // namespace

void SetLogLevel(LogLevel level) { TheLog().SetLevel(level); }
bool IsLogged(LogLevel level) { return TheLog().IsLogged(level); }
void SetLogPrefix(absl::string_view prefix) { TheLog().SetPrefix(prefix); }

void LogInfo(absl::string_view line) { TheLog().Write(LogLevel::kInfo, "", line); }
void LogWarning(absl::string_view line) {
  TheLog().Write(LogLevel::kWarning, "spillway: warning: ", line);
}
void LogError(absl::string_view line) {
  TheLog().Write(LogLevel::kError, "spillway: error: ", line);
}

}  // namespace spillway
