// Questions as tokens: each with a window of its text, which has as many windows as it is long.
// They are kept in temporary files, so memory stays bounded however many there are.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/data/questions.h"
#include "engine/data/scratch_file.h"
#include "engine/families/transformer_config.h"
#include "engine/tokenizers/token_template.h"
#include "engine/tokenizers/tokenizer.h"

namespace spillway {

struct QuestionWindow {
  EncodedText text;  // the question, then the part of the context
  // The byte range [begin, end) of each token in the context; none for tokens outside the context.
  std::vector<std::optional<std::pair<int64_t, int64_t>>> places;
  // Positions of the first and the last token of the answer; both 0 (the first token of the window)
  // if the window does not contain the whole answer.
  int64_t first = 0, last = 0;
};

struct WindowOptions {
  int64_t seq_len = 384;  // most tokens of a window, its question's included
  int64_t overlap = 128;  // tokens of the context that a window has in common with the next
};

// As transformers' run_qa.py makes them: the windows of a tokenizer with truncation="only_second",
// max_length and stride, and the first answer's tokens where all of them are in the window. Tokens
// of an answer are those of the context alone, where run_qa.py, for an answer that ends a window,
// takes the last position of the padded window as its first token. kInvalidArgument for a question
// that leaves no room for the text, for an answer that is not within the context, and as of
// EncodeSpans and FitToModel.
absl::StatusOr<std::vector<QuestionWindow>> WindowsOf(const Question& question,
                                                      const Tokenizer& tokenizer,
                                                      const TransformerConfig& config,
                                                      const WindowOptions& options);

// The byte at which the character of this number begins; none beyond the text's end.
std::optional<int64_t> ByteOfCharacter(absl::string_view text, int64_t character);

struct QuestionSamplesOptions {
  const Tokenizer* tokenizer = nullptr;
  WindowOptions windows;
  bool keeps_questions = false;  // for QuestionOf: what is evaluated
  std::string scratch_directory;
};

// Immutable once made: any thread.
class QuestionSamples {
 public:
  // Reads all `files`, whose questions have answers or none, as they say. Warns of answers that are
  // not what the context has at their start. Errors as of ReadQuestions and WindowsOf.
  static absl::StatusOr<std::unique_ptr<QuestionSamples>> Read(
      const std::vector<std::string>& files, const TransformerConfig& config,
      const QuestionSamplesOptions& options);

  // Windows; at least 1.
  int64_t size() const { return windows_.size(); }
  int64_t questions() const { return questions_; }
  // Questions without an answer.
  int64_t impossible() const { return impossible_; }

  struct Sample {
    QuestionWindow window;
    int64_t question = 0;  // its number; those of the windows never fall
  };
  // REQUIRES: 0 <= window < size().
  absl::StatusOr<Sample> Get(int64_t window) const;
  // REQUIRES: keeps_questions, 0 <= question < questions().
  absl::StatusOr<Question> QuestionOf(int64_t question) const;

  int64_t longest() const { return longest_; }  // tokens
  int64_t tokens() const { return tokens_; }    // of all windows
  // Changes with any window.
  std::string fingerprint() const;

 private:
  QuestionSamples(ScratchRows windows, ScratchRows texts)
      : windows_(std::move(windows)), texts_(std::move(texts)) {}
  absl::Status Add(const Question& question, const std::vector<QuestionWindow>& windows,
                   bool keeps_question);

  // {question, first, last}, then of each token itself with its type in the upper half, and its
  // place: begin and end, or -1 twice.
  ScratchRows windows_;
  ScratchRows texts_;  // of each question its JSON, eight bytes a number, behind its length
  int64_t questions_ = 0, impossible_ = 0, longest_ = 0, tokens_ = 0;
};

}  // namespace spillway
