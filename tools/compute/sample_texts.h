// Texts that evaluations of a run write behind prompts (--sample-prompts).
#pragma once

#include <cstdint>
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
#include "engine/tokenizers/tokenizer.h"
#include "engine/torch/text_maker.h"
#include "tools/compute/text_model.h"

namespace spillway {

class SampleTexts : public SampleWriter {
 public:
  // Reads and encodes the prompts of config.sample_prompts; the likeliest tokens follow, as far as
  // generation_config.json leaves that open. `model` and `tokenizer` outlive it, and the latter may
  // be null. kInvalidArgument for prompts that are empty, too many, or longer than a sample of the
  // run has room for. REQUIRES: config.sample_prompts.file; ResolveTask.
  static absl::StatusOr<std::unique_ptr<SampleTexts>> Open(const RunConfig& config,
                                                           const TransformerConfig* model,
                                                           const Tokenizer* tokenizer);

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
  absl::Status Add(const RunConfig& config, const PromptRecord& record);

  const TransformerConfig& model_;
  const Tokenizer& tokenizer_;
  const PairLengths most_;  // that a sample of the run may have
  SamplingOptions sampling_;
  std::vector<Prompt> prompts_;
  std::vector<std::string> shown_;  // [prompt] as text
  PairLengths longest_;
};

}  // namespace spillway
