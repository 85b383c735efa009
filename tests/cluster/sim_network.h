// What ranks say to one another in a simulation: messages that take their time, and those of a rank
// that has died arrive or do not.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <tuple>

#include "engine/ranks/collectives.h"
#include "tests/sim/sim_world.h"

namespace spillway {

// Of one life of the ranks. Everything happens inside their fibers (tests/sim/sim_fibers.h).
class SimNetwork {
 public:
  // `dead`: whether the process of a rank is. `misheard`: is told where ranks say different things
  // to each other. All outlive it.
  SimNetwork(SimWorld* world, std::function<bool(int rank)> dead,
             std::function<void(std::string what)> misheard)
      : world_(*world), dead_(std::move(dead)), misheard_(std::move(misheard)) {}

  // A rank's end of the conversation `number`, of `size` ranks.
  std::unique_ptr<Collectives> Join(int number, int rank, int size);

  // The rank's process is no more. Of what it said last some may not arrive where it was killed.
  void Leave(int rank, bool killed);

 private:
  class Talk;
  struct Channel {
    std::deque<std::string> under_way, arrived;
  };
  using Key = std::tuple<int, int, int>;  // conversation, from, to

  void Post(int number, int from, int to, const char* data, uint64_t bytes);
  // kUnavailable where it does not come any more.
  absl::Status Take(const Talk& talk, int from, char* data, uint64_t bytes);

  SimWorld& world_;
  const std::function<bool(int)> dead_;
  const std::function<void(std::string)> misheard_;
  std::map<Key, Channel> channels_;
  std::map<int, bool> left_;  // [rank]
};

}  // namespace spillway
