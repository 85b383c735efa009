#include "engine/tasks/encoded_sources.h"

#include <algorithm>

#include "engine/base/stop_signal.h"
#include "engine/tasks/bounded_pass.h"
#include "engine/torch/tensor_views.h"
#include "io/base/check.h"
#include "io/base/status.h"

namespace spillway {

absl::StatusOr<std::unique_ptr<EncodedSources>> EncodedSources::Encode(
    const Model& model, WeightSource* weights, const ForwardOptions& options,
    const SourceList& sources, const std::string& directory) {
  ASSIGN_OR_RETURN(ScratchFile file, ScratchFile::Create(directory));
  std::unique_ptr<EncodedSources> encoded(new EncodedSources(std::move(file), options.dtype));
  PassWork work;
  work.what = "the encoder";
  work.all = [&](ForwardPass& pass) { return encoded->EncodeAll(sources, pass); };
  work.largest = [&](ForwardPass& pass) -> absl::Status {
    ASSIGN_OR_RETURN(const Batch batch, sources.get(sources.largest));
    return pass.Run({batch}).status();
  };
  work.several = sources.size > 1;
  RETURN_IF_ERROR(RunWithinBudget(work, model, weights, options));
  RETURN_IF_ERROR(encoded->file_.Flush());
  return encoded;
}

absl::Status EncodedSources::EncodeAll(const SourceList& sources, ForwardPass& pass) {
  size_t at_once = 1;
  for (size_t first = 0; first < sources.size;) {
    if (StopSignal::received() != 0) return absl::CancelledError("");
    const size_t end = std::min(sources.size, first + at_once);
    std::vector<Batch> batches;
    for (size_t i = first; i < end; ++i) {
      ASSIGN_OR_RETURN(Batch batch, sources.get(i));
      batches.push_back(std::move(batch));
    }
    ASSIGN_OR_RETURN(const std::vector<torch::Tensor> outputs, pass.Run(batches));
    for (const torch::Tensor& output : outputs) RETURN_IF_ERROR(Append(output));
    first = end;
    at_once = pass.batches_at_once(sources.longest * width_ * sizeof(float));
  }
  return absl::OkStatus();
}

absl::Status EncodedSources::Append(const torch::Tensor& encoded) {
  const torch::Tensor rows = encoded.to(ScalarTypeOf(dtype_)).contiguous();
  width_ = rows.size(2);
  longest_ = std::max(longest_, rows.size(1));
  RETURN_IF_ERROR(file_.Append(rows.const_data_ptr(), rows.nbytes()));
  begins_.push_back(begins_.back() + rows.size(1));
  return absl::OkStatus();
}

absl::StatusOr<torch::Tensor> EncodedSources::Get(size_t source) const {
  SPILLWAY_CHECK(source + 1 < begins_.size());
  const int64_t positions = begins_[source + 1] - begins_[source];
  torch::Tensor rows = torch::empty({1, positions, width_}, ScalarTypeOf(dtype_));
  const uint64_t position_bytes = width_ * DTypeBytes(dtype_);
  RETURN_IF_ERROR(file_.Read(begins_[source] * position_bytes, rows.data_ptr(), rows.nbytes()));
  return rows;
}

}  // namespace spillway
