// A conversation of ranks over c10d's NCCL, in GPUs' memory: every rank has a GPU of its own.
// Implementations: nccl/nccl_ranks.cc, and absent/nccl_ranks.cc without NCCL's header.
#pragma once

#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "engine/ranks/collectives.h"
#include "engine/ranks/socket_ranks.h"
#include "engine/torch/compute_place.h"
#include "torch/csrc/distributed/c10d/Store.hpp"

namespace spillway {

// Connects all members with each other. Exchanges use memory of the place's GPU and are ordered by
// its stream of exchanges. NCCL chooses the network itself (NCCL_SOCKET_IFNAME). `somebody_failed`
// is called every second of a long exchange, since GPUs do not notice a rank that is gone.
absl::StatusOr<std::unique_ptr<Collectives>> ConnectNccl(
    const c10::intrusive_ptr<c10d::Store>& store, const ConversationOptions& options,
    const ComputePlace& place, std::function<bool()> somebody_failed);

}  // namespace spillway
