// Samples for models with an encoder and a decoder: a source, which is read or heard, and a target,
// which is made of it.
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
  // The sample's tokens; the source has none where it is heard. What is made of it stands behind
  // the token that all texts begin with.
  virtual absl::StatusOr<TextPair> Pair(int64_t sample) = 0;

  // Of a target's first tokens, so many say what is to be made: they are given, not made.
  virtual int64_t given_tokens() const { return 0; }

  // The batch of these samples' sources and of other targets than theirs, one for each, padded to
  // `length`; 0: as Get pads. REQUIRES: no target is empty, or longer.
  virtual absl::StatusOr<Batch> GetWith(absl::Span<const int64_t> samples,
                                        absl::Span<const std::vector<int64_t>> targets,
                                        int64_t length) = 0;

  absl::StatusOr<Batch> Get(absl::Span<const int64_t> samples) final;
};

}  // namespace spillway
