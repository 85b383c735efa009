// Losses of labels given to texts or to their tokens, as transformers' *ForSequenceClassification
// and *ForTokenClassification have them.
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
// Judged are the label with the highest score, the first of several, of tokens with kBetweenTexts
// after each sample's; of each label whether its score is above 0; the scores themselves. A config
// that leaves the problem to the data is a single label's.
std::shared_ptr<const LossUnit> NewLabelLoss(const ClassifierConfig& config);

}  // namespace spillway
