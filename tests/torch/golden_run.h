// Runs of small models that are held against numbers of transformers.
#pragma once

#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "tests/scratch_directory.h"
#include "tests/torch/training_run.h"

namespace spillway {

inline double GoldenProjection(const torch::Tensor& x) {
  const torch::Tensor flat = x.to(torch::kFloat64).flatten();
  return (flat * torch::cos(torch::arange(flat.numel(), torch::kFloat64))).sum().item<double>();
}

// `golden`: norm and projection of each, by name.
inline void ExpectGoldenGradients(const std::map<std::string, torch::Tensor>& parameters,
                                  const nlohmann::json& golden) {
  ASSERT_EQ(parameters.size(), golden.size());
  for (const auto& [name, parameter] : parameters) {
    SCOPED_TRACE(name);
    const double norm = golden[name][0];
    const torch::Tensor gradient = parameter.grad().to_dense();
    // Those of keys' biases are rounding noise.
    EXPECT_NEAR(gradient.norm().item<double>(), norm, 2e-5 * norm + 2e-5);
    EXPECT_NEAR(GoldenProjection(gradient), golden[name][1], 5e-5 * norm + 5e-5);
  }
}

struct GoldenRunOptions {
  int64_t steps = 25;
  int64_t micro_batch = 1;
  bool on_nvme = false;  // all state and activations; otherwise all is in memory
  DType dtype = DType::kFloat32;
  double learning_rate = 2e-3;
};

// The losses of a run of two micro-batches a step, as the scripts in tests/golden have
// it.
inline std::vector<double> GoldenLosses(const Model& model, Dataset& data, WeightSource& weights,
                                        const GoldenRunOptions& run) {
  const ScratchDirectory dir;
  std::filesystem::create_directories(dir / "swap");
  TrainOptions options;
  options.output = dir / "run";
  options.no_commit = true;
  options.offload_param = options.offload_optimizer = Offload::kNone;
  if (run.on_nvme) {
    options.swap_paths = {dir / "swap"};
    options.offload_param = options.offload_optimizer = options.offload_activations =
        Offload::kNvme;
    options.recompute = Recompute::kAll;
  }
  options.device_memory_bytes = options.host_memory_bytes = uint64_t{64} << 20;
  options.threads = 1;
  options.dtype = run.dtype;
  options.order = SampleOrder::kSequential;
  options.steps = run.steps;
  options.micro_batch = run.micro_batch;
  options.accumulate = 2;
  options.optimizer.learning_rate = run.learning_rate;
  options.optimizer.weight_decay = 0.01;
  options.clip = 1;
  const auto result = Train(model, data, nullptr, &weights, options, {});
  TORCH_CHECK(result.ok(), result.status().ToString());
  std::vector<double> losses;
  for (const auto& row : JsonLines(dir / "run/metrics.jsonl")) losses.push_back(row["loss"]);
  return losses;
}

// Whether a variant is the one that its family is named after. Numbers are compared for all of
// them, placements and dtypes for these: SameBits has the rest.
inline bool IsFamily(const std::string& variant) { return variant.find('_') == std::string::npos; }

inline void ExpectGoldenLosses(const std::vector<double>& found,
                               const std::vector<double>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_NEAR(found[i], expected[i], 2e-5 * expected[i]) << "step " << i + 1;
  }
}

}  // namespace spillway
