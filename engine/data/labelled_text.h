// Reads labelled texts from .jsonl, .csv and .tsv: one text or two per row.
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

// The names of columns or keys in a file.
struct TextKeys {
  // One or two. Empty: the first of GLUE's usual names that the first row has: sentence1 and
  // sentence2, premise and hypothesis, question1 and question2, question and sentence or answer,
  // text and text_pair, text, sentence.
  std::vector<std::string> texts;
  std::string label;  // "": label, or labels
};

// Parses NAME[,NAME], the value of `flag`.
absl::StatusOr<std::vector<std::string>> ParseTextKeys(absl::string_view flag,
                                                       const std::string& text);

struct LabelledText {
  std::string first;
  std::optional<std::string> second;
  // As in the file (a string in a table); null if it is missing.
  nlohmann::json label;
  int64_t line = 0;
};

// Calls `take` for each row, like ReadRows; kInvalidArgument, "FILE:LINE: ...", for rows without
// those keys, and for texts as in TextOf. Other keys are ignored. `needs_label`: a row without one
// is an error.
absl::Status ReadLabelledTexts(const std::string& path, const TextKeys& keys, bool needs_label,
                               const std::function<absl::Status(const LabelledText&)>& take);

// Converts a non-null label to the index of one of config.labels, to 0 or 1 for each of them, or to
// as many numbers as there are config.labels. Accepted are
//   single label  a name, or a number
//   multi-label   a list of names, or of a 0 or 1 for each; in a table such a list as JSON
//   regression    a number; for several labels a list, in a table as JSON
// kInvalidArgument names the label and the expected form. REQUIRES: classifier.problem.
absl::StatusOr<std::vector<float>> ReadLabel(const nlohmann::json& label,
                                             const ClassifierConfig& classifier);

// The name by which labels of data are collected and compared: a string, or a whole number or
// boolean as text; none for anything else.
std::optional<std::string> LabelName(const nlohmann::json& label);

// The first labels, separated by commas.
std::string ShownLabels(const std::vector<std::string>& labels);

// "the label X is none of the 2 of config.json (id2label): ...".
std::string UnknownLabel(const nlohmann::json& label, const ClassifierConfig& classifier);

// Sets segment types to 0 if the model has no others. kInvalidArgument for tokens and types outside
// the model's ranges.
absl::Status FitToModel(const Tokenizer& tokenizer, const TransformerConfig& config,
                        EncodedText& text);
absl::Status NoRoomError(int64_t seq_len);

// The problem of data whose config has none, by the first label in `path`: a list is multi-label,
// anything else single-label. Errors as in ReadLabelledTexts.
absl::StatusOr<ClassifierProblem> FindProblem(const std::string& path, const TextKeys& keys);

}  // namespace spillway
