// First weights from ParameterSpec::init and the seed. A value depends only on (seed, name,
// element): not on tiles, order or placement.
#pragma once

#include <string>
#include <unordered_map>

#include "engine/torch/model.h"
#include "engine/weights/weight_source.h"

namespace spillway {

class InitSource : public WeightSource {
 public:
  // Copies the specs of all parameters of `model`, and does not keep the model.
  InitSource(const Model& model, uint64_t seed);

  // NotFound for a name that the model does not have.
  absl::Status Read(const std::string& name, uint64_t first, uint64_t count, float* out) override;
  bool reads_files() const override { return false; }

 private:
  struct Parameter {
    Init init;
    int64_t width = 1;  // its last dimension
  };
  std::unordered_map<std::string, Parameter> inits_;
  uint64_t seed_;
};

}  // namespace spillway
