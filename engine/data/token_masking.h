// Which tokens of a text a model has to find, as transformers' DataCollatorForLanguageModeling
// chooses them, but by a generator without a state: the same on every rank, in every placement, and
// when a run goes on. Pure functions of values.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace spillway {

inline constexpr double kMaskProbability = 0.15;

struct MaskingRule {
  double probability = kMaskProbability;  // of each token that may be chosen
  uint64_t seed = 0;
  int64_t mask_token = 0;
  int64_t tokens = 0;  // of the tokenizer: a token drawn at random is below it
};

// Which texts are masked apart from each other: those of a run by its draws, those that it is
// evaluated on by their numbers.
enum class MaskingUse { kTraining, kEvaluation };

// Chooses among `tokens`, `may` [token] saying which may be chosen, and puts in the place of one
// that is the mask token (of ten eight), a token drawn at random (one) or itself (one). Returns the
// numbers of those chosen. What becomes of a token depends on the rule, `use`, `number` and its
// place alone.
std::vector<int64_t> MaskTokens(const MaskingRule& rule, MaskingUse use, int64_t number,
                                const std::vector<bool>& may, absl::Span<int64_t> tokens);

// More of so many tokens are not chosen but once in 10^20 batches or less: what memory is planned
// for.
int64_t MostMasked(int64_t tokens, double probability);

}  // namespace spillway
