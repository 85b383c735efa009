// Texts with labels, of .jsonl, .csv and .tsv: one text a row, or two.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/families/transformer_config.h"
#include "engine/tokenizers/token_template.h"
#include "engine/tokenizers/tokenizer.h"
#include "nlohmann/json.hpp"

namespace spillway {

// What a file calls its columns, or the keys of its objects.
struct TextKeys {
  // One or two. Empty: the first of those that are usual in GLUE and that the first row has:
  // sentence1 and sentence2, premise and hypothesis, question1 and question2, question and sentence
  // or answer, text and text_pair, text, sentence.
  std::vector<std::string> texts;
  std::string label;  // "": label, or labels
};

// NAME[,NAME] as `flag` has it.
absl::StatusOr<std::vector<std::string>> ParseTextKeys(absl::string_view flag,
                                                       const std::string& text);

struct LabelledText {
  std::string first;
  std::optional<std::string> second;
  // As the file has it, of a table a string; null where there is none.
  nlohmann::json label;
  int64_t line = 0;
};

// Calls `take` for each row, as ReadRows; kInvalidArgument, "FILE:LINE: ...", for rows without
// those keys, and for texts as of TextOf, too. Other keys are passed over. `needs_label`: a row
// without one is an error.
absl::Status ReadLabelledTexts(const std::string& path, const TextKeys& keys, bool needs_label,
                               const std::function<absl::Status(const LabelledText&)>& take);

// What a label, not null, means: the number of one of config.labels; of each 0 or 1; numbers, as
// many as config.labels. Taken are
//   single label  a name, or a number
//   multi-label   a list of names, or of a 0 or 1 for each; in a table such a list as JSON
//   regression    a number; of several a list, in a table as JSON
// kInvalidArgument says what it is, and what was expected. REQUIRES: classifier.problem.
absl::StatusOr<std::vector<float>> ReadLabel(const nlohmann::json& label,
                                             const ClassifierConfig& classifier);

// A label's name as labels of data are collected and compared: a string, or a whole number or truth
// value as text; none for anything else.
std::optional<std::string> LabelName(const nlohmann::json& label);

// The first labels, with commas between.
std::string ShownLabels(const std::vector<std::string>& labels);

// "the label X is none of the 2 of config.json (id2label): ...".
std::string UnknownLabel(const nlohmann::json& label, const ClassifierConfig& classifier);

// Types become 0 where the model knows no other. kInvalidArgument for tokens and types of another
// model.
absl::Status FitToModel(const Tokenizer& tokenizer, const TransformerConfig& config,
                        EncodedText& text);
absl::Status NoRoomError(int64_t seq_len);

// What the data mean where the config does not say it, by the first label of `path`: a list is
// multi-label, anything else a single label. Errors as of ReadLabelledTexts.
absl::StatusOr<ClassifierProblem> FindProblem(const std::string& path, const TextKeys& keys);

}  // namespace spillway
