// What a run learns from and is evaluated on, as its model's task has it: windows or rows of
// tokens, texts with masked ones, texts with labels, pairs of texts, sounds with texts.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/config/run_config.h"
#include "engine/data/labelled_samples.h"
#include "engine/data/masked_texts.h"
#include "engine/data/paired_samples.h"
#include "engine/data/sample_rows.h"
#include "engine/data/speech_samples.h"
#include "engine/data/token_source.h"
#include "engine/datasets/pair_dataset.h"
#include "engine/datasets/target_dataset.h"
#include "engine/families/transformer_config.h"
#include "engine/tokenizers/tokenizer.h"
#include "engine/torch/model.h"
#include "tools/compute/task_data.h"

namespace spillway {

// Where a run's temporary files of data go, by its OUTPUT.
std::string ScratchDirectory(const std::string& output);

// Fills in what of the config follows from the model: lengths, and of a classifier its problem, by
// the data. kInvalidArgument for flags that are for models of other tasks, and for lengths that the
// model does not know.
absl::Status ResolveTask(RunConfig& config, TransformerConfig& model);

class RunData : public TaskData {
 public:
  // All outlive it. `samples`: positions of the longest texts that evaluations write behind prompts
  // (SampleTexts::longest). REQUIRES: ResolveTask.
  static absl::StatusOr<std::unique_ptr<RunData>> Open(const RunConfig& config,
                                                       const TransformerConfig& model,
                                                       const Tokenizer* tokenizer,
                                                       const PairLengths& samples = {});

  Dataset* train() const override { return train_.dataset.get(); }
  Dataset* evaluation() const override { return evaluation_.dataset.get(); }
  DatasetSize train_size() const override { return SizeOf(train_); }
  DatasetSize evaluation_size() const override { return SizeOf(evaluation_); }
  std::vector<std::pair<std::string, std::string>> Identity() const override;
  std::vector<int64_t> LearntEnds() const override {
    return train_.tokens && !model_.masked ? train_.tokens->learnt_ends() : std::vector<int64_t>();
  }
  // Of a language model: how samples of the data lie, whether that was said or not.
  SampleLayout layout() const { return train_.layout; }
  // Those that are evaluated; null: there are none, or the model makes no texts of others.
  TargetDataset* evaluated_targets() const { return evaluation_.targets; }

 private:
  // The samples of some files: tokens, with their rows where there are some or as texts to be
  // masked, or one of the others.
  struct Laid {
    std::unique_ptr<TokenSource> tokens;
    std::unique_ptr<SampleRows> rows;  // null: windows
    std::unique_ptr<MaskedTexts> masked;
    std::unique_ptr<LabelledSamples> labelled;
    std::unique_ptr<PairedSamples> pairs;
    std::unique_ptr<SpeechSamples> speech;
    SampleLayout layout = SampleLayout::kWindows;
    std::unique_ptr<Dataset> dataset;
    TargetDataset* targets = nullptr;  // it, where it is of pairs or speech
  };

  RunData(const RunConfig& config, const TransformerConfig& model, const Tokenizer* tokenizer,
          const PairLengths& samples)
      : config_(config), model_(model), tokenizer_(tokenizer), samples_(samples) {}

  // All but the dataset. What is `evaluated` beside the data is laid as they are, but for what has
  // no samples.
  absl::StatusOr<Laid> Lay(const std::vector<std::string>& files, bool evaluated) const;
  absl::StatusOr<Laid> LayLabelled(const std::vector<std::string>& files) const;
  absl::StatusOr<Laid> LayPairs(const std::vector<std::string>& files) const;
  absl::StatusOr<Laid> LaySpeech(const std::vector<std::string>& files) const;
  // From tokens on.
  absl::Status LayRows(Laid& laid) const;
  absl::Status LayMasked(Laid& laid) const;
  DatasetSize SizeOf(const Laid& laid) const;
  // `beside`: what is evaluated beside it; null: nothing.
  void OpenDataset(const Laid* beside, Laid& laid) const;

  const RunConfig& config_;
  const TransformerConfig& model_;
  const Tokenizer* const tokenizer_;
  const PairLengths samples_;
  Laid train_, evaluation_;
};

}  // namespace spillway
