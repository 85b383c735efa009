// Progress on stderr. On a terminal it is one line, redrawn and never wrapped; elsewhere plain
// lines at a modest rate. Nothing is shown if the log drops information (ranks but the first,
// --quiet).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace spillway {

// "1h02m", "3m20s", "45s".
std::string FormatDuration(double seconds);

// "0.954 s", "12.3 s"; from 100 s on as in FormatDuration.
std::string SecondsText(double seconds);

// Rates of any size: "0.42", "7.5", "980", "1.4k", "14k", "2.5M".
std::string FormatRate(double value);

// Priority of a part on a narrow terminal: the least important part is dropped first.
enum class Importance { kLeast, kLess, kMinor, kBar, kMore, kTime, kMost };

// A part of the line between count and time.
struct ProgressDetail {
  std::string text;
  Importance importance = Importance::kMore;
};

struct ProgressParts {
  std::string label;  // "step"
  int64_t done = 0, total = 0;
  std::vector<ProgressDetail> details;
  std::string time;  // "2m10s left"; empty: not known
};

// The line for a log file: every part, no bar.
std::string ProgressText(const ProgressParts& parts);

// The line for a terminal, narrower than `columns`, so that it does not wrap: first the bar shrinks
// (from 30 characters to 5), then parts, the bar included, are dropped, then the line is cut. A
// pure function.
std::string ProgressLine(const ProgressParts& parts, int columns);

// The output of progress and its clock; replaced in tests.
struct ProgressScreen {
  std::function<double()> now;                     // seconds
  std::function<int()> columns;                    // of the terminal; null: a log file
  std::function<void(const std::string&)> draw;    // redraws the terminal's line
  std::function<void()> keep;                      // leaves the line as it is and starts a new one
  std::function<void(const std::string&)> append;  // a line of a log file
};
// Standard error with its current properties.
ProgressScreen StderrScreen();

// One phase of work, 0 to `total`. One thread at a time. Several may be active: on a terminal the
// one updated last has the line.
class Progress {
 public:
  // `label` starts every line: "training", "writing the initial state". `began`: start time by
  // MonotonicSeconds, if earlier than now.
  Progress(std::string label, int64_t total, std::optional<double> began = std::nullopt,
           ProgressScreen screen = StderrScreen());
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // A terminal's line is redrawn at most ten times a second, except for the last update.
  void Update(int64_t done, std::vector<ProgressDetail> details = {});

 private:
  std::string TimeText(int64_t done, double now) const;

  const ProgressScreen screen_;
  const std::string label_;
  const int64_t total_;
  const double began_;
  // Time and count of the first update; the time left is estimated from the progress since.
  std::optional<double> first_time_;
  int64_t first_done_ = 0;
  std::optional<double> shown_;  // time of the last redraw
};

}  // namespace spillway
