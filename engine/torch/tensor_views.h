// Parameters as tensors: views of weights in the swap engine's memory.
#pragma once

#include <torch/types.h>

#include <optional>
#include <vector>

#include "engine/model/model_description.h"
#include "engine/torch/model.h"
#include "swap/mover/swap_manager.h"

namespace spillway {

torch::ScalarType ScalarTypeOf(DType dtype);

// A tensor on memory that it does not own, on any device.
torch::Tensor ViewAt(void* data, torch::IntArrayRef sizes, torch::IntArrayRef strides,
                     torch::ScalarType type, const torch::Device& where);

// The place of a parameter in an op's buffers.
struct ParameterView {
  int unit = 0;
  int parameter = 0;
  torch::Tensor weights;  // for a packed matrix its bytes, [shape.bytes()] uint8
  std::optional<PackedShape> packed;
  std::vector<int64_t> shape;                 // declared by the unit
  torch::ScalarType dtype = torch::kFloat32;  // dtype of the run
  bool frozen = false;
  char* sums = nullptr;  // null if the op has no gradients, or none of this parameter
  bool rounded_sums = false;
};

// The parameters in the form that a unit gets.
struct GivenParameters {
  std::vector<torch::Tensor> tensors;
  std::vector<PackedMatrix> packed;  // for UnitContext::WithPacked
};

// `tensors` are the views' weights, or leaves that share them.
GivenParameters Give(const std::vector<ParameterView>& views,
                     const std::vector<torch::Tensor>& tensors);
GivenParameters Give(const std::vector<ParameterView>& views);

// A unit's output or a gradient: unchanged, or a copy if it is a view of the unit's arguments
// (`given`), such as parameters, whose memory may be reused before it is read.
torch::Tensor ApartFrom(const std::vector<torch::Tensor>& given, const torch::Tensor& output);

// The parameters of `unit` in the order in which its Forward takes them: own, then borrowed.
// `where`: LibTorch's device of the op's buffers.
std::vector<ParameterView> ViewsOf(const Model& model, const ModelDescription& description,
                                   DType dtype, int unit, const OpBuffers& buffers,
                                   const torch::Device& where = torch::kCPU);

}  // namespace spillway
