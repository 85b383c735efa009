#include "engine/tasks/evaluation_texts.h"

#include <algorithm>
#include <optional>

#include "engine/base/progress.h"
#include "engine/tasks/beginning_rows.h"
#include "engine/tasks/continue_texts.h"
#include "engine/tokenizers/text_decoder.h"
#include "engine/torch/text_batch.h"
#include "io/base/clock.h"
#include "io/base/status.h"

namespace spillway {
namespace {

// Whose sources and texts are in memory at a time.
constexpr int64_t kSamplesTogether = 1024;

// Making that takes longer shows how far it is.
constexpr double kSilentMakingSeconds = 5;

}  // namespace

absl::StatusOr<Batch> EvaluationTexts::BatchOf(absl::Span<const TextBeginning> texts) {
  std::vector<int64_t> samples;
  std::vector<std::vector<int64_t>> targets;
  int64_t longest = 0;
  for (const TextBeginning& text : texts) {
    samples.push_back(text.sample);
    // What the decoder reads of a target is the token that texts begin with and all but its last.
    targets.emplace_back(text.tokens.begin() + 1, text.tokens.end()).push_back(0);
    longest = std::max<int64_t>(longest, targets.back().size());
  }
  const int64_t most = samples_.given_tokens() + sampling_.max_tokens;
  ASSIGN_OR_RETURN(Batch batch, samples_.GetWith(samples, targets, PaddedLength(longest, most)));
  batch.labels = torch::Tensor();
  return batch;
}

absl::StatusOr<std::vector<TextCounts>> EvaluationTexts::Make(int64_t begin, int64_t end,
                                                              NextTokens& next) {
  std::vector<TextCounts> counts;
  for (int64_t first = begin; first < end; first += kSamplesTogether) {
    RETURN_IF_ERROR(MakeSome(first, std::min(end, first + kSamplesTogether), next, counts));
  }
  return counts;
}

absl::Status EvaluationTexts::MakeSome(int64_t begin, int64_t end, NextTokens& next,
                                       std::vector<TextCounts>& counts) {
  std::vector<Prompt> prompts;
  std::vector<std::string> targets;
  for (int64_t sample = begin; sample < end; ++sample) {
    ASSIGN_OR_RETURN(TextPair pair, samples_.Pair(sample));
    ASSIGN_OR_RETURN(targets.emplace_back(), TextOf(pair.target));
    Prompt& prompt = prompts.emplace_back();
    prompt.number = static_cast<uint64_t>(sample);
    prompt.tokens = {model_.start_token};
    const auto text = pair.target.begin() + samples_.given_tokens();
    prompt.tokens.insert(prompt.tokens.end(), pair.target.begin(), text);
    prompt.source = std::move(pair.source);
  }
  const size_t before = counts.size();
  counts.resize(before + prompts.size());
  const double began = MonotonicSeconds();
  std::optional<Progress> progress;
  int64_t made_texts = 0;
  ContinueHooks hooks;
  hooks.on_end = [&](size_t prompt, const Continuation& made) {
    counts[before + prompt] = CompareTexts(made.text, targets[prompt]);
    ++made_texts;
    if (!progress && MonotonicSeconds() - began > kSilentMakingSeconds) {
      progress.emplace("making texts", end - begin, began);
    }
    if (progress) progress->Update(made_texts);
    return absl::OkStatus();
  };
  const int texts = static_cast<int>(std::max<int64_t>(1, next.at_once() / sampling_.beams));
  BeginningRows rows(begin, texts * static_cast<int>(sampling_.beams), next);
  return ContinueTexts({rows, tokenizer_, sampling_}, prompts, texts, hooks);
}

absl::StatusOr<std::string> EvaluationTexts::TextOf(absl::Span<const int64_t> target) const {
  TextDecoder decoder(&tokenizer_);
  for (const int64_t token : target.subspan(samples_.given_tokens())) {
    const std::vector<int64_t>& ends = sampling_.ends;
    if (std::find(ends.begin(), ends.end(), token) != ends.end()) break;
    if (!tokenizer_.IsSpecial(token)) RETURN_IF_ERROR(decoder.Next(token).status());
  }
  decoder.Finish();
  return decoder.whole();
}

}  // namespace spillway
