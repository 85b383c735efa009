#include "engine/torch/model_buffers.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace spillway {

ModelBuffers::ModelBuffers(const Model& model, const torch::Device& where) {
  for (const auto& unit : model.units) {
    std::vector<torch::Tensor>& tensors = tensors_.emplace_back();
    for (const BufferSpec& spec : unit->buffers()) {
      names_.push_back(spec.name);
      whole_.push_back(spec.whole);
      tensors.push_back(torch::full(spec.shape, spec.init,
                                    torch::TensorOptions().dtype(torch::kFloat).device(where)));
    }
  }
  tensors_.emplace_back();
}

// Calls `visit` with every buffer's name and tensor, in order.
template <typename Visit>
void ModelBuffers::VisitAll(Visit visit) const {
  size_t next = 0;
  for (const auto& unit : tensors_) {
    for (const torch::Tensor& tensor : unit) visit(names_[next++], tensor);
  }
}

uint64_t ModelBuffers::bytes() const {
  uint64_t bytes = 0;
  VisitAll([&](const std::string&, const torch::Tensor& tensor) { bytes += tensor.nbytes(); });
  return bytes;
}

std::vector<torch::Tensor> ModelBuffers::CopyOf(int unit) const {
  std::vector<torch::Tensor> copies;
  for (const torch::Tensor& tensor : tensors_[unit]) copies.push_back(tensor.clone());
  return copies;
}

void ModelBuffers::Set(int unit, const std::vector<torch::Tensor>& values) {
  for (size_t i = 0; i < values.size(); ++i) tensors_[unit][i].copy_(values[i]);
}

std::vector<StateBuffer> ModelBuffers::Values() const {
  std::vector<StateBuffer> values;
  VisitAll([&](const std::string& name, const torch::Tensor& tensor) {
    const torch::Tensor here = tensor.to(torch::kCPU).contiguous();
    const float* const data = here.data_ptr<float>();
    const bool whole = whole_[values.size()];
    values.push_back({name, tensor.sizes().vec(), {data, data + here.numel()}, whole});
  });
  return values;
}

absl::Status ModelBuffers::SetValues(const std::vector<StateBuffer>& values) {
  absl::Status status;
  size_t found = 0;
  VisitAll([&](const std::string& name, const torch::Tensor& tensor) {
    const auto value = std::find_if(values.begin(), values.end(),
                                    [&](const StateBuffer& one) { return one.name == name; });
    if (value == values.end() || value->shape != tensor.sizes().vec()) {
      status.Update(absl::InvalidArgumentError(
          absl::StrCat("there is no buffer \"", name, "\" of the model's shape")));
      return;
    }
    ++found;
    torch::Tensor here = torch::empty(tensor.sizes(), torch::kFloat);
    std::memcpy(here.data_ptr(), value->values.data(), here.nbytes());
    torch::Tensor(tensor).copy_(here);
  });
  if (status.ok() && found != values.size()) {
    status = absl::InvalidArgumentError("there are buffers that the model does not have");
  }
  return status;
}

}  // namespace spillway
