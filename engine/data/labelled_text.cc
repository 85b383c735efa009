#include "engine/data/labelled_text.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "engine/base/shallow_json.h"
#include "engine/data/jsonl.h"
#include "engine/data/text_rows.h"
#include "io/base/status.h"

namespace spillway {
namespace {

using nlohmann::json;

constexpr size_t kShownLabels = 8;

const std::vector<std::vector<std::string>>& UsualTextKeys() {
  static const auto& keys = *new std::vector<std::vector<std::string>>{{"sentence1", "sentence2"},
                                                                       {"premise", "hypothesis"},
                                                                       {"question1", "question2"},
                                                                       {"question", "sentence"},
                                                                       {"question", "answer"},
                                                                       {"text", "text_pair"},
                                                                       {"text"},
                                                                       {"sentence"}};
  return keys;
}

bool HasAll(const json& row, const std::vector<std::string>& keys) {
  return std::all_of(keys.begin(), keys.end(),
                     [&](const std::string& key) { return row.contains(key); });
}

// Reads rows of any kind of file as objects. Errors lack file and line.
class Rows {
 public:
  Rows(const TextKeys& keys, bool needs_label) : keys_(keys), needs_label_(needs_label) {}

  // Whether a row's value is read.
  bool Keeps(absl::string_view key) const {
    const auto has = [&](const std::vector<std::string>& keys) {
      return std::find(keys.begin(), keys.end(), key) != keys.end();
    };
    const auto& usual = UsualTextKeys();
    return key == keys_.label || key == "label" || key == "labels" || has(keys_.texts) ||
           std::any_of(usual.begin(), usual.end(), has);
  }

  absl::StatusOr<LabelledText> Read(const json& row) {
    if (!found_) RETURN_IF_ERROR(FindKeys(row));
    LabelledText text;
    ASSIGN_OR_RETURN(text.first, TextAt(row, keys_.texts[0]));
    if (keys_.texts.size() > 1) {
      ASSIGN_OR_RETURN(text.second, TextAt(row, keys_.texts[1]));
    }
    if (!keys_.label.empty() && row.contains(keys_.label)) text.label = row[keys_.label];
    if (needs_label_ && text.label.is_null()) {
      return Wrong(
          absl::StrCat("it has no \"", keys_.label.empty() ? "label" : keys_.label,
                       "\" (--label-key NAME says where labels are); its keys: ", ShownKeys(row)));
    }
    return text;
  }

 private:
  static absl::Status Wrong(const std::string& why) { return absl::InvalidArgumentError(why); }

  // Selects keys by the first row; all others must have them, too.
  absl::Status FindKeys(const json& row) {
    found_ = true;
    for (const auto& usual : UsualTextKeys()) {
      if (keys_.texts.empty() && HasAll(row, usual)) keys_.texts = usual;
    }
    if (keys_.texts.empty()) {
      return Wrong(absl::StrCat(
          "it has none of the usual names of texts, such as \"text\", \"sentence\", or "
          "\"sentence1\" and \"sentence2\" (--text-keys NAME[,NAME] says where they are); its "
          "keys: ",
          ShownKeys(row)));
    }
    for (const char* usual : {"label", "labels"}) {
      if (keys_.label.empty() && row.contains(usual)) keys_.label = usual;
    }
    return absl::OkStatus();
  }

  static absl::StatusOr<std::string> TextAt(const json& row, const std::string& key) {
    const auto found = row.find(key);
    if (found == row.end()) {
      return Wrong(absl::StrCat("it has no \"", key, "\"; its keys: ", ShownKeys(row)));
    }
    return TextOf(*found, key, "classify");
  }

  TextKeys keys_;
  const bool needs_label_;
  bool found_ = false;
};

std::string Shown(const json& label) { return ConfigReader::Shown(label); }

// A number, or a string with one.
std::optional<double> NumberOf(const json& label) {
  double number = 0;
  if (label.is_number()) {
    number = label.get<double>();
  } else if (!label.is_string() ||
             !absl::SimpleAtod(label.get_ref<const std::string&>(), &number)) {
    return std::nullopt;
  }
  if (!std::isfinite(static_cast<float>(number))) return std::nullopt;
  return number;
}

// The index of a label by its name, or else by its number.
absl::StatusOr<float> OneLabel(const json& label, const ClassifierConfig& classifier) {
  const std::vector<std::string>& names = classifier.labels;
  if (const auto name = LabelName(label)) {
    const auto named = std::find(names.begin(), names.end(), *name);
    if (named != names.end()) return static_cast<float>(std::distance(names.begin(), named));
  }
  // Names from data are complete; numbered labels also match by number.
  const bool by_number = !classifier.labels_from_data || classifier.has_default_labels();
  const std::optional<double> number = by_number ? NumberOf(label) : std::nullopt;
  if (number && *number >= 0 && *number < static_cast<double>(names.size()) &&
      *number == std::floor(*number)) {
    return static_cast<float>(*number);
  }
  return absl::InvalidArgumentError(UnknownLabel(label, classifier));
}

// A list, or a string with a JSON list.
json ListOf(const json& label) {
  if (!label.is_string()) return label;
  return ParseShallowJson(label.get_ref<const std::string&>());
}

absl::StatusOr<std::vector<float>> RightLabels(const json& label,
                                               const ClassifierConfig& classifier) {
  const std::vector<std::string>& names = classifier.labels;
  const json list = ListOf(label);
  const auto is_bit = [](const json& one) { return one.is_number() && (one == 0 || one == 1); };
  if (list.is_array() && list.size() == names.size() &&
      std::all_of(list.begin(), list.end(), is_bit)) {
    return list.get<std::vector<float>>();
  }
  const auto is_name = [](const json& one) { return one.is_string(); };
  if (!list.is_array() || !std::all_of(list.begin(), list.end(), is_name)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the label ", Shown(label), " is no list of names, nor of a 0 or 1 for each of ",
        names.size(), " labels"));
  }
  std::vector<float> right(names.size(), 0);
  for (const json& name : list) {
    ASSIGN_OR_RETURN(const float number, OneLabel(name, classifier));
    right[static_cast<size_t>(number)] = 1;
  }
  return right;
}

