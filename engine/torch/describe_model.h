// Describes a model's units and parameters, laid out, for the parts of the engine without LibTorch.
#pragma once

#include "absl/status/statusor.h"
#include "engine/model/model_description.h"
#include "engine/options/freeze_rule.h"
#include "engine/torch/model.h"

namespace spillway {

// Names, shapes and borrowing of `model`, laid out; parameters that it or `rule` freezes are
// marked. kInvalidArgument for an inconsistent model (a borrowed parameter that does not exist, no
// units, ...).
absl::StatusOr<ModelDescription> DescribeModel(const Model& model, const FreezeRule& rule = {});

}  // namespace spillway
