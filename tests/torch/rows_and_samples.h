// Rows of several samples, and of samples with padding, against the same samples alone.
#pragma once

#include <gtest/gtest.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "tests/torch/in_memory_model.h"

namespace spillway {

struct LossAndGradients {
  double loss = 0;
  std::map<std::string, torch::Tensor> gradients;
};

// Summed over the batches. Clears the model's gradients.
inline LossAndGradients SumOver(const InMemoryModel& model, const std::vector<Batch>& batches,
                                bool training = true) {
  LossAndGradients sum;
  for (const Batch& batch : batches) {
    const torch::Tensor loss = model.LossSum(batch, training);
    sum.loss += loss.item<double>();
    loss.backward();
  }
  for (auto& [name, parameter] : model.Parameters()) {
    torch::Tensor gradient = parameter.grad();
    sum.gradients[name] =
        gradient.defined() ? gradient.to_dense().clone() : torch::zeros_like(parameter);
    gradient.reset();
    parameter.mutable_grad() = gradient;
  }
  return sum;
}

inline void ExpectSameSums(const LossAndGradients& found, const LossAndGradients& expected) {
  EXPECT_NEAR(found.loss, expected.loss, 1e-6 * std::abs(expected.loss));
  double largest = 0;
  for (const auto& [name, gradient] : expected.gradients) {
    largest = std::max(largest, gradient.norm().item<double>());
  }
  for (const auto& [name, gradient] : expected.gradients) {
    // Some are noise alone, such as those of keys' biases.
    const double norm = std::max(gradient.norm().item<double>(), 1e-2 * largest);
    EXPECT_LT((found.gradients.at(name) - gradient).norm().item<double>(), 1e-5 * norm) << name;
  }
}

// Texts of these lengths; every fifth label is ignored.
inline std::vector<Batch> TextsAlone(const std::vector<int64_t>& lengths, int64_t vocabulary) {
  std::vector<Batch> texts;
  int64_t at = 3;
  for (const int64_t length : lengths) {
    const torch::Tensor i = torch::arange(at, at + length + 1);
    const torch::Tensor tokens = ((i * i * 7 + i * 3 + 11) % vocabulary).unsqueeze(0);
    at += 100;
    texts.push_back(
        {tokens.narrow(1, 0, length).contiguous(),
         tokens.narrow(1, 1, length)
             .clone()
             .masked_fill_(i.narrow(0, 0, length).remainder(5).eq(0).unsqueeze(0), kIgnoredLabel)});
  }
  return texts;
}

// These side by side in rows of `length`, in order; what has no room begins the next row. What
// is left of a row is padding.
inline Batch InRows(const std::vector<Batch>& texts, int64_t length, bool one_a_row,
                    bool say_texts) {
  Batch batch;
  std::vector<torch::Tensor> inputs, labels;
  int64_t room = 0;
  for (const Batch& text : texts) {
    const int64_t positions = text.inputs.size(1);
    if (inputs.empty() || one_a_row || positions > room) {
      if (say_texts && room > 0) batch.texts.push_back(room);
      inputs.push_back(torch::full({length}, 1, torch::kInt64));
      labels.push_back(torch::full({length}, kIgnoredLabel, torch::kInt64));
      room = length;
    }
    inputs.back().narrow(0, length - room, positions).copy_(text.inputs[0]);
    labels.back().narrow(0, length - room, positions).copy_(text.labels[0]);
    room -= positions;
    if (say_texts) batch.texts.push_back(positions);
  }
  if (say_texts && room > 0) batch.texts.push_back(room);
  batch.inputs = torch::stack(inputs);
  batch.labels = torch::stack(labels);
  return batch;
}

inline void ExpectRowsToBeTheirSamples(const InMemoryModel& model, int64_t vocabulary,
                                       bool padded_too = true) {
  const std::vector<Batch> alone = TextsAlone({5, 1, 9, 14, 2, 7, 3, 16}, vocabulary);
  const LossAndGradients expected = SumOver(model, alone);
  {
    SCOPED_TRACE("packed");
    const Batch packed = InRows(alone, 16, false, true);
    ASSERT_EQ(packed.inputs.size(0), 4);  // 15, 16, 10 and 16 of 16 positions
    ExpectSameSums(SumOver(model, {packed}), expected);
  }
  const Batch run_together = InRows(alone, 16, false, false);
  EXPECT_GT(std::abs(SumOver(model, {run_together}).loss - expected.loss), 1e-4 * expected.loss)
      << "samples that see each other would go unnoticed";
  if (!padded_too) return;
  SCOPED_TRACE("padded");
  ExpectSameSums(SumOver(model, {InRows(alone, 16, true, false)}), expected);
}

}  // namespace spillway
