// The encoder's output for the texts or sounds from which texts are generated, stored in a
// temporary file while the rest of the model generates.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/data/scratch_file.h"
#include "engine/torch/forward_pass.h"

namespace spillway {

// The sources to encode, requested one by one, in order.
struct SourceList {
  size_t size = 0;
  std::function<absl::StatusOr<Batch>(size_t i)> get;  // one sample
  int64_t longest = 1;                                 // positions in an encoder's output
  size_t largest = 0;  // index of the one that needs the most memory
};

class EncodedSources {
 public:
  // Encodes all sources, each as if it were alone. kCancelled after a signal; an error of exit code
  // 3 if the budget is too small, with the smallest sufficient one. `directory`: for the file.
  static absl::StatusOr<std::unique_ptr<EncodedSources>> Encode(const Model& model,
                                                                WeightSource* weights,
                                                                const ForwardOptions& options,
                                                                const SourceList& sources,
                                                                const std::string& directory);

  // [1, positions, width] in the run's dtype and host memory. REQUIRES: the source exists.
  absl::StatusOr<torch::Tensor> Get(size_t source) const;

  int64_t longest() const { return longest_; }  // positions
  int64_t width() const { return width_; }

 private:
  EncodedSources(ScratchFile file, DType dtype) : file_(std::move(file)), dtype_(dtype) {}
  absl::Status EncodeAll(const SourceList& sources, ForwardPass& pass);
  absl::Status Append(const torch::Tensor& encoded);

  ScratchFile file_;
  const DType dtype_;
  std::vector<int64_t> begins_ = {0};  // [source] first position
  int64_t width_ = 0;
  int64_t longest_ = 0;
};

}  // namespace spillway
