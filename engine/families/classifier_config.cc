#include "engine/families/classifier_config.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace spillway {
namespace {

using nlohmann::json;

constexpr int64_t kMostLabels = 1 << 16;

// "0", "1", ... to their names.
void ReadNames(ConfigReader& reader, std::vector<std::string>& names) {
  const json* found = reader.Find({"id2label"});
  if (found == nullptr) return;
  const char* const kExpected = "an object of names by number, \"0\" on, or a list of names";
  if (!found->is_structured() || found->empty() || found->size() > kMostLabels) {
    return reader.Refuse("id2label", *found, kExpected);
  }
  names.assign(found->size(), "");
  int64_t next = 0;
  for (const auto& [key, value] : found->items()) {
    int64_t number = next++;
    const bool right = value.is_string() && (found->is_array() || absl::SimpleAtoi(key, &number)) &&
                       number >= 0 && number < static_cast<int64_t>(names.size()) &&
                       names[number].empty() && !value.get_ref<const std::string&>().empty();
    if (!right) return reader.Refuse("id2label", *found, kExpected);
    names[number] = value.get<std::string>();
  }
}

// label2id says the same the other way round.
void CheckNumbers(ConfigReader& reader, const std::vector<std::string>& names) {
  const json* found = reader.Find({"label2id"});
  if (found == nullptr || !reader.Has({"id2label"})) return;
  if (!found->is_object()) return reader.Refuse("label2id", *found, "an object of numbers by name");
  for (size_t i = 0; i < names.size(); ++i) {
    const auto number = found->find(names[i]);
    if (number != found->end() && *number == json(i)) continue;
    return reader.Fail(
        "label2id", absl::StrCat("label2id does not say that ", ConfigReader::Shown(json(names[i])),
                                 " is ", i, ", as id2label does"));
  }
}

}  // namespace

bool ClassifierConfig::has_default_labels() const {
  for (size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] != absl::StrCat("LABEL_", i)) return false;
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
    for (int64_t i = 0; i < count; ++i) config.labels.push_back(absl::StrCat("LABEL_", i));
  } else if (reader.Has({"num_labels"}) && count != static_cast<int64_t>(config.labels.size())) {
    reader.Fail("num_labels", absl::StrCat("num_labels is ", count, ", but id2label has ",
                                           config.labels.size(), " labels"));
  }
  CheckNumbers(reader, config.labels);
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
