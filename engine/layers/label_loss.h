// Losses for labels of texts or of tokens, like transformers' *ForSequenceClassification and
// *ForTokenClassification.
#pragma once

#include <memory>

#include "engine/families/classifier_config.h"
#include "engine/torch/model.h"

namespace spillway {

// The loss unit "loss", without parameters, on scores [samples, labels] of the run's dtype; the sum
// is in fp32.
//
//   single label  labels [samples] int64, of tokens [samples, T]: cross-entropy
//   multi-label   labels [samples, labels] fp32, 0 or 1: binary cross-entropy of each
//   regression    labels [samples, labels] fp32, [samples] of one: the square of each difference
//
// Predictions are the label with the highest score, the first of several; for tokens these with
// kBetweenTexts after each sample; for multi-label whether each score is above 0; for regression
// the scores. A config that leaves the problem to the data means single label.
std::shared_ptr<const LossUnit> NewLabelLoss(const ClassifierConfig& config);

}  // namespace spillway
