// Finds the parts of a model's first unit that a step reads, if the unit looks up rows of a matrix.
#pragma once

#include <vector>

#include "engine/model/model_description.h"
#include "engine/torch/model.h"
#include "engine/torch/step_batches.h"
#include "swap/mover/swap_manager.h"

namespace spillway {

// The parameter of the first unit that it looks up (Unit::looks_up), if it is entirely trained; -1:
// none.
int LookedUp(const Model& model, const ModelDescription& description);

// The tiles with the rows of `looked_up` that these micro-batches read, and with all other
// parameters of the first unit. REQUIRES: looked_up from LookedUp, and inputs if the first unit has
// them.
FirstRead TilesLookedUp(const ModelDescription& description, int looked_up,
                        const StateLayout& layout, const std::vector<MicroBatch>& micro_batches);

}  // namespace spillway
