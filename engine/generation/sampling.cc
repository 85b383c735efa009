#include "engine/generation/sampling.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "engine/numeric/random.h"

namespace spillway {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

// arXiv 1909.05858, section 4.1.
void PenaliseRepetition(absl::Span<const int64_t> text, double penalty, float* scores,
                        int64_t classes) {
  std::vector<bool> seen(classes);
  const auto factor = static_cast<float>(penalty);
  for (const int64_t token : text) {
    if (token >= classes || seen[token]) continue;
    seen[token] = true;
    scores[token] = scores[token] < 0 ? scores[token] * factor : scores[token] / factor;
  }
}

// Whatever followed in `seen` where the last n - 1 tokens of the text stood.
void ForbidRepeatedNgrams(absl::Span<const int64_t> text, absl::Span<const int64_t> seen, size_t n,
                          float* scores, int64_t classes) {
  if (text.size() + 1 < n) return;
  const auto last = text.subspan(text.size() - (n - 1));
  for (size_t i = 0; i + n <= seen.size(); ++i) {
    if (seen.subspan(i, n - 1) != last) continue;
    const int64_t token = seen[i + n - 1];
    if (token < classes) scores[token] = kNever;
  }
}

// arXiv 2212.04356, as transformers' WhisperTimeStampLogitsProcessor has it. `made`: the new
// tokens.
void KeepTimesInOrder(absl::Span<const int64_t> made, const SamplingOptions& options, float* scores,
                      int64_t classes) {
  const int64_t zero = options.first_timestamp;
  if (zero < 1 || zero >= classes) return;
  const auto forbid = [&](int64_t begin, int64_t end) {
    if (begin < std::min(end, classes))
      std::fill(scores + begin, scores + std::min(end, classes), kNever);
  };
  forbid(zero - 1, zero);  // <|notimestamps|>
  const auto is_time = [&](int64_t token) { return token >= zero; };
  const size_t count = made.size();
  const bool last = count >= 1 && is_time(made[count - 1]);
  const bool one_before = count < 2 || is_time(made[count - 2]);
  if (last && one_before) forbid(zero, classes);
  if (last && !one_before && !options.ends.empty()) forbid(0, options.ends.front());
  const auto latest = std::find_if(made.rbegin(), made.rend(), is_time);
  if (latest != made.rend()) forbid(zero, last && !one_before ? *latest : *latest + 1);
  if (count == 0) {
    forbid(0, zero);
    if (options.last_first_timestamp >= 0) forbid(options.last_first_timestamp + 1, classes);
  }
  // A time comes where times together are likelier than any word.
  double highest = kNever, times = 0;
  float best_word = kNever;
  for (int64_t i = 0; i < classes; ++i) highest = std::max<double>(highest, scores[i]);
  for (int64_t i = zero; i < classes; ++i) times += std::exp(scores[i] - highest);
  for (int64_t i = 0; i < zero; ++i) best_word = std::max(best_word, scores[i]);
  if (times > std::exp(best_word - highest)) forbid(0, zero);
}

torch::Tensor KeepTopK(const torch::Tensor& scores, int64_t k) {
  if (k <= 0 || k >= scores.numel()) return scores;
  const torch::Tensor smallest = std::get<0>(scores.topk(k))[-1];
  return scores.masked_fill(scores < smallest, kNever);
}

torch::Tensor KeepTopP(const torch::Tensor& scores, double p) {
  if (p >= 1) return scores;
  const auto [sorted, order] = scores.sort(/*dim=*/0, /*descending=*/false);
  torch::Tensor removed = sorted.softmax(0).cumsum(0) <= 1 - p;
  removed[-1] = false;
  return scores.masked_fill(torch::zeros_like(removed).scatter(0, order, removed), kNever);
}

}  // namespace

torch::Tensor ScoresOf(const torch::Tensor& logits, absl::Span<const int64_t> text,
                       int64_t prompt_tokens, const SamplingOptions& options,
                       absl::Span<const int64_t> source) {
  torch::Tensor scores = logits.contiguous().clone();
  float* const values = scores.mutable_data_ptr<float>();
  const int64_t classes = scores.numel(), length = static_cast<int64_t>(text.size());
  if (options.repetition_penalty != 1) {
    PenaliseRepetition(text, options.repetition_penalty, values, classes);
  }
  if (options.no_repeat_ngram > 0) {
    ForbidRepeatedNgrams(text, text, static_cast<size_t>(options.no_repeat_ngram), values, classes);
  }
  if (options.source_no_repeat_ngram > 0) {
    ForbidRepeatedNgrams(text, source, static_cast<size_t>(options.source_no_repeat_ngram), values,
                         classes);
  }
  if (length < options.min_length || length - prompt_tokens < options.min_tokens) {
    for (const int64_t end : options.ends) {
      if (end < classes) values[end] = kNever;
    }
  }
  const auto force = [&](int64_t token) {
    if (token < 0 || token >= classes) return;
    std::fill_n(values, classes, kNever);
    values[token] = 0;
  };
  // As transformers has it: only of texts that begin with a single token, and what must not come
  // first is then looked at behind it.
  const bool forced_first = prompt_tokens == 1 && options.forced_first >= 0;
  if (forced_first && length == 1) force(options.forced_first);
  if (options.max_tokens > 0 && length - prompt_tokens + 1 == options.max_tokens) {
    force(options.forced_last);
  }
  const auto suppress = [&](const std::vector<int64_t>& tokens) {
    for (const int64_t token : tokens) {
      if (token < classes) values[token] = kNever;
    }
  };
  if (length == prompt_tokens + forced_first) suppress(options.suppressed_first);
  suppress(options.suppressed);
  if (options.first_timestamp >= 0) {
    KeepTimesInOrder(text.subspan(prompt_tokens), options, values, classes);
  }
  if (options.temperature <= 0) return scores;
  return KeepTopP(KeepTopK(scores / options.temperature, options.top_k), options.top_p);
}

int64_t SampleToken(const torch::Tensor& scores, const SamplingOptions& options, uint64_t index,
                    uint64_t text_number) {
  const int64_t most = (scores > kNever).sum().item<int64_t>();
  if (options.temperature <= 0 || most == 0) return scores.argmax().item<int64_t>();
  const auto [likeliest, order] = scores.topk(most);
  // Chances up to and with each, the likeliest first.
  const torch::Tensor sums = likeliest.to(torch::kFloat64).softmax(0).cumsum(0);
  const double* const sum = sums.const_data_ptr<double>();
  const uint64_t stream = 0x67656e + (text_number << 32);
  const double u =
      static_cast<double>(RandomBits(options.seed, stream, index) >> 11) * 0x1p-53 * sum[most - 1];
  const int64_t chosen = std::upper_bound(sum, sum + most, u) - sum;
  return order[std::min(chosen, most - 1)].item<int64_t>();
}

}  // namespace spillway
