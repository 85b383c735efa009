// How good predictions are, beside their loss: the measures of GLUE, as scikit-learn and scipy have
// them, and of entities, as seqeval has them. Pure functions of values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace spillway {

struct QualityMeasure {
  std::string name;  // of MeasureKinds
  double value = 0;  // not a number where it has none, as the correlation with a constant
};

// What evaluations are measured by, the loss first.
struct MeasureKind {
  const char* name;
  bool less_is_better;
};
const std::vector<MeasureKind>& MeasureKinds();

// Whether one value of a measure is better than another; one that is no number is never.
// REQUIRES: the name is among MeasureKinds.
bool IsBetter(absl::string_view measure, double value, double than);

// The value of the one of this name; not a number where it is not there.
double ValueOf(const std::vector<QualityMeasure>& measures, absl::string_view name);

// What was predicted of something, and what it is.
struct Judgement {
  float prediction = 0;
  float label = 0;
};

// Numbers of labels: accuracy; F1, of two labels that of label 1, of more the mean of all that
// occur (macro); Matthews' correlation, 0 where it is undefined.
std::vector<QualityMeasure> SingleLabelQuality(absl::Span<const Judgement> judgements,
                                               int64_t labels);

// 0 or 1 for each of `labels` labels of a text, text by text: accuracy, of texts that are right in
// all of them, and F1 over all (micro).
std::vector<QualityMeasure> MultiLabelQuality(absl::Span<const Judgement> judgements,
                                              int64_t labels);

// Numbers, of several a text one after another, taken together: Pearson's and Spearman's
// correlation.
std::vector<QualityMeasure> RegressionQuality(absl::Span<const Judgement> judgements);

// Numbers of labels of the tokens of texts, after each text one of kBetweenTexts: accuracy; where
// labels are O and B- and I- of something (or E- and S- of it, too), precision, recall and F1 of
// whole entities, as seqeval's default mode finds them.
inline constexpr float kBetweenTexts = -1;
std::vector<QualityMeasure> TokenQuality(absl::Span<const Judgement> judgements,
                                         const std::vector<std::string>& labels);

// How many are right, of how many: their accuracy; and the perplexity, e to the loss.
std::vector<QualityMeasure> CountedQuality(absl::Span<const Judgement> judgements, double loss);

// "accuracy 0.9100, f1 0.9050"; "" of none.
std::string QualityText(const std::vector<QualityMeasure>& measures);

}  // namespace spillway
