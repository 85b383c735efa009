// What a time line is made of, in bounded memory however many spans there were. Plain values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace spillway {

// When something was busy: the union of intervals, in at most kMostPieces pieces. Where there
// would be more, pieces with the smallest gaps between them become one, so that a time line of
// that many dots across still looks the same.
class BusyIntervals {
 public:
  static constexpr size_t kMostPieces = 600;

  // In any order; fastest in order of the ends.
  void Add(int64_t begin_ns, int64_t end_ns);
  // Only what lies between the two stays.
  void Clip(int64_t begin_ns, int64_t end_ns);

  // Ascending, apart from each other.
  const std::vector<std::pair<int64_t, int64_t>>& pieces() const { return pieces_; }
  // Their sum: a little too much where gaps were closed.
  int64_t busy_ns() const;

 private:
  void CloseGaps();

  std::vector<std::pair<int64_t, int64_t>> pieces_;
  int64_t gap_ns_ = 0;  // gaps up to this are closed
};

// Bytes over time, in at most kMostBins bins of equal width, twice as wide whenever time runs
// out of them.
class ByteBins {
 public:
  static constexpr size_t kMostBins = 512;

  explicit ByteBins(int64_t begin_ns = 0) : begin_ns_(begin_ns) {}

  // Spread evenly from `begin_ns` to `end_ns`. What lies before the first bin is left out.
  void Add(int64_t begin_ns, int64_t end_ns, uint64_t bytes);

  int64_t width_ns() const { return width_ns_; }
  const std::vector<double>& bins() const { return bins_; }

 private:
  int64_t begin_ns_;
  int64_t width_ns_ = 100'000;
  std::vector<double> bins_;
};

}  // namespace spillway
