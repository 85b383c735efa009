// The tiers, and how many bytes of state are at rest in each. Plain values.
#pragma once

#include <cstdint>

namespace spillway {

enum class Tier : uint8_t {
  kDevice,  // memory of the device budget
  kHost,    // the host arena
  kNvme,    // the store
};

// Bytes at rest by Tier.
struct PlanResidency {
  uint64_t weights[3] = {};
  uint64_t optimizer[3] = {};
  uint64_t gradients[3] = {};  // of units whose update is deferred
  uint64_t activations[3] = {};
};

}  // namespace spillway
