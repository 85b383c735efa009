// A conversation of ranks over c10d's Gloo. Nothing is copied on the way: every part goes from
// where it is to where it belongs, as a send and a receive of its own.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/ranks/collectives.h"
#include "torch/csrc/distributed/c10d/Store.hpp"

namespace spillway {

struct GlooOptions {
  std::string name;          // tells conversations of one store apart
  std::vector<int> members;  // ranks of the run, ascending
  int rank = 0;              // this process's, of the run; one of them
  std::string address;       // of this machine; empty: as its name resolves
  double timeout_seconds = 600;
};

// Connects all members with each other.
absl::StatusOr<std::unique_ptr<Collectives>> ConnectGloo(
    const c10::intrusive_ptr<c10d::Store>& store, const GlooOptions& options);

}  // namespace spillway
