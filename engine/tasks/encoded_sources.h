// What a model's encoder makes of the texts or sounds that others are made from, kept in a
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

// What is to be encoded, each as it is asked for, in order.
struct SourceList {
  size_t size = 0;
  std::function<absl::StatusOr<Batch>(size_t i)> get;  // of one sample
  int64_t longest = 1;                                 // positions of an encoder's output
  size_t largest = 0;                                  // takes the most memory
};

class EncodedSources {
 public:
  // Computes all of them, each as if it were alone. kCancelled where a signal came; a status that
  // ends in exit code 3 where the budget has no room, with the least that would do. `directory`:
  // for the file.
  static absl::StatusOr<std::unique_ptr<EncodedSources>> Encode(const Model& model,
                                                                WeightSource* weights,
                                                                const ForwardOptions& options,
                                                                const SourceList& sources,
                                                                const std::string& directory);

  // [1, positions, width] in the run's dtype and the host's memory. REQUIRES: there is one.
  absl::StatusOr<torch::Tensor> Get(size_t source) const;

  int64_t longest() const { return longest_; }  // positions
  int64_t width() const { return width_; }

 private:
  EncodedSources(ScratchFile file, DType dtype) : file_(std::move(file)), dtype_(dtype) {}
  absl::Status EncodeAll(const SourceList& sources, ForwardPass& pass);
  absl::Status Append(const torch::Tensor& encoded);

  ScratchFile file_;
  const DType dtype_;
  std::vector<int64_t> begins_ = {0};  // [source] its first position
  int64_t width_ = 0;
  int64_t longest_ = 0;
};

}  // namespace spillway
