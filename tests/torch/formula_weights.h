// Weights that follow the formula of tests/golden/common.py, so that no file holds them.
#pragma once

#include <cmath>
#include <map>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "engine/families/model_config.h"
#include "engine/weights/weight_source.h"

namespace spillway {

class FormulaWeights : public WeightSource {
 public:
  explicit FormulaWeights(const ModelConfig& config) {
    int index = 0;
    for (const auto& [name, shape] : TensorNamesOf(config).shapes) index_[name] = ++index;
  }

  absl::Status Read(const std::string& name, uint64_t first, uint64_t count, float* out) override {
    const bool weight = absl::EndsWith(name, ".weight");
    for (uint64_t i = 0; i < count; ++i) {
      double noise = std::sin(static_cast<double>(first + i) * 12.9898 + index_.at(name) * 78.233) *
                     43758.5453;
      noise = 2 * (noise - std::floor(noise)) - 1;
      const bool norm = absl::StrContains(absl::AsciiStrToLower(name), "norm");
      out[i] =
          static_cast<float>(norm ? (weight ? 1 : 0) + 0.2 * noise : (weight ? 0.5 : 0.1) * noise);
    }
    return absl::OkStatus();
  }

 private:
  std::map<std::string, int> index_;
};

}  // namespace spillway
