#include "engine/base/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "io/base/clock.h"
#include "io/base/log.h"
#include "io/base/terminal.h"

namespace spillway {
namespace {

constexpr int kLeastBar = 5, kMostBar = 30;
constexpr int kBrackets = 3;  // and the space before them
constexpr double kRedrawSeconds = 0.1;

std::string Count(const ProgressParts& parts) {
  return absl::StrCat(parts.label, " ", parts.done, "/", parts.total);
}

std::string Bar(const ProgressParts& parts, int cells) {
  const double part = parts.total > 0 ? static_cast<double>(parts.done) / parts.total : 1;
  const int filled = std::clamp(static_cast<int>(cells * part), 0, cells);
  return absl::StrCat(" [", std::string(filled, '#'), std::string(cells - filled, '.'), "]");
}

// Everything after the bar with at least this importance.
std::string Tail(const ProgressParts& parts, Importance least) {
  std::string text;
  for (const ProgressDetail& detail : parts.details) {
    if (detail.importance >= least && !detail.text.empty()) {
      absl::StrAppend(&text, "  ", detail.text);
    }
  }
  if (!parts.time.empty() && Importance::kTime >= least) absl::StrAppend(&text, "  ", parts.time);
  return text;
}

}  // namespace

std::string FormatDuration(double seconds) {
  const int64_t s = static_cast<int64_t>(seconds + 0.5);
  if (s >= 3600) return absl::StrFormat("%dh%02dm", s / 3600, s % 3600 / 60);
  if (s >= 60) return absl::StrFormat("%dm%02ds", s / 60, s % 60);
  return absl::StrFormat("%ds", s);
}

std::string SecondsText(double seconds) {
  return seconds < 100 ? absl::StrFormat("%.3g s", seconds) : FormatDuration(seconds);
}

std::string FormatRate(double value) {
  constexpr std::pair<double, const char*> kUnits[] = {{1e9, "G"}, {1e6, "M"}, {1e3, "k"}};
  for (const auto& [size, name] : kUnits) {
    // 999.5 is shown as 1.0k.
    if (value < 0.9995 * size) continue;
    return absl::StrFormat("%.*f%s", value < 9.95 * size ? 1 : 0, value / size, name);
  }
  return absl::StrFormat("%.*f", value < 0.995 ? 2 : value < 9.95 ? 1 : 0, value);
}

std::string ProgressText(const ProgressParts& parts) {
  return Count(parts) + Tail(parts, Importance::kLeast);
}

std::string ProgressLine(const ProgressParts& parts, int columns) {
  // The last column stays free: some terminals break a line that fills it.
  const int room = std::max(0, columns - 1);
  const std::string count = Count(parts);
  for (Importance least = Importance::kLeast; least <= Importance::kMost;
       least = static_cast<Importance>(static_cast<int>(least) + 1)) {
    const std::string tail = Tail(parts, least);
    const int cells = room - kBrackets - ColumnsOf(count) - ColumnsOf(tail);
    if (least <= Importance::kBar && cells >= kLeastBar) {
      return absl::StrCat(count, Bar(parts, std::min(cells, kMostBar)), tail);
    }
    if (least > Importance::kBar && cells + kBrackets >= 0) return count + tail;
  }
  return std::string(FirstColumns(count, room));
}

ProgressScreen StderrScreen() {
  ProgressScreen screen;
  screen.now = MonotonicSeconds;
  screen.append = [](const std::string& line) { LogInfo(line); };
  if (!RedrawsStderr()) return screen;
  screen.columns = [] { return TerminalColumns(STDERR_FILENO); };
  screen.draw = [](const std::string& line) {
    if (IsLogged(LogLevel::kInfo)) DrawStandingLine(line);
  };
  screen.keep = KeepStandingLine;
  return screen;
}

Progress::Progress(std::string label, int64_t total, std::optional<double> began,
                   ProgressScreen screen)
    : screen_(std::move(screen)),
      label_(std::move(label)),
      total_(total),
      began_(began.value_or(screen_.now())) {}

Progress::~Progress() {
  if (screen_.columns && shown_) screen_.keep();
}

void Progress::Update(int64_t done, std::vector<ProgressDetail> details) {
  const double now = screen_.now();
  if (!first_time_) {
    first_time_ = now;
    first_done_ = done;
  }
  // A log file gets a line every few seconds, less often in a long run.
  const double quiet =
      screen_.columns ? kRedrawSeconds : std::clamp((now - began_) / 20, 5.0, 60.0);
  if (done < total_ && shown_ && now - *shown_ < quiet) return;
  shown_ = now;
  const ProgressParts parts = {label_, done, total_, std::move(details), TimeText(done, now)};
  if (screen_.columns) {
    screen_.draw(ProgressLine(parts, screen_.columns()));
  } else {
    screen_.append(ProgressText(parts));
  }
}

std::string Progress::TimeText(int64_t done, double now) const {
  if (done >= total_) return absl::StrCat("took ", FormatDuration(now - began_));
  const double elapsed = now - *first_time_;
  if (done <= first_done_ || elapsed <= 0) return "";
  const double left =
      elapsed / static_cast<double>(done - first_done_) * static_cast<double>(total_ - done);
  return absl::StrCat(FormatDuration(left), " left");
}

}  // namespace spillway
