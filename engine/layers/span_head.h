// The head of an encoder that answers questions with a part of the text, as transformers'
// *ForQuestionAnswering have it: two scores of each token, as the first one of the answer and as
// the last one.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "engine/families/transformer_config.h"
#include "engine/numeric/quality.h"
#include "engine/torch/model.h"

namespace spillway {

// Unit "spans": [samples, T, D] -> scores [samples, 2, T]: of first tokens, then of last ones.
// REQUIRES: config->finds_spans.
std::shared_ptr<const Unit> NewSpanUnit(std::shared_ptr<const TransformerConfig> config,
                                        const TransformerUnit& unit);

// How good answers are. `scores`: of each token of each evaluated sample, one after another and
// without padding, {as the first token of the answer, as the last one}.
using MeasureSpans = std::function<std::vector<QualityMeasure>(absl::Span<const Judgement> scores)>;

// The loss unit "loss", without parameters: cross-entropy over the T positions of a sample, padding
// included, as transformers has it. Labels [samples, 2] int64 are the positions of the answer's
// first and last token, kIgnoredLabel outside the sample; so the mean over labels is transformers'
// loss where a sample has both or none. The sum is in fp32. `measure`: for evaluations, whose
// batches are those of engine/torch/text_batch.h; null: the measures are not numbers.
std::shared_ptr<const LossUnit> NewSpanLoss(MeasureSpans measure = nullptr);

}  // namespace spillway
