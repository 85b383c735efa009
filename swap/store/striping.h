// Deals tiles to swap paths of unequal speed.
#pragma once

#include <cstdint>
#include <vector>

namespace spillway {

// Gives each piece to the path that would be through with all of its pieces first, this one
// included. So every run of neighbouring pieces is spread over the paths in proportion to
// their rates, to within a piece, and all paths end at the same time whatever is read of them
// in order. Equal pieces on equal paths go round in turn. Deterministic; one thread.
class Striping {
 public:
  // One rate a path, in any unit. What is not a positive number is taken for the mean of
  // those that are: a path of unknown speed is an ordinary one.
  explicit Striping(std::vector<double> rates);

  // The path of the next piece. REQUIRES: there is one.
  int Next(uint64_t size_bytes);

 private:
  std::vector<double> rates_;
  std::vector<uint64_t> dealt_bytes_;
};

}  // namespace spillway
