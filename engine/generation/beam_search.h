// Beam search like transformers' generate: finds the likeliest continuations of one text.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <vector>

#include "engine/options/sampling_options.h"

namespace spillway {

class BeamSearch {
 public:
  // Continues `prompt`. All members of `options` apply except those about random sampling; it
  // outlives the search. `source`: for a model with an encoder, the encoder's tokens; outlives the
  // search, too. REQUIRES: options.beams > 1, options.max_tokens > 0, and the temperature is 0.
  BeamSearch(const std::vector<int64_t>& prompt, const SamplingOptions& options,
             const std::vector<int64_t>& source);

  // The active texts, the likeliest first: before the first step the prompt alone.
  const std::vector<std::vector<int64_t>>& running() const { return running_; }

  // `chances`: for each active text the log probabilities of the next token, [classes] fp32,
  // possibly of fewer classes than the model has. Returns for each new active text the index of the
  // one that it extends by a token.
  std::vector<int> Step(const std::vector<torch::Tensor>& chances);

  // No active text can become better than the finished ones.
  bool done() const { return done_; }
  // The best text, including its prompt. REQUIRES: done.
  const std::vector<int64_t>& best() const { return finished_.front().tokens; }

 private:
  struct Finished {
    std::vector<int64_t> tokens;
    float score = 0;
    bool is_text = true;  // false: an empty place
  };

  bool Ends(int64_t token) const;
  // Divides the score by a power of `length`, the number of new tokens, so that long texts are not
  // penalized.
  float Penalised(float score, int64_t length) const;
  bool AllFinished() const;

  const SamplingOptions& options_;
  const std::vector<int64_t>& source_;
  const int64_t prompt_tokens_;
  std::vector<std::vector<int64_t>> running_;
  std::vector<float> scores_;       // [running]
  std::vector<Finished> finished_;  // [options.beams], the best first
  bool improves_ = true;            // active texts may still become better
  bool done_ = false;
};

}  // namespace spillway
