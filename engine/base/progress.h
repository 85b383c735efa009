// Progress on stderr: a bar on a terminal, plain lines at a modest rate elsewhere;
// nothing where the log drops information (a rank that is not the first).
#pragma once

#include <cstdint>
#include <string>

namespace spillway {

// "1h02m", "3m20s", "45s".
std::string FormatDuration(double seconds);

// One phase of work, 0 to `total`. One thread at a time.
class Progress {
 public:
  // `label` leads every line: "training", "writing the initial state".
  Progress(std::string label, int64_t total, int64_t start = 0);
  ~Progress();

  // `details` follow the count: "loss 2.301, 5,120 tokens/s".
  void Update(int64_t done, const std::string& details = "");
  // Takes the bar off the terminal's line, so that a log line can stand there.
  void Clear();

 private:
  void Print(int64_t done, const std::string& details, double now);

  const std::string label_;
  const int64_t total_;
  const int64_t start_;
  const bool terminal_;
  const double began_;
  double printed_ = 0;
  int lines_ = 0;
};

}  // namespace spillway
