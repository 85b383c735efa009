#include "engine/torch/torch_facts.h"

#include <ATen/Context.h>
#include <torch/version.h>

namespace spillway {

TorchFacts DescribeTorch() { return {TORCH_VERSION, at::hasCUDA()}; }

}  // namespace spillway
