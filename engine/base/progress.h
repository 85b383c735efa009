// Progress on stderr: one line on a terminal, drawn again and again and never wrapped; plain lines
// at a modest rate elsewhere; nothing where the log drops information (a rank that is not the
// first, --quiet).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace spillway {

// "1h02m", "3m20s", "45s".
std::string FormatDuration(double seconds);

// "0.954 s", "12.3 s", and from 100 on as FormatDuration has it.
std::string SecondsText(double seconds);

// "0.42", "7.5", "980", "1.4k", "14k", "2.5M": for rates of any size.
std::string FormatRate(double value);

// How long a part stays on a narrow terminal: the least important part is left out first.
enum class Importance { kLeast, kLess, kMinor, kBar, kMore, kTime, kMost };

// A part of the line between the count and the time.
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

// The line of a log file: every part, and no bar.
std::string ProgressText(const ProgressParts& parts);

// The line of a terminal, narrower than `columns`, so that none is wrapped: first the bar shrinks
// (from 30 characters to 5), then parts are left out, the bar among them, then the line is cut. A
// pure function.
std::string ProgressLine(const ProgressParts& parts, int columns);

// Where progress is shown, and the time there; tests have their own.
struct ProgressScreen {
  std::function<double()> now;                     // seconds
  std::function<int()> columns;                    // of the terminal; null: a log file
  std::function<void(const std::string&)> draw;    // the terminal's line anew
  std::function<void()> keep;                      // it stays as it is
  std::function<void(const std::string&)> append;  // a line of a log file
};
// Standard error as it is now.
ProgressScreen StderrScreen();

// One phase of work, 0 to `total`. One thread at a time. Several may be under way: on a terminal
// the one that was updated last has the line.
class Progress {
 public:
  // `label` leads every line: "training", "writing the initial state". `began`, as
  // MonotonicSeconds has it, where that was earlier than now.
  Progress(std::string label, int64_t total, std::optional<double> began = std::nullopt,
           ProgressScreen screen = StderrScreen());
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // A terminal's line is drawn at most ten times a second, but for the last one.
  void Update(int64_t done, std::vector<ProgressDetail> details = {});

 private:
  std::string TimeText(int64_t done, double now) const;

  const ProgressScreen screen_;
  const std::string label_;
  const int64_t total_;
  const double began_;
  // Time and count of the first update; the time left is computed from the progress made since.
  std::optional<double> first_time_;
  int64_t first_done_ = 0;
  std::optional<double> shown_;  // when, last
};

}  // namespace spillway
