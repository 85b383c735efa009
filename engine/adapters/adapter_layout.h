// The parameters of a model that get an adapter and those that are trained besides: a LoraConfig
// applied to the names and shapes of one model. Pure functions of values; no LibTorch.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/adapters/lora_config.h"
#include "engine/model/model_description.h"
#include "engine/model/parameter.h"

namespace spillway {

struct AdaptedWeight {
  int parameter = 0;   // index in its unit
  std::string module;  // the parameter's name without ".weight"
  LinearWeight form = LinearWeight::kOutIn;
  int64_t in = 0, out = 0, rank = 0;  // `in` of kernels: the inputs of one output
  std::vector<int64_t> window;        // kernels' [height, width]; empty: a matrix
  double scale = 1;

  std::string name_a() const { return module + ".lora_A.weight"; }
  std::string name_b() const { return module + ".lora_B.weight"; }
  std::vector<int64_t> shape_a() const;  // [rank, in], or [rank, channels, height, width]
  std::vector<int64_t> shape_b() const;  // [out, rank], or [out, rank, 1, 1]
};

struct AdapterLayout {
  std::vector<std::vector<AdaptedWeight>> units;  // [unit]
  std::set<std::string> trained;                  // parameters of the model that are trained, too

  std::vector<const AdaptedWeight*> weights() const;
  int64_t parameters() const;                // total of the adapters
  std::vector<std::string> modules() const;  // modules with adapters
  std::vector<std::string> targets() const;  // the last parts of their names
  // Modules that are trained whole although targets() names them, too.
  std::vector<std::string> excluded() const;
};

// `model` has nothing frozen yet. Targets inside modules to save are ignored, as in PEFT.
// kInvalidArgument for a target without a linear layer, listing those that exist; for a missing
// module to save or layer.
absl::StatusOr<AdapterLayout> LayOutAdapters(const ModelDescription& model,
                                             const LoraConfig& config);

// Adds the adapters' parameters to the end of their units, not laid out yet.
ModelDescription WithAdapters(const AdapterLayout& layout, ModelDescription model);

// Whether the name is that of an adapter's parameter.
bool IsAdapterName(absl::string_view name);

// The name of the module that has the parameter.
std::string ModuleOf(absl::string_view parameter);
// Whether the name of the module, or of one that contains it, ends so: PEFT's rule for modules to
// save.
bool IsInModule(absl::string_view module, absl::string_view ending);

}  // namespace spillway
