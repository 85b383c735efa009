#include "engine/data/labelled_words.h"

#include <algorithm>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/data/jsonl.h"
#include "engine/data/text_rows.h"
#include "io/base/status.h"

namespace spillway {
namespace {

using nlohmann::json;

// Reads rows as objects. Errors lack file and line.
class WordRows {
 public:
  WordRows(const TextKeys& keys, bool needs_label)
      : words_(keys.texts.empty() ? "" : keys.texts.front()),
        labels_(keys.label),
        needs_label_(needs_label) {}

  // Whether a row's value is read.
  bool Keeps(absl::string_view key) const {
    return key == words_ || key == labels_ || key == "tokens" || key == "words" ||
           key == "ner_tags" || key == "labels" || key == "tags";
  }

  absl::StatusOr<LabelledWords> Read(const json& row) {
    FindKeys(row);
    LabelledWords found;
    ASSIGN_OR_RETURN(const json* words,
                     ListAt(row, words_, "tokens", "words", "--text-keys", true));
    for (const json& word : *words) {
      if (word.is_string() &&
          !absl::StripAsciiWhitespace(word.get_ref<const std::string&>()).empty()) {
        found.words.push_back(word.get<std::string>());
        continue;
      }
      return absl::InvalidArgumentError(
          absl::StrCat("\"", words_, "\" has ", ConfigReader::Shown(word), " in the place of word ",
                       found.words.size() + 1, ", which is no text"));
    }
    if (found.words.empty()) {
      return absl::InvalidArgumentError(absl::StrCat("\"", words_, "\" has no words"));
    }
    ASSIGN_OR_RETURN(const json* labels,
                     ListAt(row, labels_, "ner_tags", "labels", "--label-key", needs_label_));
    if (labels == nullptr) return found;
    if (labels->size() != found.words.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", words_, "\" has ", found.words.size(), " words, and \"", labels_,
                       "\" ", labels->size(), " labels: each word needs one"));
    }
    found.labels.assign(labels->begin(), labels->end());
    return found;
  }

 private:
  // Selects keys by the first row; all others must have them, too.
  void FindKeys(const json& row) {
    if (found_) return;
    found_ = true;
    for (const char* usual : {"tokens", "words"}) {
      if (words_.empty() && row.contains(usual)) words_ = usual;
    }
    for (const char* usual : {"ner_tags", "labels", "tags"}) {
      if (labels_.empty() && row.contains(usual)) labels_ = usual;
    }
  }

  // Null if it is missing and not required.
  static absl::StatusOr<const json*> ListAt(const json& row, const std::string& key,
                                            const char* usual, const char* other, const char* flag,
                                            bool needed) {
    const auto found = key.empty() ? row.end() : row.find(key);
    if (found == row.end() && !needed) return nullptr;
    if (found == row.end()) {
      const std::string wanted = key.empty() ? absl::StrCat(usual, "\" or \"", other) : key;
      return absl::InvalidArgumentError(
          absl::StrCat("it has no \"", wanted, "\", a list with one for each word (", flag,
                       " NAME says where it is); its keys: ", ShownKeys(row)));
    }
    if (found->is_array()) return &*found;
    return absl::InvalidArgumentError(absl::StrCat("\"", key, "\" is ", ConfigReader::Shown(*found),
                                                   "; expected a list with one for each word"));
  }

  std::string words_, labels_;
  const bool needs_label_;
  bool found_ = false;
};

}  // namespace

absl::Status ReadLabelledWords(const std::string& path, const TextKeys& keys, bool needs_label,
                               const std::function<absl::Status(const LabelledWords&)>& take) {
  if (!absl::EndsWith(path, ".jsonl")) {
    return absl::InvalidArgumentError(
        absl::StrCat(path,
                     ": texts whose words have labels are in .jsonl, such as "
                     "{\"tokens\": [\"John\", \"sings\"], \"ner_tags\": [\"B-PER\", \"O\"]}"));
  }
  if (keys.texts.size() > 1) {
    return absl::InvalidArgumentError("--text-keys: one name, of the list of words");
  }
  WordRows rows(keys, needs_label);
  return ReadRows(
      path, "{\"tokens\": [\"...\"], \"ner_tags\": [0]}",
      [&](absl::string_view key) { return rows.Keeps(key); },
      [&](const json& row, int64_t line) -> absl::Status {
        ASSIGN_OR_RETURN(LabelledWords words, rows.Read(row));
        words.line = line;
        return take(words);
      });
}

absl::StatusOr<EncodedWords> WordListEncoder::Encode(const std::vector<std::string>& words) {
  const char* const before = tokenizer_.decodes_one_by_one() ? " " : "";
  std::vector<int64_t> tokens;
  EncodedWords encoded;
  for (const std::string& word : words) {
    const bool spaced = absl::StartsWith(word, " ");
    ASSIGN_OR_RETURN(const std::vector<int64_t> own,
                     tokenizer_.Encode(absl::StrCat(spaced ? "" : before, word)));
    encoded.first.push_back(own.empty() ? -1 : static_cast<int64_t>(tokens.size()));
    tokens.insert(tokens.end(), own.begin(), own.end());
  }
  const auto around = static_cast<int64_t>(tokenizer_.Around({}, std::nullopt).tokens.size());
  const int64_t room = most_tokens_ - around;
  if (tokens.empty()) {
    return absl::InvalidArgumentError("the tokenizer makes no token of the words");
  }
  if (room < 1) return NoRoomError(most_tokens_);
  if (static_cast<int64_t>(tokens.size()) > room) {
    ++cut_;
    tokens.resize(static_cast<size_t>(room));
  }
  encoded.text = tokenizer_.Around(tokens, std::nullopt);
  const auto own = std::find(encoded.text.sources.begin(), encoded.text.sources.end(), 0);
  const int64_t begin = own - encoded.text.sources.begin();
  for (int64_t& first : encoded.first) first = first < 0 || first >= room ? -1 : first + begin;
  RETURN_IF_ERROR(FitToModel(tokenizer_, config_, encoded.text));
  return encoded;
}

}  // namespace spillway
