// What an encoder's config.json says of the labels that it gives to a text, or to its tokens.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/families/activations.h"
#include "engine/families/config_reader.h"

namespace spillway {

// What labels mean, as transformers' problem_type has it.
enum class ClassifierProblem {
  kSingleLabel,  // one of them is right: cross-entropy
  kMultiLabel,   // each is right or not: binary cross-entropy of each
  kRegression,   // they are numbers: the mean squared error
};

// The first position's vector x becomes scores: classifier(drop(act(pooler(drop_in(x))))); or that
// of each: classifier(drop(x)).
struct ClassifierConfig {
  std::vector<std::string> labels;  // [label] its name
  bool labels_from_data = false;    // they are those of the training data, for messages
  bool of_tokens = false;           // one of them is right for each token: a single label
  // None: the first row of the data decides between the first two, as transformers has it.
  std::optional<ClassifierProblem> problem;
  Activation activation = Activation::kTanh;
  double input_dropout = 0;  // drop_in
  double dropout = 0;

  // Whether the labels are only numbered: LABEL_0, LABEL_1, ..., as where no config names them.
  bool has_default_labels() const;
  bool operator==(const ClassifierConfig&) const = default;
};

// "single_label_classification", "multi_label_classification", "regression".
const char* ProblemName(ClassifierProblem problem);

// labels and problem, from id2label, label2id, num_labels and problem_type; notes what contradicts
// itself in `reader`.
void ReadLabels(ConfigReader& reader, ClassifierConfig& config);

}  // namespace spillway
