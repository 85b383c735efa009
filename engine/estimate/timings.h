// How long an operation takes, from several runs of it. Thread-compatible.
#pragma once

#include <vector>

namespace spillway {

class Timings {
 public:
  void Add(double seconds) { seconds_.push_back(seconds); }

  // The median of the runs that took at most a quarter longer than the quickest: others met a cold
  // cache or a machine that gave half of its cores. The quickest alone would promise too much, as a
  // step has ordinary runs. 0 without a run.
  double Typical() const;

 private:
  std::vector<double> seconds_;
};

}  // namespace spillway
