// Which parameters of a model get an adapter and which are trained besides: what a LoraConfig comes
// to for the names and shapes of one model. Pure functions of values; no LibTorch.
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
  int parameter = 0;   // of its unit
  std::string module;  // the parameter's name without ".weight"
  LinearWeight form = LinearWeight::kOutIn;
  int64_t in = 0, out = 0, rank = 0;  // of kernels `in` is what one output reads, of all channels
  std::vector<int64_t> window;        // kernels' [height, width]; empty: a matrix
  double scale = 1;

  std::string name_a() const { return module + ".lora_A.weight"; }
  std::string name_b() const { return module + ".lora_B.weight"; }
  std::vector<int64_t> shape_a() const;  // [rank, in], or [rank, channels, height, width]
  std::vector<int64_t> shape_b() const;  // [out, rank], or [out, rank, 1, 1]
};

struct AdapterLayout {
  std::vector<std::vector<AdaptedWeight>> units;  // [unit]
  std::set<std::string> trained;                  // the model's own parameters that are trained too

  std::vector<const AdaptedWeight*> weights() const;
  int64_t parameters() const;                // of all adapters
  std::vector<std::string> modules() const;  // that have adapters
  std::vector<std::string> targets() const;  // the last parts of their names
  // Modules that are trained whole and that targets() names too.
  std::vector<std::string> excluded() const;
};

// `model` has nothing frozen yet. Targets inside modules to save are passed over, as PEFT does it.
// kInvalidArgument for a target that no linear layer has, with those that there are; for a module
// to save or a layer that is not there.
absl::StatusOr<AdapterLayout> LayOutAdapters(const ModelDescription& model,
                                             const LoraConfig& config);

// `model` with the adapters' parameters at the end of their units, not laid out yet.
ModelDescription WithAdapters(const AdapterLayout& layout, ModelDescription model);

// Whether a parameter of such a model is an adapter's, by its name.
bool IsAdapterName(absl::string_view name);

// The module that a parameter is its own, by their names.
std::string ModuleOf(absl::string_view parameter);
// Whether a module, or one that it is inside of, has a name that ends so: as PEFT means modules to
// save.
bool IsInModule(absl::string_view module, absl::string_view ending);

}  // namespace spillway
