// How near texts that were made are to those that they should be: BLEU, ROUGE and error rates,
// equal to what sacrebleu, rouge_score and jiwer say of them. No order of texts matters but to the
// last bit of ROUGE's means.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "engine/measures/bleu.h"
#include "engine/measures/error_rate.h"
#include "engine/measures/rouge.h"
#include "engine/numeric/quality.h"

namespace spillway {

// What all measures are made of, of one answer and its target.
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

  // "bleu" (0 to 100), "rouge1", "rouge2", "rougeL" (0 to 1), "wer" and "cer" (from 0, and less is
  // better); not a number of no text.
  std::vector<QualityMeasure> Values() const;

 private:
  int64_t texts_ = 0;
  BleuCounts bleu_;
  RougeScores rouge_;  // sums
  EditCounts words_, characters_;
};

}  // namespace spillway