absl::StatusOr<std::vector<float>> Numbers(const json& label, size_t count) {
  const json list = count == 1 ? json::array({label}) : ListOf(label);
  std::vector<float> numbers;
  if (list.is_array() && list.size() == count) {
    for (const json& one : list) {
      const std::optional<double> number = NumberOf(one);
      if (number) numbers.push_back(static_cast<float>(*number));
    }
  }
  if (numbers.size() == count) return numbers;
  return absl::InvalidArgumentError(
      absl::StrCat("the label ", Shown(label), " is no ",
                   count == 1 ? "number" : absl::StrCat("list of ", count, " numbers")));
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ParseTextKeys(absl::string_view flag,
                                                       const std::string& text) {
  std::vector<std::string> keys = absl::StrSplit(text, ',');
  if (keys.size() <= 2 && std::count(keys.begin(), keys.end(), "") == 0) return keys;
  return absl::InvalidArgumentError(
      absl::StrCat(flag, " ", text, ": give one name, or two with a comma between"));
}

absl::Status ReadLabelledTexts(const std::string& path, const TextKeys& keys, bool needs_label,
                               const std::function<absl::Status(const LabelledText&)>& take) {
  Rows rows(keys, needs_label);
  return ReadRows(
      path, "{\"text\": \"...\", \"label\": 0}",
      [&](absl::string_view key) { return rows.Keeps(key); },
      [&](const json& row, int64_t line) -> absl::Status {
        ASSIGN_OR_RETURN(LabelledText text, rows.Read(row));
        text.line = line;
        return take(text);
      });
}

std::optional<std::string> LabelName(const json& label) {
  if (label.is_string()) return label.get<std::string>();
  if (label.is_boolean() || label.is_number_integer()) return label.dump();
  const double number = label.is_number() ? label.get<double>() : 0.5;
  // Beyond this not every whole number is a double.
  constexpr double kMostWhole = 9007199254740992.0;
  if (number != std::floor(number) || std::abs(number) > kMostWhole) return std::nullopt;
  return absl::StrCat(static_cast<int64_t>(number));
}

std::string ShownLabels(const std::vector<std::string>& labels) {
  const size_t count = std::min(labels.size(), kShownLabels);
  return absl::StrCat(absl::StrJoin(labels.begin(), labels.begin() + count, ", "),
                      count < labels.size() ? ", ..." : "");
}

std::string UnknownLabel(const json& label, const ClassifierConfig& classifier) {
  const std::vector<std::string>& names = classifier.labels;
  return absl::StrCat("the label ", Shown(label), " is none of the ", names.size(),
                      classifier.labels_from_data ? " of --data: " : " of config.json (id2label): ",
                      ShownLabels(names),
                      classifier.labels_from_data ? "" : ", or their numbers from 0");
}

absl::StatusOr<std::vector<float>> ReadLabel(const json& label,
                                             const ClassifierConfig& classifier) {
  switch (*classifier.problem) {
    case ClassifierProblem::kSingleLabel: {
      ASSIGN_OR_RETURN(const float one, OneLabel(label, classifier));
      return std::vector<float>{one};
    }
    case ClassifierProblem::kMultiLabel:
      return RightLabels(label, classifier);
    case ClassifierProblem::kRegression:
      return Numbers(label, classifier.labels.size());
  }
  return absl::InternalError("unknown problem");
}

absl::Status FitToModel(const Tokenizer& tokenizer, const TransformerConfig& config,
                        EncodedText& text) {
  for (size_t i = 0; i < text.tokens.size(); ++i) {
    if (config.token_types <= 1) text.types[i] = 0;
    if (text.tokens[i] < config.vocabulary &&
        text.types[i] < std::max<int64_t>(1, config.token_types)) {
      continue;
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "the text has token ", text.tokens[i], " of type ", text.types[i], ", and the model knows ",
        config.vocabulary, " tokens and ", config.token_types, " types: the tokenizer (",
        std::string(tokenizer.kind()), ") is not the model's"));
  }
  return absl::OkStatus();
}

absl::Status NoRoomError(int64_t seq_len) {
  return absl::InvalidArgumentError(
      absl::StrCat("--seq-len ", seq_len, " has no room for the text beside the tokens around it"));
}

absl::StatusOr<ClassifierProblem> FindProblem(const std::string& path, const TextKeys& keys) {
  bool is_list = false;
  const absl::Status status = ReadLabelledTexts(path, keys, true, [&](const LabelledText& text) {
    is_list = ListOf(text.label).is_array();
    return absl::CancelledError("");  // stop after the first row
  });
  if (!absl::IsCancelled(status)) return status;
  return is_list ? ClassifierProblem::kMultiLabel : ClassifierProblem::kSingleLabel;
}

}  // namespace spillway
