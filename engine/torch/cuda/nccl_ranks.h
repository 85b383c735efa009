// A conversation of ranks over c10d's NCCL, in GPUs' memory: every rank has a GPU of its own.
// Implementations: nccl/nccl_ranks.cc, and absent/nccl_ranks.cc where NCCL's header is not.
#pragma once

#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "engine/ranks/collectives.h"
#include "engine/ranks/socket_ranks.h"
#include "engine/torch/compute_place.h"
#include "torch/csrc/distributed/c10d/Store.hpp"

namespace spillway {

// Connects all members with each other. What they exchange then is memory of the place's GPU, in
// the order of its stream of exchanges. NCCL finds its own ways between them
// (NCCL_SOCKET_IFNAME). `somebody_failed` is asked every second of an exchange that lasts:
// GPUs do not see who is gone.
absl::StatusOr<std::unique_ptr<Collectives>> ConnectNccl(
    const c10::intrusive_ptr<c10d::Store>& store, const ConversationOptions& options,
    const ComputePlace& place, std::function<bool()> somebody_failed);

}  // namespace spillway
