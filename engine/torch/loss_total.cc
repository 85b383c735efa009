#include "engine/torch/loss_total.h"

namespace spillway {

void LossTotal::Clear() {
  value_ = 0;
  if (total_.defined()) total_.zero_();
}

void LossTotal::Add(const torch::Tensor& loss) {
  if (place_.computes_at_once()) {
    value_ += loss.item<double>();
    return;
  }
  if (!total_.defined()) {
    total_ = torch::zeros({}, torch::TensorOptions(place_.where).dtype(torch::kFloat64));
  }
  total_.add_(loss.detach().to(torch::kFloat64));
}

void LossTotal::Send() {
  if (!place_.stream || !total_.defined()) return;
  if (!sent_.defined()) {
    sent_ = torch::zeros({}, torch::TensorOptions().dtype(torch::kFloat64).pinned_memory(true));
    at_.emplace(place_.where.type());
  }
  sent_.copy_(total_, /*non_blocking=*/true);
  at_->record(*place_.stream);
}

double LossTotal::Read() {
  if (at_) {
    at_->synchronize();
    value_ = *sent_.const_data_ptr<double>();
  } else if (total_.defined()) {
    value_ = total_.item<double>();
  }
  return value_;
}

}  // namespace spillway
