// What a run learns from and is evaluated on, as its model's task has it: windows or rows of
// tokens, texts with labels, pairs of texts.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/config/run_config.h"
#include "engine/data/labelled_samples.h"
#include "engine/data/paired_samples.h"
#include "engine/data/sample_rows.h"
#include "engine/data/token_source.h"
#include "engine/data/tokenizer.h"
#include "engine/families/decoder_config.h"
#include "engine/torch/model.h"

namespace spillway {

// Fills in what of the config follows from the model: lengths, and of a classifier its problem, by
// the data. kInvalidArgument for flags that are for models of other tasks, and for lengths that the
// model does not know.
absl::Status ResolveTask(RunConfig& config, DecoderConfig& model);

class RunData {
 public:
  // All outlive it. REQUIRES: ResolveTask.
  static absl::StatusOr<std::unique_ptr<RunData>> Open(const RunConfig& config,
                                                       const DecoderConfig& model,
                                                       const Tokenizer* tokenizer);

  Dataset* train() const { return train_.dataset.get(); }
  Dataset* evaluation() const { return evaluation_.dataset.get(); }  // null: there is none
  // Of those that are evaluated; null: they are no pairs.
  const PairedSamples* evaluated_pairs() const { return evaluation_.pairs.get(); }

  // What of how the data are laid a resumed run must have again.
  std::vector<std::pair<std::string, std::string>> Identity() const;

 private:
  // The samples of some files: tokens, with their rows where there are some, or one of the others.
  struct Laid {
    std::unique_ptr<TokenSource> tokens;
    std::unique_ptr<SampleRows> rows;  // null: windows
    std::unique_ptr<LabelledSamples> labelled;
    std::unique_ptr<PairedSamples> pairs;
    SampleLayout layout = SampleLayout::kWindows;
    std::unique_ptr<Dataset> dataset;
  };

  RunData(const RunConfig& config, const DecoderConfig& model, const Tokenizer* tokenizer)
      : config_(config), model_(model), tokenizer_(tokenizer) {}

  // All but the dataset. What is `evaluated` beside the data is laid as they are, but for what has
  // no samples.
  absl::StatusOr<Laid> Lay(const std::vector<std::string>& files, bool evaluated) const;
  absl::StatusOr<Laid> LayLabelled(const std::vector<std::string>& files) const;
  absl::StatusOr<Laid> LayPairs(const std::vector<std::string>& files) const;
  // `beside`: what is evaluated beside it; null: nothing.
  void OpenDataset(const Laid* beside, Laid& laid) const;

  const RunConfig& config_;
  const DecoderConfig& model_;
  const Tokenizer* const tokenizer_;
  Laid train_, evaluation_;
};

}  // namespace spillway
