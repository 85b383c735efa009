// Measures of predictions besides the loss: GLUE's, as computed by scikit-learn and scipy, and
// those of entities, as computed by seqeval. Pure functions of values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace spillway {

struct QualityMeasure {
  std::string name;  // a name of MeasureKinds
  double value = 0;  // NaN if undefined, such as the correlation with a constant
};

// The measures of evaluations, the loss first.
struct MeasureKind {
  const char* name;
  bool less_is_better;
};
const std::vector<MeasureKind>& MeasureKinds();

// Whether one value of a measure is better than another; NaN never is. REQUIRES: the name is among
// MeasureKinds.
bool IsBetter(absl::string_view measure, double value, double than);

// The value of the measure of that name; NaN if it is missing.
double ValueOf(const std::vector<QualityMeasure>& measures, absl::string_view name);

// A prediction and its target.
struct Judgement {
  float prediction = 0;
  float label = 0;
};

// Judgements of label numbers: accuracy; F1 of label 1 if there are two labels, else the mean over
// all that occur (macro); Matthews' correlation, 0 where it is undefined.
std::vector<QualityMeasure> SingleLabelQuality(absl::Span<const Judgement> judgements,
                                               int64_t labels);

// Judgements of 0 or 1 for each of `labels` labels, text by text: accuracy of texts with all labels
// right, and F1 over all labels (micro).
std::vector<QualityMeasure> MultiLabelQuality(absl::Span<const Judgement> judgements,
                                              int64_t labels);

// Judgements of numbers, several per text taken together: Pearson's and Spearman's correlation.
std::vector<QualityMeasure> RegressionQuality(absl::Span<const Judgement> judgements);

// Judgements of label numbers of tokens, with a kBetweenTexts after each text: accuracy; with
// labels O, B-X and I-X (or E-X and S-X, too) precision, recall and F1 of whole entities, in
// seqeval's default mode.
inline constexpr float kBetweenTexts = -1;
std::vector<QualityMeasure> TokenQuality(absl::Span<const Judgement> judgements,
                                         const std::vector<std::string>& labels);

// Judgements of counts, right and all: accuracy; and the perplexity, e to the loss.
std::vector<QualityMeasure> CountedQuality(absl::Span<const Judgement> judgements, double loss);

// "accuracy 0.9100, f1 0.9050"; "" without measures.
std::string QualityText(const std::vector<QualityMeasure>& measures);

}  // namespace spillway
