#include "engine/tokenizers/speech_tokens.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace spillway {
namespace {

struct Language {
  const char* code;
  const char* name;
};

// Those that Whisper has been trained on, and other names of theirs.
constexpr Language kLanguages[] = {
    {"en", "english"},        {"zh", "chinese"},     {"de", "german"},        {"es", "spanish"},
    {"ru", "russian"},        {"ko", "korean"},      {"fr", "french"},        {"ja", "japanese"},
    {"pt", "portuguese"},     {"tr", "turkish"},     {"pl", "polish"},        {"ca", "catalan"},
    {"nl", "dutch"},          {"ar", "arabic"},      {"sv", "swedish"},       {"it", "italian"},
    {"id", "indonesian"},     {"hi", "hindi"},       {"fi", "finnish"},       {"vi", "vietnamese"},
    {"he", "hebrew"},         {"uk", "ukrainian"},   {"el", "greek"},         {"ms", "malay"},
    {"cs", "czech"},          {"ro", "romanian"},    {"da", "danish"},        {"hu", "hungarian"},
    {"ta", "tamil"},          {"no", "norwegian"},   {"th", "thai"},          {"ur", "urdu"},
    {"hr", "croatian"},       {"bg", "bulgarian"},   {"lt", "lithuanian"},    {"la", "latin"},
    {"mi", "maori"},          {"ml", "malayalam"},   {"cy", "welsh"},         {"sk", "slovak"},
    {"te", "telugu"},         {"fa", "persian"},     {"lv", "latvian"},       {"bn", "bengali"},
    {"sr", "serbian"},        {"az", "azerbaijani"}, {"sl", "slovenian"},     {"kn", "kannada"},
    {"et", "estonian"},       {"mk", "macedonian"},  {"br", "breton"},        {"eu", "basque"},
    {"is", "icelandic"},      {"hy", "armenian"},    {"ne", "nepali"},        {"mn", "mongolian"},
    {"bs", "bosnian"},        {"kk", "kazakh"},      {"sq", "albanian"},      {"sw", "swahili"},
    {"gl", "galician"},       {"mr", "marathi"},     {"pa", "punjabi"},       {"si", "sinhala"},
    {"km", "khmer"},          {"sn", "shona"},       {"yo", "yoruba"},        {"so", "somali"},
    {"af", "afrikaans"},      {"oc", "occitan"},     {"ka", "georgian"},      {"be", "belarusian"},
    {"tg", "tajik"},          {"sd", "sindhi"},      {"gu", "gujarati"},      {"am", "amharic"},
    {"yi", "yiddish"},        {"lo", "lao"},         {"uz", "uzbek"},         {"fo", "faroese"},
    {"ht", "haitian creole"}, {"ps", "pashto"},      {"tk", "turkmen"},       {"nn", "nynorsk"},
    {"mt", "maltese"},        {"sa", "sanskrit"},    {"lb", "luxembourgish"}, {"my", "myanmar"},
    {"bo", "tibetan"},        {"tl", "tagalog"},     {"mg", "malagasy"},      {"as", "assamese"},
    {"tt", "tatar"},          {"haw", "hawaiian"},   {"ln", "lingala"},       {"ha", "hausa"},
    {"ba", "bashkir"},        {"jw", "javanese"},    {"su", "sundanese"},     {"yue", "cantonese"}};
constexpr Language kOtherNames[] = {
    {"my", "burmese"},       {"ca", "valencian"}, {"nl", "flemish"},   {"ht", "haitian"},
    {"lb", "letzeburgesch"}, {"ps", "pushto"},    {"pa", "panjabi"},   {"ro", "moldavian"},
    {"ro", "moldovan"},      {"si", "sinhalese"}, {"es", "castilian"}, {"zh", "mandarin"}};

// OpenAI's English models have 51864 tokens, the others one more or two.
constexpr int64_t kEnglishVocabulary = 51864;

// The one token that the text is; none: it is several, or one for whatever is unknown, or cannot be
// written at all.
std::optional<int64_t> OneTokenOf(const Tokenizer& tokenizer, const std::string& text) {
  const absl::StatusOr<std::vector<int64_t>> tokens = tokenizer.Encode(text);
  if (!tokens.ok() || tokens->size() != 1) return std::nullopt;
  const absl::StatusOr<std::string> written = tokenizer.Decode(*tokens);
  return written.ok() && *written == text ? std::optional(tokens->front()) : std::nullopt;
}

// "" for what is none.
std::string CodeOf(const std::string& language) {
  const std::string lower = absl::AsciiStrToLower(language);
  for (const Language& known : kLanguages) {
    if (lower == known.code || lower == known.name) return known.code;
  }
  for (const Language& known : kOtherNames) {
    if (lower == known.name) return known.code;
  }
  return "";
}

}  // namespace

SpeechTokens SpeechTokens::Of(const Tokenizer& tokenizer, std::optional<bool> multilingual) {
  SpeechTokens found;
  // Others have no tokens that are found as they are written.
  if (tokenizer.kind() == "bytes" || tokenizer.kind() == "chars") return found;
  found.transcribe_ = OneTokenOf(tokenizer, "<|transcribe|>");
  found.translate_ = OneTokenOf(tokenizer, "<|translate|>");
  found.no_timestamps_ = OneTokenOf(tokenizer, "<|notimestamps|>");
  const bool english = !multilingual.value_or(tokenizer.vocabulary_size() != kEnglishVocabulary);
  for (const Language& language : kLanguages) {
    if (english) break;
    const auto token = OneTokenOf(tokenizer, absl::StrCat("<|", language.code, "|>"));
    if (token) found.languages_.emplace_back(language.code, *token);
  }
  return found;
}

absl::StatusOr<std::vector<int64_t>> SpeechTokens::Prefix(const SpeechMode& task) const {
  std::vector<int64_t> prefix;
  const std::string code = CodeOf(task.language);
  if (!task.language.empty() && code.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--language ", task.language,
                     " is unknown: give a code or an English name, as de or german"));
  }
  if (!multilingual()) {
    if (!code.empty() && code != "en") {
      return absl::InvalidArgumentError(absl::StrCat(
          "--language ", task.language, ": the model's tokenizer knows no languages but English"));
    }
    if (task.translates) {
      return absl::InvalidArgumentError(
          "--transcribe-task translate: the model's tokenizer knows no languages to translate");
    }
  } else {
    if (code.empty()) {
      return absl::InvalidArgumentError(
          "--language is missing: the model knows several, and begins each text with one (a code "
          "or an English name, as de or german)");
    }
    const auto known = std::find_if(languages_.begin(), languages_.end(),
                                    [&](const auto& one) { return one.first == code; });
    if (known == languages_.end()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--language ", task.language, ": the model's tokenizer has no <|", code, "|>; it has ",
          absl::StrJoin(languages_, ", ", [](std::string* out, const auto& one) {
            absl::StrAppend(out, one.first);
          })));
    }
    prefix.push_back(known->second);
    const std::optional<int64_t> job = task.translates ? translate_ : transcribe_;
    if (task.translates && !job) {
      return absl::InvalidArgumentError(
          "--transcribe-task translate: the model's tokenizer has no <|translate|>");
    }
    if (job) prefix.push_back(*job);
  }
  if (task.timestamps && !no_timestamps_) {
    return absl::InvalidArgumentError(
        "--timestamps: the model's tokenizer has no tokens for times");
  }
  if (!task.timestamps && no_timestamps_) prefix.push_back(*no_timestamps_);
  return prefix;
}

}  // namespace spillway
