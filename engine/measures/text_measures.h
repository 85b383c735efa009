// Measures generated texts against references: BLEU, ROUGE and error rates, equal to sacrebleu,
// rouge_score and jiwer. The order of texts affects only the last bit of ROUGE's means.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "engine/measures/bleu.h"
#include "engine/measures/error_rate.h"
#include "engine/measures/rouge.h"
#include "engine/numeric/quality.h"

namespace spillway {

// The counts of one answer and its reference that all measures are computed from.
struct TextCounts {
  BleuCounts bleu;
  RougeCounts rouge;
  EditCounts words, characters;
};

TextCounts CompareTexts(absl::string_view answer, absl::string_view target);

class TextMeasures {
 public:
  void Add(const TextCounts& counts);
  int64_t texts() const { return texts_; }

  // "bleu" (0 to 100), "rouge1", "rouge2", "rougeL" (0 to 1), "wer" and "cer" (from 0, lower is
  // better); NaN without texts.
  std::vector<QualityMeasure> Values() const;

 private:
  int64_t texts_ = 0;
  BleuCounts bleu_;
  RougeScores rouge_;  // sums
  EditCounts words_, characters_;
};

}  // namespace spillway
