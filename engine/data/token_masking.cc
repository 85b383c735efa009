#include "engine/data/token_masking.h"

#include <algorithm>
#include <cmath>

#include "engine/numeric/random.h"

namespace spillway {
namespace {

// Streams for a text's own key; far from those for the seed's, the first of which are parameters'.
constexpr uint64_t kMaskingStream = uint64_t{0x6d61736b} << 32;
constexpr uint64_t kChoice = 0, kDrawn = 1;

}  // namespace

std::vector<int64_t> MaskTokens(const MaskingRule& rule, MaskingUse use, int64_t number,
                                const std::vector<bool>& may, absl::Span<int64_t> tokens) {
  const uint64_t key = RandomBits(rule.seed, kMaskingStream + static_cast<uint64_t>(use),
                                  static_cast<uint64_t>(number));
  std::vector<int64_t> chosen;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (!may[i]) continue;
    const uint64_t bits = RandomBits(key, kChoice, i);
    const double choice = static_cast<double>(bits >> 32) * 0x1p-32;
    if (choice >= rule.probability) continue;
    chosen.push_back(static_cast<int64_t>(i));
    const double change = static_cast<double>(bits & 0xffffffff) * 0x1p-32;
    if (change < 0.8) {
      tokens[i] = rule.mask_token;
    } else if (change < 0.9) {
      const uint64_t drawn = RandomBits(key, kDrawn, i) % static_cast<uint64_t>(rule.tokens);
      tokens[i] = static_cast<int64_t>(drawn);
    }
  }
  return chosen;
}

int64_t MostMasked(int64_t tokens, double probability) {
  const double mean = static_cast<double>(tokens) * probability;
  const double most = mean + 10 * std::sqrt(mean * (1 - probability)) + 32;
  return std::min(tokens, static_cast<int64_t>(most));
}

}  // namespace spillway
