#include "engine/data/data_labels.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "engine/base/shallow_json.h"
#include "engine/base/stop_signal.h"
#include "engine/data/labelled_words.h"
#include "io/base/check.h"
#include "io/base/status.h"

namespace spillway {
namespace {

using nlohmann::json;
using Labels = std::vector<std::string>;

// [label] "FILE:LINE" of its first occurrence.
using FirstPlaces = std::map<std::string, std::string>;

std::string Ordinal(int64_t number) { return absl::StrCat("LABEL_", number); }

std::optional<int64_t> WholeLabel(const std::string& label) {
  int64_t number = 0;
  const bool is_number = absl::SimpleAtoi(label, &number) && label == absl::StrCat(number);
  return is_number ? std::optional(number) : std::nullopt;
}

json NamesByNumber(const Labels& labels) {
  json names = json::object();
  for (size_t i = 0; i < labels.size(); ++i) names[absl::StrCat(i)] = labels[i];
  return names;
}

json NumbersByName(const Labels& labels) {
  json numbers = json::object();
  for (size_t i = 0; i < labels.size(); ++i) numbers[labels[i]] = i;
  return numbers;
}

// Sorted in the order of a classifier.
Labels Sorted(const FirstPlaces& places) {
  Labels labels;
  bool are_numbers = true;
  for (const auto& [label, place] : places) {
    labels.push_back(label);
    are_numbers &= WholeLabel(label).has_value();
  }
  if (!are_numbers) return labels;  // a map is ordered by bytes
  std::sort(labels.begin(), labels.end(), [](const std::string& a, const std::string& b) {
    return *WholeLabel(a) < *WholeLabel(b);
  });
  return labels;
}

Labels Numbered(size_t count) {
  Labels labels;
  while (labels.size() < count) labels.push_back(Ordinal(static_cast<int64_t>(labels.size())));
  return labels;
}

// Whether the labels are all the numbers from 0 to the last.
bool AreOrdinals(const Labels& sorted) {
  for (size_t i = 0; i < sorted.size(); ++i) {
    if (sorted[i] != absl::StrCat(i)) return false;
  }
  return true;
}

class LabelCollector {
 public:
  LabelCollector(const ClassifierConfig& classifier, bool may_replace)
      : classifier_(classifier), may_replace_(may_replace) {}

  // Adds the label of a row.
  absl::Status Add(const json& label, const std::string& place) {
    const auto name = LabelName(label);
    if (!name) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the label ", ConfigReader::Shown(label), " is no name and no whole number",
          label.is_number()
              ? ": to learn numbers, put \"problem_type\": \"regression\" and \"id2label\": "
                "{\"0\": \"LABEL_0\"} into config.json"
              : ""));
    }
    places_.emplace(*name, place);
    if (places_.size() <= kMostDataLabels) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("more than ", kMostDataLabels,
                     " different labels so far: is --label-key the one of the labels?"));
  }

  // Adds a list of labels; in a table it is JSON.
  absl::Status AddList(const json& label, const std::string& place) {
    const json list =
        label.is_string() ? ParseShallowJson(label.get_ref<const std::string&>()) : label;
    if (!list.is_array()) {
      return absl::InvalidArgumentError(absl::StrCat("the label ", ConfigReader::Shown(label),
                                                     " is no list, and those of other rows are"));
    }
    const bool are_names =
        std::all_of(list.begin(), list.end(), [](const json& one) { return one.is_string(); });
    if (!are_names) {  // a 0 or 1 for each label, which ReadLabel checks
      most_ = std::max(most_, list.size());
      return absl::OkStatus();
    }
    for (const json& one : list) RETURN_IF_ERROR(Add(one, place));
    return absl::OkStatus();
  }

  absl::StatusOr<Labels> Labelled() const {
    const Labels& own = classifier_.labels;
    const Labels found = Sorted(places_);
    if (!classifier_.has_default_labels()) {
      const absl::Status known = CheckKnown();
      const bool fits = known.ok() && (most_ == 0 || most_ == own.size());
      if (fits || !may_replace_) return known.ok() ? absl::StatusOr<Labels>(own) : known;
      // Numbers from 0 on are numbered labels, as in a config without names.
      return AreOrdinals(found) ? Numbered(std::max(found.size(), most_)) : found;
    }
    if (found.size() == 1 && most_ == 0 && classifier_.problem != ClassifierProblem::kMultiLabel) {
      return absl::InvalidArgumentError(
          absl::StrCat(places_.begin()->second, ": every row has the label ",
                       ConfigReader::Shown(json(found[0])), ": there is nothing to tell apart"));
    }
    if (!found.empty() && !AreOrdinals(found)) {
      return AreKnown(found) ? own : found;
    }
    return Numbered(std::max({own.size(), found.size(), most_}));
  }

 private:
  // By name or, failing that, by number.
  bool IsKnown(const std::string& label) const {
    const Labels& own = classifier_.labels;
    if (std::find(own.begin(), own.end(), label) != own.end()) return true;
    const auto number = WholeLabel(label);
    return number && *number >= 0 && *number < static_cast<int64_t>(own.size());
  }

  // Data may use the default names (LABEL_1), too.
  bool AreKnown(const Labels& labels) const {
    return std::all_of(labels.begin(), labels.end(), [&](const std::string& label) {
      return std::find(classifier_.labels.begin(), classifier_.labels.end(), label) !=
             classifier_.labels.end();
    });
  }

  absl::Status CheckKnown() const {
    for (const auto& [label, place] : places_) {
      if (IsKnown(label)) continue;
      return absl::InvalidArgumentError(
          absl::StrCat(place, ": ", UnknownLabel(json(label), classifier_),
                       ". --ignore-mismatched-sizes trains a new head for the labels of the data"));
    }
    return absl::OkStatus();
  }

  const ClassifierConfig& classifier_;
  const bool may_replace_;
  FirstPlaces places_;
  size_t most_ = 0;  // labels in a list of zeros and ones
};

}  // namespace

absl::StatusOr<Labels> FindLabels(const std::vector<std::string>& files, const TextKeys& keys,
                                  const ClassifierConfig& classifier, bool may_replace) {
  LabelCollector collector(classifier, may_replace);
  for (const std::string& file : files) {
    const auto place = [&](int64_t line) { return absl::StrCat(file, ":", line); };
    if (classifier.of_tokens) {
      RETURN_IF_ERROR(ReadLabelledWords(file, keys, /*needs_label=*/true,
                                        [&](const LabelledWords& text) -> absl::Status {
                                          RETURN_IF_ERROR(StopSignal::Check());
                                          for (const json& label : text.labels) {
                                            RETURN_IF_ERROR(collector.Add(label, place(text.line)));
                                          }
                                          return absl::OkStatus();
                                        }));
      continue;
    }
    SPILLWAY_CHECK(classifier.problem.has_value());
    const bool several = *classifier.problem == ClassifierProblem::kMultiLabel;
    RETURN_IF_ERROR(ReadLabelledTexts(
        file, keys, /*needs_label=*/true, [&](const LabelledText& text) -> absl::Status {
          RETURN_IF_ERROR(StopSignal::Check());
          return several ? collector.AddList(text.label, place(text.line))
                         : collector.Add(text.label, place(text.line));
        }));
  }
  return collector.Labelled();
}

json WithLabels(json config, const Labels& labels) {
  config["id2label"] = NamesByNumber(labels);
  config["label2id"] = NumbersByName(labels);
  for (const char* key : {"num_labels", "_num_labels"}) {
    if (config.contains(key)) config[key] = labels.size();
  }
  return config;
}

}  // namespace spillway
