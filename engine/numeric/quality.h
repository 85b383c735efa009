// How good predictions are, beside their loss: the measures of GLUE, as scikit-learn and scipy have
// them. Pure functions of values.
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

// "accuracy 0.9100, f1 0.9050"; "" of none.
std::string QualityText(const std::vector<QualityMeasure>& measures);

}  // namespace spillway
