// How answers are looked for in texts. Plain values.
#pragma once

#include <cstdint>
#include <optional>

namespace spillway {

struct QuestionOptions {
  int64_t doc_stride = 128;         // tokens of a text that a window has in common with the next
  int64_t most_answer_tokens = 30;  // of an answer
  // A question may have no answer: the empty one is given if its score is above that of the best
  // other one by more than this. None: every question has an answer; in training, unless held-out
  // data have questions without one, then 0.
  std::optional<double> null_threshold;
};

}  // namespace spillway
