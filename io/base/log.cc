#include "io/base/log.h"

// Debian's spdlog leans on an external fmt, which has to be header-only as well.
#ifndef FMT_HEADER_ONLY
#define FMT_HEADER_ONLY
#endif
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <atomic>
#include <memory>
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
    // The one-argument overload: braces in the line are text, not a format.
    logger_.log(spdlog::level::info, spdlog::string_view_t(text));
  }

 private:
  static spdlog::logger MakeLogger() {
    spdlog::logger logger("spillway", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    logger.set_pattern("%v");
    return logger;
  }

  spdlog::logger logger_ = MakeLogger();
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

void LogDebug(absl::string_view line) {
  TheLog().Write(LogLevel::kDebug, "spillway: debug: ", line);
}
void LogInfo(absl::string_view line) { TheLog().Write(LogLevel::kInfo, "", line); }
void LogWarning(absl::string_view line) {
  TheLog().Write(LogLevel::kWarning, "spillway: warning: ", line);
}
void LogError(absl::string_view line) {
  TheLog().Write(LogLevel::kError, "spillway: error: ", line);
}

}  // namespace spillway
