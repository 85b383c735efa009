#include "engine/tasks/sample_texts.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "engine/chat/chat_format.h"
#include "engine/tasks/beginning_rows.h"
#include "engine/tasks/continue_texts.h"
#include "engine/tasks/text_sampling.h"
#include "engine/torch/text_batch.h"
#include "io/base/status.h"

namespace spillway {
namespace {

// More than anybody reads at every evaluation.
constexpr size_t kMostPrompts = 64;

}  // namespace

absl::StatusOr<std::unique_ptr<SampleTexts>> SampleTexts::Open(const RunConfig& config,
                                                               const TransformerConfig* model,
                                                               const Tokenizer* tokenizer,
                                                               const PairLengths& most,
                                                               const Encode& encode) {
  const std::string& file = config.sample_prompts.file;
  if (tokenizer == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--sample-prompts ", file, ": prompts need a tokenizer, and ", config.model, " has none"));
  }
  std::unique_ptr<SampleTexts> texts(new SampleTexts(model, tokenizer, most));
  SamplingFlags flags;
  flags.temperature = 0;
  flags.tokens = config.sample_prompts.new_tokens;
  ASSIGN_OR_RETURN(texts->sampling_, FindSampling({flags, "", config.model}, *model));
  FindEnds(*model, *tokenizer, texts->sampling_);
  ASSIGN_OR_RETURN(const std::vector<PromptRecord> records, ReadPrompts(file, "", ""));
  if (records.size() > kMostPrompts) {
    return absl::InvalidArgumentError(absl::StrCat("--sample-prompts ", file, " has ",
                                                   records.size(), " prompts; ", kMostPrompts,
                                                   " at most are continued at every evaluation"));
  }
  for (const PromptRecord& record : records) {
    const absl::Status added = texts->Add(config, encode, record);
    if (!added.ok()) return Annotate(added, absl::StrCat(file, ":", record.line));
  }
  PairLengths& longest = texts->longest_;
  longest.target = PaddedLength(longest.target, most.target);
  if (texts->has_sources()) longest.source = PaddedLength(longest.source, most.source);
  return texts;
}

absl::Status SampleTexts::Add(const RunConfig& config, const Encode& encode,
                              const PromptRecord& record) {
  ASSIGN_OR_RETURN(Prompt prompt, encode(record.prompt, record.chat));
  prompt.number = prompts_.size();
  // The last token of a text is not read.
  const auto length =
      static_cast<int64_t>(prompt.tokens.size()) + config.sample_prompts.new_tokens - 1;
  if (length > most_.target) {
    return absl::InvalidArgumentError(
        absl::StrCat("the prompt has ", prompt.tokens.size(), " tokens, and with --sample-tokens ",
                     config.sample_prompts.new_tokens, " it is longer than the ", most_.target,
                     has_sources() ? " positions of the model" : " tokens of a sample (--seq-len)",
                     ": give a shorter prompt, or fewer --sample-tokens"));
  }
  longest_.target = std::max(longest_.target, length);
  longest_.source = std::max(longest_.source, static_cast<int64_t>(prompt.source.size()));
  std::string shown = record.prompt;
  if (record.is_chat()) {
    ASSIGN_OR_RETURN(const ChatFormat* const format, tokenizer_.chat());
    ASSIGN_OR_RETURN(const JinjaText written,
                     format->RenderText(record.chat, true, config.chat_clock));
    shown = written.text;
  }
  shown_.push_back(std::move(shown));
  prompts_.push_back(std::move(prompt));
  return absl::OkStatus();
}

void SampleTexts::EndAt(const std::vector<int64_t>& tokens) { AddEnds(tokens, sampling_); }

absl::StatusOr<Batch> SampleTexts::BatchOf(absl::Span<const TextBeginning> texts) {
  PairLengths longest;
  for (const TextBeginning& text : texts) {
    const std::vector<int64_t>& source = prompts_[text.sample].source;
    longest.source = std::max(longest.source, static_cast<int64_t>(source.size()));
    longest.target = std::max(longest.target, static_cast<int64_t>(text.tokens.size()));
  }
  const int64_t length = PaddedLength(longest.target, most_.target);
  if (has_sources()) {
    std::vector<TextPair> pairs;
    for (const TextBeginning& text : texts) {
      // What the decoder reads of a target is the token that texts begin with and all but its last.
      TextPair& pair = pairs.emplace_back(prompts_[text.sample].source,
                                          std::vector(text.tokens.begin() + 1, text.tokens.end()));
      pair.target.push_back(0);
    }
    Batch batch = BatchOfPairs(pairs, model_, {PaddedLength(longest.source, most_.source), length});
    batch.labels = torch::Tensor();
    return batch;
  }
  Batch batch;
  batch.inputs = torch::zeros({static_cast<int64_t>(texts.size()), length}, torch::kInt64);
  for (size_t i = 0; i < texts.size(); ++i) {
    std::copy(texts[i].tokens.begin(), texts[i].tokens.end(),
              batch.inputs[static_cast<int64_t>(i)].mutable_data_ptr<int64_t>());
  }
  return batch;
}

absl::StatusOr<std::vector<SampleText>> SampleTexts::Write(NextTokens& next) {
  std::vector<SampleText> samples(prompts_.size());
  for (size_t i = 0; i < samples.size(); ++i) samples[i].prompt = shown_[i];
  ContinueHooks hooks;
  hooks.on_end = [&](size_t prompt, const Continuation& made) {
    samples[prompt].text = made.text;
    samples[prompt].ended = made.ended;
    return absl::OkStatus();
  };
  const auto beams = static_cast<int>(sampling_.beams);
  const int texts = std::clamp<int>(static_cast<int>(next.at_once()) / beams, 1,
                                    static_cast<int>(prompts_.size()));
  BeginningRows rows(/*first_sample=*/0, texts * beams, next);
  RETURN_IF_ERROR(ContinueTexts({rows, tokenizer_, sampling_}, prompts_, texts, hooks));
  return samples;
}

}  // namespace spillway
