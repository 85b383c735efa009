#include "engine/torch/sampling.h"

#include <algorithm>

#include "engine/numeric/random.h"

namespace spillway {

int64_t SampleToken(const torch::Tensor& logits, const SamplingOptions& options, uint64_t index) {
  if (options.temperature <= 0) return logits.argmax().item<int64_t>();
  const int64_t most =
      options.top_k > 0 ? std::min<int64_t>(options.top_k, logits.numel()) : logits.numel();
  const auto [likeliest, order] = (logits / options.temperature).topk(most);
  // Chances up to and with each, the likeliest first.
  const torch::Tensor sums = likeliest.to(torch::kFloat64).softmax(0).cumsum(0);
  const double* const sum = sums.const_data_ptr<double>();
  int64_t kept = 1;
  while (kept < most && sum[kept - 1] < options.top_p) ++kept;
  const double u = static_cast<double>(RandomBits(options.seed, /*stream=*/0x67656e, index) >> 11) *
                   0x1p-53 * sum[kept - 1];
  const int64_t chosen = std::upper_bound(sum, sum + kept, u) - sum;
  return order[std::min(chosen, kept - 1)].item<int64_t>();
}

}  // namespace spillway
