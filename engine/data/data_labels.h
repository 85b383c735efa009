// Collects the labels of labelled data for a classifier whose config names none.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/data/labelled_text.h"
#include "engine/families/classifier_config.h"
#include "nlohmann/json.hpp"

namespace spillway {

// More distinct labels than this are refused: they are no classes.
inline constexpr size_t kMostDataLabels = 10'000;

// The labels of a classifier for these files: the names that `classifier` has, if they fit the
// data, else those of the data. Names are sorted by bytes and whole numbers by value, as in
// transformers' run_glue and run_ner. Numbers from 0 on without a gap are named LABEL_0 and so on,
// and keep all of the config's labels. One pass over the files; memory is bounded by
// kMostDataLabels. `may_replace`: labels of the data may replace the classifier's own names, and
// the head is initialised.
//
// kInvalidArgument: a row without a label, labels that are neither names nor whole numbers, more
// than kMostDataLabels, or, for a classifier with names, the first unknown label, with its file and
// line and the flag that takes the data's labels. REQUIRES: classifier.problem is known, or the
// labels are those of tokens.
absl::StatusOr<std::vector<std::string>> FindLabels(const std::vector<std::string>& files,
                                                    const TextKeys& keys,
                                                    const ClassifierConfig& classifier,
                                                    bool may_replace = false);

// The config.json with these labels: id2label, label2id and, if present, num_labels.
nlohmann::json WithLabels(nlohmann::json config, const std::vector<std::string>& labels);

}  // namespace spillway
