// Samples for models with an encoder and a decoder: a source, which is a text or a sound, and a
// target, the text to generate from it.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/data/paired_samples.h"
#include "engine/torch/model.h"

namespace spillway {

class TargetDataset : public Dataset {
 public:
  // The sample's tokens; the source has none if it is a sound. The generated part follows the start
  // token of all texts.
  virtual absl::StatusOr<TextPair> Pair(int64_t sample) = 0;

  // Number of a target's first tokens that are given, such as the task, instead of generated.
  virtual int64_t given_tokens() const { return 0; }

  // The batch of these samples' sources with other targets, one for each, padded to `length`; 0:
  // padded as by Get. REQUIRES: no target is empty, or longer.
  virtual absl::StatusOr<Batch> GetWith(absl::Span<const int64_t> samples,
                                        absl::Span<const std::vector<int64_t>> targets,
                                        int64_t length) = 0;

  absl::StatusOr<Batch> Get(absl::Span<const int64_t> samples) final;
};

}  // namespace spillway
