#include "engine/torch/tensor_views.h"

#include <c10/util/strides.h>
#include <torch/utils.h>

#include <algorithm>
#include <limits>

namespace spillway {

torch::ScalarType ScalarTypeOf(DType dtype) {
  switch (dtype) {
    case DType::kBFloat16:
      return torch::kBFloat16;
    case DType::kFloat16:
      return torch::kFloat16;
    case DType::kFloat32:
      return torch::kFloat32;
  }
  return torch::kFloat32;
}

torch::Tensor ViewAt(void* data, torch::IntArrayRef sizes, torch::IntArrayRef strides,
                     torch::ScalarType type, const torch::Device& where) {
  const torch::TensorOptions options = torch::TensorOptions().dtype(type);
  if (where.is_cpu()) return torch::from_blob(data, sizes, strides, options);
  // With the device given, LibTorch does not query the driver.
  return at::for_blob(data, sizes)
      .strides(strides)
      .options(options.device(where))
      .target_device(where)
      .make_tensor();
}

GivenParameters Give(const std::vector<ParameterView>& views,
                     const std::vector<torch::Tensor>& tensors) {
  GivenParameters given{tensors, {}};
  for (size_t i = 0; i < views.size(); ++i) {
    if (!views[i].packed) continue;
    given.tensors[i] = torch::full({}, std::numeric_limits<double>::quiet_NaN(),
                                   tensors[i].options().dtype(views[i].dtype))
                           .expand(views[i].shape);
    given.packed.push_back({given.tensors[i], tensors[i], *views[i].packed});
  }
  return given;
}

GivenParameters Give(const std::vector<ParameterView>& views) {
  std::vector<torch::Tensor> weights;
  for (const ParameterView& view : views) weights.push_back(view.weights);
  return Give(views, weights);
}

// Compares addresses, since a graph's leaf is a separate view of the unit's parameter.
torch::Tensor ApartFrom(const std::vector<torch::Tensor>& given, const torch::Tensor& output) {
  if (!output.defined() || !output.has_storage()) return output;
  const auto begin = [](const torch::Tensor& tensor) {
    return static_cast<const char*>(tensor.storage().data());
  };
  const auto end = [&](const torch::Tensor& tensor) {
    return begin(tensor) + tensor.storage().nbytes();
  };
  const bool apart = std::none_of(given.begin(), given.end(), [&](const torch::Tensor& one) {
    return begin(output) < end(one) && begin(one) < end(output);
  });
  return apart ? output : output.clone();
}

std::vector<ParameterView> ViewsOf(const Model& model, const ModelDescription& description,
                                   DType dtype, int unit, const OpBuffers& buffers,
                                   const torch::Device& where) {
  const bool last = unit == description.num_computing() - 1;
  std::vector<ParameterPlace> all;
  for (int i = 0; i < description.NumParameters(unit); ++i) {
    all.push_back(description.PlaceOf(unit, i));
  }
  for (const auto& b : last ? model.loss->borrowed() : model.units[unit]->borrowed()) {
    all.push_back(description.PlaceOf(b.unit, b.parameter));
  }

  std::vector<ParameterView> views;
  for (const auto& [owner, index] : all) {
    const ParameterDescription& parameter = description.units[owner].parameters[index];
    const auto position = [owner = owner](const std::vector<int>& units) {
      return std::find(units.begin(), units.end(), owner) - units.begin();
    };
    ParameterView view;
    view.unit = owner;
    view.parameter = index;
    view.shape = parameter.shape;
    view.dtype = ScalarTypeOf(dtype);
    char* const data =
        buffers.weights[position(buffers.op->weights)] + parameter.offset * DTypeBytes(dtype);
    if (parameter.packing.any()) {
      view.packed = parameter.packed_shape();
      view.weights =
          ViewAt(data, {static_cast<int64_t>(view.packed->bytes())}, {1}, torch::kUInt8, where);
    } else {
      view.weights = ViewAt(data, parameter.shape, c10::contiguous_strides(parameter.shape),
                            ScalarTypeOf(dtype), where);
    }
    view.frozen = description.units[owner].frozen;
    if (!buffers.gradients.empty() && !view.frozen) {
      const size_t i = position(buffers.op->gradients);
      view.rounded_sums = buffers.Rounded(i);
      const uint64_t bytes = view.rounded_sums ? DTypeBytes(dtype) : sizeof(float);
      view.sums = buffers.gradients[i] + parameter.offset * bytes;
    }
    views.push_back(std::move(view));
  }
  return views;
}

}  // namespace spillway
