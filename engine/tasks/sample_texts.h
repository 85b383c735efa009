// Texts that evaluations of a run write behind prompts (--sample-prompts).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/config/resolved_config.h"
#include "engine/data/jsonl.h"
#include "engine/datasets/pair_dataset.h"
#include "engine/families/transformer_config.h"
#include "engine/options/sampling_options.h"
#include "engine/tasks/text_model.h"
#include "engine/tokenizers/tokenizer.h"
#include "engine/torch/text_maker.h"

namespace spillway {

class SampleTexts : public SampleWriter {
 public:
  using Encode =
      std::function<absl::StatusOr<Prompt>(const std::string& text, const Conversation& chat)>;

  // Reads the prompts of config.sample_prompts and encodes them with `encode`; the likeliest tokens
  // follow, as far as generation_config.json leaves that open. `model` and `tokenizer` outlive it,
  // and the latter may be null. `most`: positions that a sample of the run may have; a source only
  // for a model with an encoder. kInvalidArgument for prompts that are empty, too many, or longer.
  // REQUIRES: config.sample_prompts.file; Task::Resolve.
  static absl::StatusOr<std::unique_ptr<SampleTexts>> Open(const RunConfig& config,
                                                           const TransformerConfig* model,
                                                           const Tokenizer* tokenizer,
                                                           const PairLengths& most,
                                                           const Encode& encode);

  // Texts end at these tokens, too.
  void EndAt(const std::vector<int64_t>& tokens);

  // Positions of the longest texts that are computed, with their padding: of what the decoder
  // reads, and of a model with an encoder the source.
  const PairLengths& longest() const { return longest_; }

  absl::StatusOr<Batch> BatchOf(absl::Span<const TextBeginning> texts) override;
  int64_t together() const override { return sampling_.beams; }
  int64_t classes() const override { return model_.vocabulary; }
  absl::StatusOr<std::vector<SampleText>> Write(NextTokens& next) override;

 private:
  SampleTexts(const TransformerConfig* model, const Tokenizer* tokenizer, PairLengths most)
      : model_(*model), tokenizer_(*tokenizer), most_(most) {}
  absl::Status Add(const RunConfig& config, const Encode& encode, const PromptRecord& record);
  bool has_sources() const { return most_.source > 0; }

  const TransformerConfig& model_;
  const Tokenizer& tokenizer_;
  const PairLengths most_;  // that a sample of the run may have
  SamplingOptions sampling_;
  std::vector<Prompt> prompts_;
  std::vector<std::string> shown_;  // [prompt] as text
  PairLengths longest_;
};

}  // namespace spillway
