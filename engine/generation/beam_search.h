// Beam search as transformers' generate has it: of one text the continuations that are likeliest as
// a whole.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <vector>

#include "engine/options/sampling_options.h"

namespace spillway {

class BeamSearch {
 public:
  // From `prompt` on. Of `options` all but what is drawn by chance counts; it outlives the search.
  // `source`: of a model with an encoder, what that reads; outlives it, too.
  // REQUIRES: options.beams > 1, options.max_tokens > 0, and the temperature is 0.
  BeamSearch(const std::vector<int64_t>& prompt, const SamplingOptions& options,
             const std::vector<int64_t>& source);

  // The texts that may go on, the likeliest first: before the first step the prompt alone.
  const std::vector<std::vector<int64_t>>& running() const { return running_; }

  // `chances`: of each of them the logarithms of the next token's, [classes] fp32, which need not
  // be all classes of the model. -> of which of them each of the new ones is made, by one token
  // more.
  std::vector<int> Step(const std::vector<torch::Tensor>& chances);

  // Nothing that runs can be better.
  bool done() const { return done_; }
  // The best text, with its prompt. REQUIRES: done.
  const std::vector<int64_t>& best() const { return finished_.front().tokens; }

 private:
  struct Finished {
    std::vector<int64_t> tokens;
    float score = 0;
    bool is_text = true;  // false: a place that nothing has taken yet
  };

  bool Ends(int64_t token) const;
  // The same of `length` new tokens, so that long texts are not worse for that.
  float Penalised(float score, int64_t length) const;
  bool AllFinished() const;

  const SamplingOptions& options_;
  const std::vector<int64_t>& source_;
  const int64_t prompt_tokens_;
  std::vector<std::vector<int64_t>> running_;
  std::vector<float> scores_;       // [running]
  std::vector<Finished> finished_;  // [options.beams], the best first
  bool improves_ = true;            // what runs may
  bool done_ = false;
};

}  // namespace spillway
