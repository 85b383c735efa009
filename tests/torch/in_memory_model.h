// Runs a Model with everything in memory and plain autograd: what the engine must
// agree with, in a page.
#pragma once

#include <torch/types.h>
#include <torch/utils.h>

#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "engine/torch/model.h"
#include "engine/weights/weight_source.h"

namespace spillway {

class InMemoryModel {
 public:
  // Throws on a failed read: only tests call it.
  InMemoryModel(Model model, WeightSource& weights, torch::ScalarType dtype = torch::kFloat32)
      : model_(std::move(model)) {
    for (const auto& unit : model_.units) own_.push_back(Load(unit->parameters(), weights, dtype));
    own_.push_back(Load(model_.loss->parameters(), weights, dtype));
    for (const auto& unit : model_.units) {
      Tensors& buffers = buffers_.emplace_back();
      for (const BufferSpec& spec : unit->buffers()) {
        buffers.push_back(torch::full(spec.shape, spec.init, torch::kFloat32));
      }
    }
  }

  // The last unit's output.
  torch::Tensor Hidden(const torch::Tensor& inputs, bool training = true, int64_t step = 1) const {
    return Hidden(Batch{inputs, {}}, training, step);
  }

  // `losses`: gets what units add to the loss.
  torch::Tensor Hidden(const Batch& batch, bool training = true, int64_t step = 1,
                       std::vector<torch::Tensor>* losses = nullptr) const {
    Tensors outputs;
    for (size_t i = 0; i < model_.units.size(); ++i) {
      const Unit& unit = *model_.units[i];
      Tensors values;
      for (const int from : unit.reads()) values.push_back(outputs[from]);
      const UnitContext context =
          Context(batch.inputs, training, step, i)
              .With(&batch, std::move(values))
              .WithLosses(losses, batch.labels.defined() ? Counted(batch) : 0)
              .WithBuffers(buffers_[i]);
      const torch::Tensor x = !unit.input().empty() ? context.field(unit.input())
                              : i == 0              ? batch.inputs
                                                    : outputs.back();
      outputs.push_back(unit.Forward(context, With(own_[i], unit.borrowed()), x));
    }
    return outputs.back();
  }

  torch::Tensor Logits(const torch::Tensor& inputs) const {
    torch::NoGradGuard no_grad;
    const torch::Tensor hidden = Hidden(inputs, /*training=*/false);
    return model_.loss->Logits(Context(inputs, false, 1, own_.size() - 1), LossParameters(),
                               hidden.flatten(0, -2));
  }

  // Of rows [rows, hidden] of what the last unit gives.
  torch::Tensor LogitsOf(const torch::Tensor& rows) const {
    return model_.loss->Logits(Context(rows, false, 1, own_.size() - 1), LossParameters(), rows);
  }

  // Over all labels that are not ignored, in chunks as the engine makes them.
  torch::Tensor LossSum(const torch::Tensor& inputs, const torch::Tensor& labels,
                        bool training = true, int64_t step = 1) const {
    return LossSum(Batch{inputs, labels}, training, step);
  }

  torch::Tensor LossSum(const Batch& batch, bool training = true, int64_t step = 1) const {
    const torch::Tensor& inputs = batch.inputs;
    Tensors losses;
    const torch::Tensor hidden = Hidden(batch, training, step, &losses);
    const torch::Tensor flat = batch.labels.flatten();
    const torch::Tensor rows = hidden.reshape({flat.size(0), -1});
    const UnitContext context = Context(inputs, training, step, own_.size() - 1);
    torch::Tensor sum;
    for (int64_t first = 0; first < flat.size(0); first += model_.loss->ChunkRows()) {
      const int64_t count = std::min(model_.loss->ChunkRows(), flat.size(0) - first);
      const torch::Tensor loss = model_.loss->LossSum(
          context, LossParameters(), rows.narrow(0, first, count), flat.narrow(0, first, count));
      sum = sum.defined() ? sum + loss : loss;
    }
    for (const torch::Tensor& loss : losses) sum = sum + loss;
    return sum;
  }

  // Those that are trained, by name.
  std::map<std::string, torch::Tensor> Parameters() const {
    std::map<std::string, torch::Tensor> all;
    for (size_t i = 0; i < own_.size(); ++i) {
      const auto specs =
          i < model_.units.size() ? model_.units[i]->parameters() : model_.loss->parameters();
      for (size_t j = 0; j < specs.size(); ++j) {
        if (!specs[j].frozen) all[specs[j].name] = own_[i][j];
      }
    }
    return all;
  }

 private:
  using Tensors = std::vector<torch::Tensor>;

  static Tensors Load(const std::vector<ParameterSpec>& specs, WeightSource& weights,
                      torch::ScalarType dtype) {
    Tensors tensors;
    for (const ParameterSpec& spec : specs) {
      torch::Tensor values = torch::empty(spec.shape);
      const absl::Status status =
          weights.Read(spec.name, 0, values.numel(), values.data_ptr<float>());
      TORCH_CHECK(status.ok(), status.ToString());
      tensors.push_back(values.to(dtype).detach().requires_grad_(!spec.frozen));
    }
    return tensors;
  }

  Tensors With(Tensors own, const std::vector<BorrowedParameter>& borrowed) const {
    for (const BorrowedParameter& one : borrowed) own.push_back(own_[one.unit][one.parameter]);
    return own;
  }

  Tensors LossParameters() const { return With(own_.back(), model_.loss->borrowed()); }

  static int64_t Counted(const Batch& batch) {
    return batch.labels.ne(kIgnoredLabel).sum().item<int64_t>();
  }

  static UnitContext Context(const torch::Tensor& inputs, bool training, int64_t step, int unit) {
    std::vector<int64_t> samples(inputs.size(0));
    std::iota(samples.begin(), samples.end(), 0);
    return UnitContext(/*seed=*/42, step, unit, samples, training);
  }

  Model model_;
  std::vector<Tensors> own_;      // of each unit, the loss unit last
  std::vector<Tensors> buffers_;  // of each unit: training forwards change them
};

}  // namespace spillway
