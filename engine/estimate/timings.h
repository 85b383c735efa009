// Typical duration of an operation, from several runs. Thread-compatible.
#pragma once

#include <vector>

namespace spillway {

class Timings {
 public:
  void Add(double seconds) { seconds_.push_back(seconds); }

  // The median of the runs that took at most a quarter longer than the quickest; slower ones had a
  // cold cache or shared the cores. The quickest alone would be too optimistic, since a step has
  // ordinary runs. 0 without a run.
  double Typical() const;

 private:
  std::vector<double> seconds_;
};

}  // namespace spillway
