// Replaces NCCL if its header was not found: one rank can still train on a GPU.
#include "engine/torch/cuda/nccl_ranks.h"

namespace spillway {

absl::StatusOr<std::unique_ptr<Collectives>> ConnectNccl(const c10::intrusive_ptr<c10d::Store>&,
                                                         const ConversationOptions&,
                                                         const ComputePlace&,
                                                         std::function<bool()>) {
  return absl::FailedPreconditionError(
      "this program was built without NCCL, by which GPUs of several ranks talk: put the nccl.h of "
      "LibTorch's NCCL (libnccl-dev, or a CUDA toolkit's) where the compiler looks, and build the "
      "preset cuda again; or give --device cpu");
}

}  // namespace spillway
