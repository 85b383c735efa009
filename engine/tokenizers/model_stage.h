// The last stage: encodes each segment, which is a word, into tokens.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/tokenizers/text_stage.h"
#include "engine/tokenizers/word_model.h"

namespace spillway {

// One thread; the model must outlive it.
class ModelStage final : public TextStage {
 public:
  explicit ModelStage(const WordModel* model)
      : model_(model), cuts_(model->cuts()), encoder_(model->NewEncoder()) {}

  // Sets the output of tokens; required before the first call, and before later ones with another
  // output.
  void AppendTo(std::vector<uint32_t>* tokens) { tokens_ = tokens; }

  absl::Status Text(absl::string_view piece) override;
  absl::Status EndSegment() override;
  absl::Status Segment(absl::string_view word) override;
  absl::Status Token(uint32_t token) override;
  void Continue() override {}
  void Reset() override;

 private:
  absl::Status Encode(bool ends);

  const WordModel* const model_;
  const WordCuts* const cuts_;
  const std::unique_ptr<WordEncoder> encoder_;
  std::vector<uint32_t>* tokens_ = nullptr;
  std::string held_;     // not yet encoded
  size_t searched_ = 0;  // no cut is possible before it
};

}  // namespace spillway
