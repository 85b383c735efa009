// A model of one unit and a loss, whose parts a test changes.
#pragma once

#include <torch/types.h>

#include <string>
#include <vector>

#include "absl/types/span.h"
#include "engine/torch/model.h"

namespace spillway {

class SmallUnit : public Unit {
 public:
  std::string name() const override { return called; }
  std::vector<ParameterSpec> parameters() const override { return specs; }
  std::vector<BufferSpec> buffers() const override { return buffer_specs; }
  int looks_up() const override { return looked_up; }
  torch::Tensor Forward(const UnitContext& context, const std::vector<torch::Tensor>& parameters,
                        const torch::Tensor& x) const override {
    return context.Linear(x, parameters[0]);
  }

  std::string called = "small";
  std::vector<ParameterSpec> specs = {{"small.w", {4, 4}, Init::Normal(0, 0.5)}};
  std::vector<BufferSpec> buffer_specs;
  int looked_up = -1;
};

// Cross-entropy of four classes.
class SmallLoss : public LossUnit {
 public:
  std::string name() const override { return "loss"; }
  std::vector<ParameterSpec> parameters() const override { return specs; }
  torch::Tensor LossSum(const UnitContext& context, const std::vector<torch::Tensor>& parameters,
                        const torch::Tensor& x, const torch::Tensor& labels) const override {
    return torch::cross_entropy_loss(context.Linear(x, parameters[0]), labels, {},
                                     at::Reduction::Sum, kIgnoredLabel);
  }

  std::vector<ParameterSpec> specs = {{"loss.w", {4, 4}, Init::Normal(0, 0.5)}};
};

// Sample n: the class n % 4, as a vector.
class SmallData : public Dataset {
 public:
  int64_t size() const override { return 16; }
  absl::StatusOr<Batch> Get(absl::Span<const int64_t> samples) override {
    const torch::Tensor labels =
        torch::tensor(std::vector<int64_t>(samples.begin(), samples.end())).remainder(4);
    return Batch{torch::eye(4).index_select(0, labels), labels};
  }
  std::string fingerprint() const override { return "small"; }
};

}  // namespace spillway
