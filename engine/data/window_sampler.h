// Which window of the data a sample is.
//
// T tokens have W = floor((T-1)/S) windows; window w is tokens [wS, wS+S], the first S
// the inputs, the last S the labels. Step s (from 0) takes samples sG to sG+G-1.
// Sample n is window n mod W, or, shuffled, the (n mod W)-th of a permutation that
// differs by seed and epoch (n div W). A pure function of values: nothing to save.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/options/shape_options.h"

namespace spillway {

// W; 0 when the tokens make no window.
int64_t WindowCount(int64_t tokens, int64_t seq_len);

// The index, in [0, size), of sample n. REQUIRES: size > 0, n >= 0.
int64_t SampleIndex(SampleOrder order, uint64_t seed, int64_t size, int64_t n);

// The indices of step `step` (from 0) of `global_batch` samples.
std::vector<int64_t> StepSamples(SampleOrder order, uint64_t seed, int64_t size,
                                 int64_t global_batch, int64_t step);

// Steps until every sample has been taken `epochs` times; at least 1.
int64_t StepsForEpochs(double epochs, int64_t size, int64_t global_batch);

}  // namespace spillway
