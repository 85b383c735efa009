// The parts of a time line, in bounded memory for any number of spans. Plain values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace spillway {

// The times when something was busy: the union of intervals, in at most kMostPieces pieces. If
// there would be more, pieces with the smallest gaps between them are merged; a time line with that
// many pixels looks the same.
class BusyIntervals {
 public:
  static constexpr size_t kMostPieces = 600;

  // Adds intervals in any order; fastest in order of the ends.
  void Add(int64_t begin_ns, int64_t end_ns);
  // Removes everything outside of the interval.
  void Clip(int64_t begin_ns, int64_t end_ns);

  // Ascending and disjoint.
  const std::vector<std::pair<int64_t, int64_t>>& pieces() const { return pieces_; }
  // The sum of the pieces: slightly too large if gaps were closed.
  int64_t busy_ns() const;

 private:
  void CloseGaps();

  std::vector<std::pair<int64_t, int64_t>> pieces_;
  int64_t gap_ns_ = 0;  // gaps up to this are closed
};

// Bytes over time, in at most kMostBins bins of equal width, which doubles whenever time exceeds
// them.
class ByteBins {
 public:
  static constexpr size_t kMostBins = 512;

  explicit ByteBins(int64_t begin_ns = 0) : begin_ns_(begin_ns) {}

  // Adds bytes spread evenly from `begin_ns` to `end_ns`. Bytes before the first bin are left out.
  void Add(int64_t begin_ns, int64_t end_ns, uint64_t bytes);

  int64_t width_ns() const { return width_ns_; }
  const std::vector<double>& bins() const { return bins_; }

 private:
  int64_t begin_ns_;
  int64_t width_ns_ = 100'000;
  std::vector<double> bins_;
};

}  // namespace spillway
