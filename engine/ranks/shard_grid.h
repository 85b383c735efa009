// How the state of each unit is divided over ranks. Plain values, pure functions.
//
// Ranks 0..size-1 form shard groups of `group` neighbours. The ranks of a group have one equal
// shard each of every unit; all groups have the same shards. So `group` = size is full sharding, 1
// is none, and values between are hybrid sharding. The gradient of a unit is summed in equal
// portions, one per rank: a shard is divided among its replicas.
//
//   unit, padded:   |     shard 0     |     shard 1     |   shards: group = 2
//                   | portion| portion| portion| portion|   portions: size = 4
//   summed by rank       0        2        1        3
#pragma once

#include <cstdint>

namespace spillway {

struct ShardGrid {
  int size = 1;
  int group = 1;  // divides size
  int rank = 0;

  int replicas() const { return size / group; }
  int shard() const { return rank % group; }    // number of this rank's shard
  int replica() const { return rank / group; }  // number of this rank's group

  // Parameters of a unit, padded so that every rank's portion is a whole number of storage blocks.
  uint64_t UnitParameters(uint64_t parameters) const;
  uint64_t ShardParameters(uint64_t parameters) const { return UnitParameters(parameters) / group; }
  uint64_t PortionParameters(uint64_t parameters) const {
    return UnitParameters(parameters) / size;
  }
  // First parameter of the unit in this rank's shard.
  uint64_t ShardBegin(uint64_t parameters) const { return shard() * ShardParameters(parameters); }

  friend bool operator==(const ShardGrid&, const ShardGrid&) = default;
};

}  // namespace spillway
