// Which parts of a model's first unit a step reads where that unit looks rows of a matrix up.
#pragma once

#include <vector>

#include "engine/model/model_description.h"
#include "engine/torch/model.h"
#include "engine/torch/step_batches.h"
#include "swap/mover/swap_manager.h"

namespace spillway {

// The parameter of the first unit that it looks up (Unit::looks_up), if it is trained as a whole;
// -1: none.
int LookedUp(const Model& model, const ModelDescription& description);

// The tiles that hold the rows of `looked_up` which these read, and all other parameters of the
// first unit. REQUIRES: looked_up of LookedUp, and inputs where the first unit has them.
FirstRead TilesLookedUp(const ModelDescription& description, int looked_up,
                        const StateLayout& layout, const std::vector<MicroBatch>& micro_batches);

}  // namespace spillway
