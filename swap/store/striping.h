// Deals tiles to swap paths in proportion to the paths' speeds.
#pragma once

#include <cstdint>
#include <vector>

namespace spillway {

// Gives each piece to the path that would finish all of its pieces first, this one included. So
// every run of neighbouring pieces is spread over the paths in proportion to their rates, to within
// a piece, and all paths finish a read of any such run at the same time. Equal pieces on equal
// paths are dealt round robin. Deterministic; one thread.
class Striping {
 public:
  // One rate a path, in any unit. A rate that is not a positive number counts as the mean of those
  // that are: a path of unknown speed is assumed to be average.
  explicit Striping(std::vector<double> rates);

  // The path of the next piece. REQUIRES: there is at least one path.
  int Next(uint64_t size_bytes);

 private:
  std::vector<double> rates_;
  std::vector<uint64_t> dealt_bytes_;
};

}  // namespace spillway
