// A model's units and parameters, laid out: what the engine knows of it without LibTorch.
#pragma once

#include "absl/status/statusor.h"
#include "engine/model/model_description.h"
#include "engine/options/freeze_rule.h"
#include "engine/torch/model.h"

namespace spillway {

// Names, shapes and borrowing of `model`, laid out; what it or `rule` says is frozen.
// kInvalidArgument for a model that contradicts itself (a borrowed parameter that is not there, no
// units, ...).
absl::StatusOr<ModelDescription> DescribeModel(const Model& model, const FreezeRule& rule = {});

}  // namespace spillway
