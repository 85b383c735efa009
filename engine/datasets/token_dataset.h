// Windows of tokens as a Dataset, for language models.
#pragma once

#include <cstdint>
#include <string>

#include "engine/data/token_source.h"
#include "engine/torch/model.h"

namespace spillway {

// Sample w is tokens [wS, wS + S]: inputs [samples, S] the first S, labels [samples, S]
// the last S, both int64. The label of a token that carries no loss is kIgnoredLabel.
class TokenDataset : public Dataset {
 public:
  // `source` outlives it and has at least S + 1 tokens.
  TokenDataset(const TokenSource* source, int64_t seq_len);

  int64_t size() const override;
  absl::StatusOr<Batch> Get(absl::Span<const int64_t> samples) override;
  std::string fingerprint() const override;

 private:
  const TokenSource* const source_;
  const int64_t seq_len_;
};

}  // namespace spillway
