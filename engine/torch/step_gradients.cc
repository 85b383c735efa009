#include "engine/torch/step_gradients.h"

#include "engine/torch/sparse_gradient.h"
#include "engine/torch/tensor_kernels.h"
#include "io/base/check.h"

namespace spillway {

StepGradients::StepGradients(const ModelDescription& description, torch::ScalarType dtype,
                             torch::Device where)
    : description_(description), dtype_(dtype), where_(where) {
  for (const UnitDescription& unit : description.units) {
    terms_.emplace_back(unit.parameters.size(), 0);
  }
}

void StepGradients::Open(const OpBuffers& buffers) {
  for (size_t i = 0; i < buffers.gradients.size(); ++i) {
    if (!buffers.fresh[i]) continue;
    const int unit = buffers.op->gradients[i];
    terms_[unit].assign(terms_[unit].size(), 0);
  }
}

void StepGradients::Add(const std::vector<ParameterView>& views,
                        const std::vector<torch::Tensor>& gradients) {
  for (size_t i = 0; i < gradients.size(); ++i) {
    if (!gradients[i].defined()) continue;
    SPILLWAY_CHECK(gradients[i].scalar_type() == dtype_);
    const bool rounded = views[i].rounded_sums;
    const int64_t term = terms_[views[i].unit][views[i].parameter]++;
    TORCH_CHECK(!rounded || term < 2, "unit ", description_.units[views[i].unit].name,
                " has more gradients than in the dry run before step 1: a sample has more labels; "
                "Dataset::Largest says how large samples get");
    if (HasSparseRows(gradients[i])) {
      AccumulateSparse(gradients[i], views[i].sums, rounded, term == 0);
      continue;
    }
    const torch::Tensor gradient = gradients[i].to_dense().contiguous();
    TensorKernels& kernels = KernelsOf(where_);
    if (rounded) {
      kernels.AccumulateRounded(gradient, views[i].sums, term == 0);
    } else {
      kernels.AccumulateGradient(gradient, reinterpret_cast<float*>(views[i].sums), term == 0);
    }
  }
}

void StepGradients::Complete(const OpBuffers& buffers) {
  for (size_t i = 0; i < buffers.gradients.size(); ++i) {
    if (buffers.op->gradients[i] != buffers.op->unit) continue;
    FillGaps(buffers.op->unit, buffers.gradients[i],
             buffers.Rounded(i) ? c10::elementSize(dtype_) : sizeof(float));
  }
}

void StepGradients::FillGaps(int unit, char* sums, uint64_t bytes_each) const {
  const UnitDescription& described = description_.units[unit];
  TensorKernels& kernels = KernelsOf(where_);
  // [zero_from, end): the pending range to be zeroed.
  uint64_t zero_from = 0, end = 0;
  const auto zero_up_to = [&](uint64_t to) {
    if (to <= zero_from) return;
    kernels.FillZero(sums + zero_from * bytes_each, (to - zero_from) * bytes_each);
  };
  for (size_t i = 0; i < described.parameters.size(); ++i) {
    const ParameterDescription& parameter = described.parameters[i];
    end = parameter.offset + parameter.elements;
    if (terms_[unit][i] == 0) continue;
    zero_up_to(parameter.offset);
    zero_from = end;
  }
  zero_up_to((end + kParameterAlignment - 1) / kParameterAlignment * kParameterAlignment);
}

}  // namespace spillway
