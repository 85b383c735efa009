#include "engine/base/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "io/base/clock.h"
#include "io/base/log.h"

namespace spillway {
std::string FormatDuration(double seconds) {
  const int64_t s = static_cast<int64_t>(seconds + 0.5);
  if (s >= 3600) return absl::StrFormat("%dh%02dm", s / 3600, s % 3600 / 60);
  if (s >= 60) return absl::StrFormat("%dm%02ds", s / 60, s % 60);
  return absl::StrFormat("%ds", s);
}

Progress::Progress(std::string label, int64_t total, int64_t start)
    : label_(std::move(label)),
      total_(total),
      start_(start),
      terminal_(isatty(STDERR_FILENO) && IsLogged(LogLevel::kInfo)),
      began_(MonotonicSeconds()) {}

Progress::~Progress() {
  if (terminal_ && lines_ > 0) std::fprintf(stderr, "\n");
}

void Progress::Update(int64_t done, const std::string& details) {
  const double now = MonotonicSeconds();
  // A log file gets a line every few seconds, more rarely as the run gets long.
  const double quiet = terminal_ ? 0.1 : std::clamp((now - began_) / 20, 5.0, 60.0);
  if (done < total_ && lines_ > 0 && now - printed_ < quiet) return;
  Print(done, details, now);
  printed_ = now;
  ++lines_;
}

void Progress::Clear() {
  if (terminal_ && lines_ > 0) std::fprintf(stderr, "\r\x1b[K");
}

void Progress::Print(int64_t done, const std::string& details, double now) {
  const double elapsed = now - began_;
  const double left =
      done > start_ ? elapsed / static_cast<double>(done - start_) * (total_ - done) : 0;
  std::string line = label_;
  if (terminal_) {
    const int filled = total_ > 0 ? static_cast<int>(30 * done / total_) : 30;
    absl::StrAppend(&line, " [", std::string(filled, '#'), std::string(30 - filled, '.'), "]");
  }
  absl::StrAppend(&line, " ", done, "/", total_);
  if (!details.empty()) absl::StrAppend(&line, "  ", details);
  absl::StrAppend(&line, done < total_ ? "  left " : "  took ",
                  FormatDuration(done < total_ ? left : elapsed));
  if (terminal_) {
    std::fprintf(stderr, "\r%s\x1b[K", line.c_str());
  } else {
    LogInfo(line);
  }
}

}  // namespace spillway
