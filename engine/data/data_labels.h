// The labels that labelled data have, for a classifier whose config names none of its own.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/data/labelled_text.h"
#include "engine/families/classifier_config.h"
#include "nlohmann/json.hpp"

namespace spillway {

// More different labels than this are refused: they are no classes.
inline constexpr size_t kMostDataLabels = 10'000;

// The labels of a classifier of these files: the names that `classifier` has, where they are of
// use, else those of the data. Names are sorted by their bytes and whole numbers by their value, as
// run_glue and run_ner of transformers do it; numbers from 0 on without a gap are called LABEL_0
// and so on, and none of the config's is dropped then. One pass over the files; memory is bounded
// by kMostDataLabels. `may_replace`: data with labels that a classifier with names of its own does
// not know have its place, as the head begins anew.
//
// kInvalidArgument: a row without a label, labels that are no names or whole numbers, or more than
// kMostDataLabels; of a classifier whose config has names of its own the first label that is none
// of them, with its file and line, and the flag that takes the data's.
// REQUIRES: classifier.problem is known, or the labels are those of tokens.
absl::StatusOr<std::vector<std::string>> FindLabels(const std::vector<std::string>& files,
                                                    const TextKeys& keys,
                                                    const ClassifierConfig& classifier,
                                                    bool may_replace = false);

// The config.json with these labels: id2label, label2id and, where it is there, num_labels.
nlohmann::json WithLabels(nlohmann::json config, const std::vector<std::string>& labels);

}  // namespace spillway
