// Selects the tokens that masked language modelling predicts, like transformers'
// DataCollatorForLanguageModeling, but with a stateless generator: the same on every rank, in every
// placement, and on resume. Pure functions of values.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace spillway {

inline constexpr double kMaskProbability = 0.15;

struct MaskingRule {
  double probability = kMaskProbability;  // for each token that may be chosen
  uint64_t seed = 0;
  int64_t mask_token = 0;
  int64_t tokens = 0;  // the tokenizer's size: random tokens are below it
};

// Separates random streams: training texts are masked by their draw, evaluation texts by their
// number.
enum class MaskingUse { kTraining, kEvaluation };

// Chooses among those `tokens` that `may` [token] allows. Of ten chosen tokens eight become the
// mask token, one a random token, and one stays. Returns the chosen indices. The result for a token
// depends only on the rule, `use`, `number` and its index.
std::vector<int64_t> MaskTokens(const MaskingRule& rule, MaskingUse use, int64_t number,
                                const std::vector<bool>& may, absl::Span<int64_t> tokens);

// A bound on the chosen ones of this many tokens, exceeded in at most one of 10^20 batches: memory
// is planned for it.
int64_t MostMasked(int64_t tokens, double probability);

}  // namespace spillway
