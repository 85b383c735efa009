// Maps samples to windows of the data.
//
// T tokens have W = floor((T-1)/S) windows; window w is tokens [wS, wS+S], the first S the inputs,
// the last S the labels. Step s (from 0) takes samples sG to sG+G-1 (after a resume with another
// batch: the next G samples not taken). Sample n is window n mod W, or, shuffled, the (n mod W)-th
// of a permutation that differs by seed and epoch (n div W). A pure function of values, without
// state to save.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/options/shape_options.h"

namespace spillway {

// W; 0 if the tokens make no window.
int64_t WindowCount(int64_t tokens, int64_t seq_len);

// The index, in [0, size), of sample n. REQUIRES: size > 0, n >= 0.
int64_t SampleIndex(SampleOrder order, uint64_t seed, int64_t size, int64_t n);

// The indices of samples [first, first + count).
std::vector<int64_t> SamplesFrom(SampleOrder order, uint64_t seed, int64_t size, int64_t first,
                                 int64_t count);

// Steps until every sample has been taken `epochs` times; at least 1. Steps before `cursor` may
// have had another size.
int64_t StepsForEpochs(double epochs, int64_t size, int64_t global_batch,
                       const SampleCursor& cursor = {});

}  // namespace spillway
