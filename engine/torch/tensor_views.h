// Parameters as LibTorch sees them: views of weights that the swap engine holds.
#pragma once

#include <torch/types.h>

#include <optional>
#include <vector>

#include "engine/model/model_description.h"
#include "engine/torch/model.h"
#include "swap/mover/swap_manager.h"

namespace spillway {

torch::ScalarType ScalarTypeOf(DType dtype);

// A tensor on memory that it does not own, on whichever device.
torch::Tensor ViewAt(void* data, torch::IntArrayRef sizes, torch::IntArrayRef strides,
                     torch::ScalarType type, const torch::Device& where);

// Where a parameter is in an op's buffers.
struct ParameterView {
  int unit = 0;
  int parameter = 0;
  torch::Tensor weights;  // of a packed matrix its bytes, [shape.bytes()] uint8
  std::optional<PackedShape> packed;
  std::vector<int64_t> shape;                 // as the unit declares it
  torch::ScalarType dtype = torch::kFloat32;  // the run's
  bool frozen = false;
  char* sums = nullptr;  // null where the op has no gradients, or none of this one
  bool rounded_sums = false;
};

// What a unit is given of its parameters.
struct GivenParameters {
  std::vector<torch::Tensor> tensors;
  std::vector<PackedMatrix> packed;  // for UnitContext::WithPacked
};

// `tensors` are the views' weights, or leaves that share them.
GivenParameters Give(const std::vector<ParameterView>& views,
                     const std::vector<torch::Tensor>& tensors);
GivenParameters Give(const std::vector<ParameterView>& views);

// A unit's output, or a gradient: as it is, or a copy where it is a view of what the unit was
// `given`, such as parameters. In that memory there may be something else by the time it is read.
torch::Tensor ApartFrom(const std::vector<torch::Tensor>& given, const torch::Tensor& output);

// The parameters of `unit` in the order in which its Forward takes them: own, then
// borrowed. `where`: whose addresses the op's buffers are, as LibTorch calls it.
std::vector<ParameterView> ViewsOf(const Model& model, const ModelDescription& description,
                                   DType dtype, int unit, const OpBuffers& buffers,
                                   const torch::Device& where = torch::kCPU);

}  // namespace spillway
