#include "engine/families/classifier_config.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace spillway {
namespace {

using nlohmann::json;

constexpr int64_t kMostLabels = 1 << 16;

std::string NumberedLabel(size_t number) { return absl::StrCat("LABEL_", number); }

// Reads names from an object {"0": ..., "1": ...} or a list. As in transformers the number of
// labels is that of entries, whatever their keys; those without a name are numbered.
void ReadNames(ConfigReader& reader, std::vector<std::string>& names) {
  const json* found = reader.Find({"id2label"});
  if (found == nullptr) return;
  const char* const kExpected = "an object of names by number, \"0\" on, or a list of names";
  if (!found->is_structured() || found->empty() || found->size() > kMostLabels) {
    return reader.Refuse("id2label", *found, kExpected);
  }
  for (size_t i = 0; i < found->size(); ++i) names.push_back(NumberedLabel(i));
  std::vector<bool> named(names.size());
  std::string outside;
  int64_t next = 0;
  for (const auto& [key, value] : found->items()) {
    int64_t number = next++;
    if (!found->is_array() && !absl::SimpleAtoi(key, &number)) {
      return reader.Refuse("id2label", *found, kExpected);
    }
    if (!value.is_string() && !value.is_number_integer()) {
      return reader.Refuse("id2label", *found, kExpected);
    }
    if (number < 0 || number >= static_cast<int64_t>(names.size())) {
      if (outside.empty()) outside = key;
      continue;
    }
    names[number] = value.is_string() ? value.get<std::string>() : value.dump();
    named[number] = true;
  }
  if (outside.empty()) return;
  const size_t first = std::find(named.begin(), named.end(), false) - named.begin();
  reader.Warn("id2label",
              absl::StrCat("id2label has ", names.size(), " labels, which are those from 0 to ",
                           names.size() - 1, ": ", ConfigReader::Shown(json(outside)),
                           " is passed over, and ", first, " has the name ", names[first]));
}

// A label2id that contradicts id2label has no effect, as in transformers.
void CompareNumbers(ConfigReader& reader, const std::vector<std::string>& names) {
  const json* found = reader.Find({"label2id"});
  if (found == nullptr || !reader.Has({"id2label"})) return;
  if (!found->is_object()) return reader.Refuse("label2id", *found, "an object of numbers by name");
  for (size_t i = 0; i < names.size(); ++i) {
    const auto number = found->find(names[i]);
    // If several labels share a name, label2id has the number of one of them.
    const bool known = number != found->end() && number->is_number_integer() && *number >= 0 &&
                       *number < names.size() && names[number->get<size_t>()] == names[i];
    if (known) continue;
    return reader.Warn(
        "label2id", absl::StrCat("label2id does not say that ", ConfigReader::Shown(json(names[i])),
                                 " is ", i, "; id2label counts"));
  }
}

}  // namespace

bool ClassifierConfig::has_default_labels() const {
  for (size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] != NumberedLabel(i)) return false;
  }
  return true;
}

const char* ProblemName(ClassifierProblem problem) {
  switch (problem) {
    case ClassifierProblem::kSingleLabel:
      return "single_label_classification";
    case ClassifierProblem::kMultiLabel:
      return "multi_label_classification";
    case ClassifierProblem::kRegression:
      return "regression";
  }
  return "";
}

void ReadLabels(ConfigReader& reader, ClassifierConfig& config) {
  int64_t count = 2;
  reader.Integer({"num_labels", "_num_labels"}, kMostLabels, &count);
  ReadNames(reader, config.labels);
  if (!reader.status().ok()) return;
  if (config.labels.empty()) {
    for (int64_t i = 0; i < count; ++i) config.labels.push_back(NumberedLabel(i));
  } else if (reader.Has({"num_labels"}) && count != static_cast<int64_t>(config.labels.size())) {
    reader.Warn("num_labels", absl::StrCat("num_labels is ", count, "; id2label counts, which has ",
                                           config.labels.size(), " labels"));
  }
  CompareNumbers(reader, config.labels);
  if (config.labels.size() == 1) config.problem = ClassifierProblem::kRegression;
  const json* problem = reader.Find({"problem_type"});
  if (problem == nullptr) return;
  using Problem = ClassifierProblem;
  for (Problem known : {Problem::kSingleLabel, Problem::kMultiLabel, Problem::kRegression}) {
    if (*problem != json(ProblemName(known))) continue;
    config.problem = known;
    return;
  }
  reader.Refuse("problem_type", *problem,
                "\"single_label_classification\", \"multi_label_classification\" or "
                "\"regression\"");
}

}  // namespace spillway
