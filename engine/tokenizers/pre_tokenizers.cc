#include "engine/tokenizers/pre_tokenizers.h"

#include <unicode/uniset.h>

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "engine/tokenizers/byte_alphabet.h"
#include "engine/tokenizers/normalizers.h"
#include "engine/tokenizers/rewrite_stage.h"
#include "engine/tokenizers/split_stage.h"
#include "io/base/check.h"
#include "io/base/status.h"

namespace spillway {
namespace {

// A regular expression for one character of a set in ICU's notation.
std::string OneOf(const char* pattern) {
  UErrorCode error = U_ZERO_ERROR;
  const icu::UnicodeSet set(icu::UnicodeString::fromUTF8(pattern), error);
  SPILLWAY_CHECK(U_SUCCESS(error));
  std::string regex = "[";
  for (int32_t i = 0; i < set.getRangeCount(); ++i) {
    absl::StrAppendFormat(&regex, "\\x{%x}-\\x{%x}", set.getRangeStart(i), set.getRangeEnd(i));
  }
  return regex + "]";
}

constexpr char kSpace[] = "[:White_Space:]";
// Unicode 8.0's, as in tokenizers: two characters were punctuation then.
constexpr char kPunctuation[] = "[[[:P:]&[:age=8.0:]][\\u166D\\U000111C9][!-/\\:-@\\[-`\\{-~]]";

StageMaker SplitMaker(SplitPattern compiled, SplitBehavior behavior, bool invert = false) {
  auto pattern = std::make_shared<const SplitPattern>(std::move(compiled));
  return
      [pattern, behavior, invert](TextStage* next, const uint64_t*) -> std::unique_ptr<TextStage> {
        return std::make_unique<SplitStage>(pattern, behavior, invert, next);
      };
}

StageMaker OwnSplit(const std::string& regex, SplitBehavior behavior, bool invert = false) {
  return SplitMaker(*SplitPattern::CompileOwn(regex), behavior, invert);
}

StageMaker RewriteMaker(Rewrite rewrite) {
  return [rewrite = std::move(rewrite)](TextStage* next,
                                        const uint64_t* given_bytes) -> std::unique_ptr<TextStage> {
    return std::make_unique<RewriteStage>(rewrite, next, given_bytes);
  };
}

absl::StatusOr<SplitBehavior> ReadBehavior(const JsonPart& part, const char* fallback) {
  ASSIGN_OR_RETURN(const std::string name, part.String("behavior", fallback));
  if (name == "Removed") return SplitBehavior::kRemoved;
  if (name == "Isolated") return SplitBehavior::kIsolated;
  if (name == "MergedWithPrevious") return SplitBehavior::kMergedWithPrevious;
  if (name == "MergedWithNext") return SplitBehavior::kMergedWithNext;
  if (name == "Contiguous") return SplitBehavior::kContiguous;
  return part.Broken(
      "behavior is none of Removed, Isolated, MergedWithPrevious, MergedWithNext, Contiguous");
}

absl::Status AddMetaspace(const JsonPart& part, std::vector<StageMaker>* out) {
  RETURN_IF_ERROR(
      part.Only({"replacement", "str_rep", "add_prefix_space", "prepend_scheme", "split"}));
  ASSIGN_OR_RETURN(const std::string replacement, part.String("replacement"));
  ASSIGN_OR_RETURN(const bool add_prefix_space, part.Bool("add_prefix_space", true));
  ASSIGN_OR_RETURN(const std::string scheme,
                   part.String("prepend_scheme", add_prefix_space ? "always" : "never"));
  ASSIGN_OR_RETURN(const bool split, part.Bool("split", true));
  if (scheme != "always" && scheme != "first" && scheme != "never") {
    return part["prepend_scheme"].Broken("none of always, first, never");
  }
  if (replacement.empty()) return part["replacement"].Broken("empty");
  out->push_back(RewriteMaker([=](absl::string_view text, const TextPlace& place,
                                  std::string* to) -> absl::StatusOr<size_t> {
    const bool prepend = scheme == "always" || (scheme == "first" && place.begins_text);
    if (prepend && place.begins && text[0] != ' ' && !absl::StartsWith(text, replacement))
      *to += replacement;
    *to += absl::StrReplaceAll(text, {{" ", replacement}});
    return text.size();
  }));
  if (split) {
    out->push_back(OwnSplit("\\Q" + replacement + "\\E", SplitBehavior::kMergedWithNext));
  }
  return absl::OkStatus();
}

absl::Status AddByteLevel(const JsonPart& part, bool keep_bytes, std::vector<StageMaker>* out) {
  RETURN_IF_ERROR(part.Only({"add_prefix_space", "trim_offsets", "use_regex"}));
  ASSIGN_OR_RETURN(const bool prefix, part.Bool("add_prefix_space", true));
  ASSIGN_OR_RETURN(const bool regex, part.Bool("use_regex", true));
  if (prefix) {
    out->push_back(RewriteMaker([](absl::string_view text, const TextPlace& place,
                                   std::string* to) -> absl::StatusOr<size_t> {
      absl::StrAppend(to, place.begins && text[0] != ' ' ? " " : "", text);
      return text.size();
    }));
  }
  if (regex) {
    out->push_back(SplitMaker(*SplitPattern::Compile(kGpt2SplitPattern), SplitBehavior::kIsolated));
  }
  if (!keep_bytes) {
    out->push_back(RewriteMaker(
        [](absl::string_view text, const TextPlace&, std::string* to) -> absl::StatusOr<size_t> {
          *to += ToByteAlphabet(text);
          return text.size();
        }));
  }
  return absl::OkStatus();
}

absl::Status AddPreTokenizer(const JsonPart& part, bool keep_bytes, PreTokenizers* out);

absl::Status AddSequence(const JsonPart& part, bool keep_bytes, PreTokenizers* out) {
  ASSIGN_OR_RETURN(const std::vector<JsonPart> parts, part.Elements("pretokenizers"));
  for (size_t i = 0; i < parts.size(); ++i) {
    RETURN_IF_ERROR(AddPreTokenizer(parts[i], keep_bytes && i + 1 == parts.size(), out));
    if (out->stages.size() > kMostTextStages) {
      return parts[i].TooMany("parts of a pre-tokenizer", kMostTextStages);
    }
  }
  return absl::OkStatus();
}

absl::Status AddPreTokenizer(const JsonPart& part, bool keep_bytes, PreTokenizers* out) {
  const std::string type = part.Type();
  const auto add = [&](StageMaker stage) {
    out->stages.push_back(std::move(stage));
    return absl::OkStatus();
  };
  out->ends_in_bytes = keep_bytes && type == "ByteLevel";
  if (type == "Sequence") return AddSequence(part, keep_bytes, out);
  if (type == "ByteLevel") return AddByteLevel(part, keep_bytes, &out->stages);
  if (type == "Metaspace") return AddMetaspace(part, &out->stages);
  if (type == "Split") {
    RETURN_IF_ERROR(part.Only({"pattern", "behavior", "invert"}));
    ASSIGN_OR_RETURN(const std::string regex, ReadPattern(part));
    ASSIGN_OR_RETURN(const SplitBehavior behavior, ReadBehavior(part, ""));
    ASSIGN_OR_RETURN(const bool invert, part.Bool("invert", false));
    return add(SplitMaker(*SplitPattern::Compile(regex), behavior, invert));
  }
  if (type == "Digits") {
    RETURN_IF_ERROR(part.Only({"individual_digits"}));
    ASSIGN_OR_RETURN(const bool single, part.Bool("individual_digits", false));
    return add(
        OwnSplit(OneOf("[:N:]"), single ? SplitBehavior::kIsolated : SplitBehavior::kContiguous));
  }
  if (type == "Punctuation") {
    RETURN_IF_ERROR(part.Only({"behavior"}));
    ASSIGN_OR_RETURN(const SplitBehavior behavior, ReadBehavior(part, "Isolated"));
    return add(OwnSplit(OneOf(kPunctuation), behavior));
  }
  RETURN_IF_ERROR(part.Only({}));
  if (type == "BertPreTokenizer") {
    RETURN_IF_ERROR(add(OwnSplit(OneOf(kSpace) + "+", SplitBehavior::kRemoved)));
    return add(OwnSplit(OneOf(kPunctuation), SplitBehavior::kIsolated));
  }
  if (type == "Whitespace") {
    const std::string word = OneOf("[[:Alphabetic:][:M:][:Nd:][:Pc:][:Join_Control:]]");
    const std::string other =
        OneOf("[^[:Alphabetic:][:M:][:Nd:][:Pc:][:Join_Control:][:White_Space:]]");
    return add(OwnSplit(word + "+|" + other + "+", SplitBehavior::kRemoved, /*invert=*/true));
  }
  if (type == "WhitespaceSplit") {
    return add(OwnSplit(OneOf(kSpace) + "+", SplitBehavior::kRemoved));
  }
  return part.UnsupportedType();
}

}  // namespace

absl::StatusOr<PreTokenizers> ReadPreTokenizers(const JsonPart& pre_tokenizer, bool bytes) {
  PreTokenizers out;
  if (!pre_tokenizer.is_null()) RETURN_IF_ERROR(AddPreTokenizer(pre_tokenizer, bytes, &out));
  return out;
}

}  // namespace spillway
