// Questions about texts, whose answers are parts of these: .jsonl with a question a row, and .json
// as SQuAD's files are.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace spillway {

struct Question {
  struct Answer {
    std::string text;
    int64_t start = 0;  // in the context, counted in characters
  };
  std::string id;  // the file's, or its number in the file from 0
  std::string question, context;
  std::vector<Answer> answers;  // none: the context has no answer, or the file does not say it
};

// Whether a file of this name is read here.
bool IsQuestionFile(const std::string& path);

// Calls `take` for each question, in order; its first error ends the reading and names the file and
// the line or the number of the question. A row of .jsonl is
//   {"question": "...", "context": "...", "answers": {"text": ["..."], "answer_start": [0]}}
// or has a list of {"text": "...", "answer_start": 0} as answers, and may have an "id". A .json is
// SQuAD's, {"data": [{"paragraphs": [{"context": "...", "qas": [...]}]}]}, or has such rows in a
// list, alone or as "data". A question whose "is_impossible" is true has no answer. Memory is
// bounded by a paragraph with its questions. `needs_answers`: a question whose answers are not said
// is an error. kInvalidArgument for other files and for what they should not have; kCancelled at a
// StopSignal.
absl::Status ReadQuestions(const std::string& path, bool needs_answers,
                           const std::function<absl::Status(const Question&)>& take);

}  // namespace spillway
