// Answers to questions that are parts of a text: which one a model's scores give, as the
// postprocess_qa_predictions of transformers' run_qa.py finds it, and how near it is to the right
// ones, as SQuAD's evaluation scripts have it. Pure functions of values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace spillway {

// A window of a text as a model scored it; of each token:
struct ScoredWindow {
  std::vector<float> first, last;  // how likely it begins an answer, and ends it
  // Its bytes in the text; none where it is not of the text. The first token is never.
  std::vector<std::optional<std::pair<int64_t, int64_t>>> places;
};

struct AnswerOptions {
  int64_t candidates = 20;   // best first tokens of a window, best last ones, and answers kept
  int64_t most_tokens = 30;  // of an answer
  // A question may have no answer: then the empty one is given where its score (of the first token
  // as both, the least of all windows) is above that of the best other one by more than this. None:
  // every question has an answer.
  std::optional<double> null_threshold = {};
};

struct FoundAnswer {
  // Bytes of the text; 0 and 0: there is no answer.
  int64_t begin = 0, end = 0;
  double score = 0;        // of the first and the last token together
  double probability = 0;  // among the answers that were kept
};

// REQUIRES: windows of one text.
FoundAnswer FindAnswer(const std::vector<ScoredWindow>& windows, absl::string_view text,
                       const AnswerOptions& options);

// In lower case, without ASCII punctuation and the words "a", "an" and "the", with one space
// between words.
std::string NormalizedAnswer(absl::string_view text);

struct AnswerScore {
  double exact = 0, f1 = 0;  // 0 to 1
};

// The best of all right answers; none: there is no answer, and the empty one is right.
AnswerScore ScoreAnswer(absl::string_view answer, const std::vector<std::string>& right);

}  // namespace spillway
