// The classification head of a model, as its config.json describes it: labels of a text, or of each
// of its tokens.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/families/activations.h"
#include "engine/families/config_reader.h"

namespace spillway {

// The meaning of labels, transformers' problem_type.
enum class ClassifierProblem {
  kSingleLabel,  // exactly one label is right: cross-entropy
  kMultiLabel,   // each label is right or not: binary cross-entropy of each
  kRegression,   // labels are numbers: mean squared error
};

// Scores of a text are classifier(drop(act(pooler(drop_in(x))))) of its first position's vector x
// in an encoder, and classifier(norm(x)) of its last token's in a decoder; scores of tokens are
// classifier(drop(x)) of each position's.
struct ClassifierConfig {
  std::vector<std::string> labels;  // [label] name
  bool labels_from_data = false;    // the labels come from the training data; for messages
  bool of_tokens = false;           // every token has a single label
  // A decoder: scores are those of the last token that is not `padding_token`, as in transformers,
  // and the classifier has no bias.
  bool of_last_token = false;
  std::optional<int64_t> padding_token = std::nullopt;
  // None: the first row of the data decides between single- and multi-label, as in transformers.
  std::optional<ClassifierProblem> problem;
  Activation activation = Activation::kTanh;
  double input_dropout = 0;  // drop_in
  double dropout = 0;

  // Whether the labels are only numbered, LABEL_0, LABEL_1, ..., as in a config that names none.
  bool has_default_labels() const;
  bool operator==(const ClassifierConfig&) const = default;
};

// The name in problem_type: "single_label_classification", "multi_label_classification",
// "regression".
const char* ProblemName(ClassifierProblem problem);

// Sets labels and problem from id2label, label2id, num_labels and problem_type; notes
// contradictions in `reader`.
void ReadLabels(ConfigReader& reader, ClassifierConfig& config);

}  // namespace spillway
