#include "engine/tokenizers/normalizers.h"

#include <unicode/bytestream.h>
#include <unicode/normalizer2.h>
#include <unicode/uchar.h>
#include <unicode/uniset.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/base/utf8.h"
#include "engine/tokenizers/byte_alphabet.h"
#include "engine/tokenizers/charsmap.h"
#include "engine/tokenizers/split_pattern.h"
#include "io/base/check.h"
#include "io/base/status.h"

namespace spillway {
namespace {

// Limit of a run of combining marks, whose ordering takes quadratic time; longer ones are cut.
constexpr size_t kMaxMarksBytes = 4 << 10;

size_t LastCharacter(absl::string_view text) {
  size_t at = text.size() - 1;
  while ((text[at] & 0xc0) == 0x80) --at;
  return at;
}

// Rewrites each character by itself: `map` appends its replacement.
template <typename Map>
Rewrite EachCharacter(Map map) {
  return
      [map](absl::string_view text, const TextPlace&, std::string* out) -> absl::StatusOr<size_t> {
        for (size_t at = 0; at < text.size();) {
          const size_t begin = at;
          const uint32_t point = TakeCodePoint(text, &at);
          map(point, text.substr(begin, at - begin), out);
        }
        return text.size();
      };
}

// Sets by Unicode version, since `tokenizers` uses several versions.
std::shared_ptr<const icu::UnicodeSet> SetOf(const char* pattern) {
  UErrorCode error = U_ZERO_ERROR;
  auto set = std::make_shared<icu::UnicodeSet>(icu::UnicodeString::fromUTF8(pattern), error);
  SPILLWAY_CHECK(U_SUCCESS(error));
  set->freeze();
  return set;
}

Rewrite Without(const char* pattern) {
  return EachCharacter(
      [set = SetOf(pattern)](uint32_t point, absl::string_view as_it_is, std::string* out) {
        if (!set->contains(static_cast<UChar32>(point)))
          out->append(as_it_is.data(), as_it_is.size());
      });
}

// NFC, NFD, NFKC, NFKD of Unicode 9.0, as in tokenizers: newer characters do not change.
Rewrite Normalize(const icu::Normalizer2* (*form)(UErrorCode&)) {
  UErrorCode error = U_ZERO_ERROR;
  const icu::Normalizer2* all = form(error);
  SPILLWAY_CHECK(U_SUCCESS(error));
  static const auto set = SetOf("[:age=9.0:]");
  auto normalizer = std::make_shared<icu::FilteredNormalizer2>(*all, *set);
  return [normalizer](absl::string_view text, const TextPlace& place,
                      std::string* out) -> absl::StatusOr<size_t> {
    size_t end = text.size();
    while (!place.ends && end > 0) {
      end = LastCharacter(text.substr(0, end));
      size_t at = end;
      if (normalizer->hasBoundaryBefore(static_cast<UChar32>(TakeCodePoint(text, &at)))) break;
    }
    for (size_t begin = 0; begin < end;) {
      size_t cut = end;
      if (end - begin > kMaxMarksBytes) {
        cut = begin + kMaxMarksBytes;
        while ((text[cut] & 0xc0) == 0x80) --cut;
        // A cut that changes nothing, if there is one.
        size_t boundary = cut;
        while (boundary > begin) {
          size_t at = boundary;
          if (normalizer->hasBoundaryBefore(static_cast<UChar32>(TakeCodePoint(text, &at)))) break;
          boundary = LastCharacter(text.substr(0, boundary));
        }
        if (boundary > begin) cut = boundary;
      }
      UErrorCode status = U_ZERO_ERROR;
      icu::StringByteSink<std::string> sink(out);
      normalizer->normalizeUTF8(
          0, icu::StringPiece(text.data() + begin, static_cast<int32_t>(cut - begin)), sink,
          nullptr, status);
      SPILLWAY_CHECK(U_SUCCESS(status));
      begin = cut;
    }
    return end;
  };
}

Rewrite Lowercase() {
  return EachCharacter([](uint32_t point, absl::string_view, std::string* out) {
    AppendUtf8(static_cast<uint32_t>(u_tolower(static_cast<UChar32>(point))), out);
    if (point == 0x130) AppendUtf8(0x307, out);  // its lower case is two characters
  });
}

bool IsSpace(uint32_t point) { return u_isUWhiteSpace(static_cast<UChar32>(point)); }

Rewrite Strip(bool left, bool right) {
  return [left, right](absl::string_view text, const TextPlace& place,
                       std::string* out) -> absl::StatusOr<size_t> {
    size_t begin = 0;
    while (left && place.begins && begin < text.size()) {
      size_t at = begin;
      if (!IsSpace(TakeCodePoint(text, &at))) break;
      begin = at;
    }
    size_t end = text.size();
    while (right && end > begin) {
      const size_t last = LastCharacter(text.substr(0, end));
      size_t at = last;
      if (!IsSpace(TakeCodePoint(text, &at))) break;
      end = last;
    }
    out->append(text.data() + begin, end - begin);
    return place.ends ? text.size() : end;
  };
}

absl::StatusOr<Rewrite> Precompiled(const JsonPart& part) {
  RETURN_IF_ERROR(part.Only({"precompiled_charsmap"}));
  ASSIGN_OR_RETURN(const std::string base64, part.String("precompiled_charsmap"));
  auto parsed = Charsmap::Parse(base64);
  if (!parsed.ok()) return part["precompiled_charsmap"].Broken(parsed.status().message());
  auto map = std::make_shared<const Charsmap>(*std::move(parsed));
  // Grapheme clusters. Equal-looking texts may get different replacements, since only short
  // clusters are looked up as a whole. (PCRE2 10.42 omits the marks on a flag.)
  static const auto graphemes = std::make_shared<const SplitPattern>(
      *SplitPattern::CompileOwn("\\X(?:(?<=[\\x{1f1e6}-\\x{1f1ff}])[\\p{M}\\x{200c}\\x{200d}]+)?"));
  constexpr size_t kShortBytes = 6;
  return [map](absl::string_view text, const TextPlace& place,
               std::string* out) -> absl::StatusOr<size_t> {
    SplitMatcher matcher(*graphemes);
    size_t at = 0;
    const auto is_plain = [&](size_t i) { return text[i] >= ' ' && text[i] < 0x7f; };
    while (at < text.size()) {
      RETURN_IF_ERROR(CheckTextGrowth(text.size(), out->size()));
      size_t end = at + 1;
      if (end == text.size() || !is_plain(at) || !is_plain(end)) {
        ASSIGN_OR_RETURN(const SplitMatcher::Match match, matcher.Find(text, at, !place.ends));
        if (match.kind != SplitMatcher::Match::Kind::kFound) break;
        end = match.end;
      }
      const absl::string_view grapheme = text.substr(at, end - at);
      at = end;
      if (grapheme.size() < kShortBytes) {
        if (const auto found = map->Find(grapheme)) {
          out->append(found->data(), found->size());
          continue;
        }
      }
      for (size_t i = 0; i < grapheme.size();) {
        const size_t begin = i;
        TakeCodePoint(grapheme, &i);
        const absl::string_view character = grapheme.substr(begin, i - begin);
        const absl::string_view becomes = map->Find(character).value_or(character);
        out->append(becomes.data(), becomes.size());
      }
    }
    return at;
  };
}

Rewrite Nmt() {
  return EachCharacter([](uint32_t c, absl::string_view as_it_is, std::string* out) {
    if ((c >= 1 && c <= 8) || c == 0xb || (c >= 0xe && c <= 0x1f) || c == 0x7f || c == 0x8f ||
        c == 0x9f)
      return;
    const bool space = c == 9 || c == 0xa || c == 0xc || c == 0xd || c == 0x1680 ||
                       (c >= 0x200b && c <= 0x200f) || c == 0x2028 || c == 0x2029 || c == 0x2581 ||
                       c == 0xfeff || c == 0xfffd;
    absl::StrAppend(out, space ? " " : as_it_is);
  });
}

absl::Status AddBert(const JsonPart& part, std::vector<Rewrite>* out) {
  RETURN_IF_ERROR(part.Only({"clean_text", "handle_chinese_chars", "strip_accents", "lowercase"}));
  ASSIGN_OR_RETURN(const bool clean, part.Bool("clean_text", true));
  ASSIGN_OR_RETURN(const bool chinese, part.Bool("handle_chinese_chars", true));
  ASSIGN_OR_RETURN(const bool lowercase, part.Bool("lowercase", true));
  ASSIGN_OR_RETURN(const bool strip, part.Bool("strip_accents", lowercase));
  if (clean) {
    const auto dropped = SetOf("[[[:Cc:][:Cf:][:Co:]]&[:age=8.0:]-[\\t\\n\\r][\\u0000\\uFFFD]]");
    out->push_back(
        EachCharacter([dropped](uint32_t point, absl::string_view as_it_is, std::string* to) {
          if (dropped->contains(static_cast<UChar32>(point))) return;
          absl::StrAppend(to, IsSpace(point) ? " " : as_it_is);
        }));
  }
  if (chinese) {
    out->push_back(EachCharacter([](uint32_t c, absl::string_view as_it_is, std::string* to) {
      const bool is_chinese = (c >= 0x4e00 && c <= 0x9fff) || (c >= 0x3400 && c <= 0x4dbf) ||
                              (c >= 0x20000 && c <= 0x2a6df) || (c >= 0x2a700 && c <= 0x2b73f) ||
                              (c >= 0x2b740 && c <= 0x2b81f) || (c >= 0x2b920 && c <= 0x2ceaf) ||
                              (c >= 0xf900 && c <= 0xfaff) || (c >= 0x2f800 && c <= 0x2fa1f);
      absl::StrAppend(to, is_chinese ? " " : "", as_it_is, is_chinese ? " " : "");
    }));
  }
  if (strip) {
    out->push_back(Normalize(icu::Normalizer2::getNFDInstance));
    out->push_back(Without("[[[:Mn:]&[:age=8.0:]][\\u1734]-[\\u1885\\u1886\\uA9BD\\U000111C9]]"));
  }
  if (lowercase) out->push_back(Lowercase());
  return absl::OkStatus();
}

absl::Status AddNormalizer(const JsonPart& part, std::vector<Rewrite>* out) {
  const std::string type = part.Type();
  if (type == "Sequence") {
    ASSIGN_OR_RETURN(const std::vector<JsonPart> parts, part.Elements("normalizers"));
    for (const JsonPart& inner : parts) {
      RETURN_IF_ERROR(AddNormalizer(inner, out));
      if (out->size() > kMostTextStages) return inner.TooMany("normalizers", kMostTextStages);
    }
    return absl::OkStatus();
  }
  if (type == "BertNormalizer") return AddBert(part, out);
  const auto add = [&](absl::StatusOr<Rewrite> rewrite) {
    if (rewrite.ok()) out->push_back(*std::move(rewrite));
    return rewrite.status();
  };
  if (type == "Replace") return add(ReadReplace(part));
  if (type == "Precompiled") return add(Precompiled(part));
  if (type == "Strip") {
    RETURN_IF_ERROR(part.Only({"strip_left", "strip_right"}));
    ASSIGN_OR_RETURN(const bool left, part.Bool("strip_left", std::nullopt));
    ASSIGN_OR_RETURN(const bool right, part.Bool("strip_right", std::nullopt));
    return add(Strip(left, right));
  }
  if (type == "Prepend") {
    RETURN_IF_ERROR(part.Only({"prepend"}));
    ASSIGN_OR_RETURN(const std::string prefix, part.String("prepend"));
    return add([prefix](absl::string_view text, const TextPlace& place,
                        std::string* to) -> absl::StatusOr<size_t> {
      absl::StrAppend(to, place.begins ? prefix : "", text);
      return text.size();
    });
  }
  const struct {
    absl::string_view type;
    const icu::Normalizer2* (*form)(UErrorCode&);
  } kForms[] = {{"NFC", icu::Normalizer2::getNFCInstance},
                {"NFD", icu::Normalizer2::getNFDInstance},
                {"NFKC", icu::Normalizer2::getNFKCInstance},
                {"NFKD", icu::Normalizer2::getNFKDInstance}};
  RETURN_IF_ERROR(part.Only({}));
  for (const auto& form : kForms) {
    if (type == form.type) return add(Normalize(form.form));
  }
  if (type == "Lowercase") return add(Lowercase());
  if (type == "StripAccents")
    return add(Without("[[[:M:]&[:age=9.0:]][\\u1CF2\\u1CF3]-[\\U000111C9]]"));
  if (type == "Nmt") return add(Nmt());
  if (type == "ByteLevel") {
    return add(
        [](absl::string_view text, const TextPlace&, std::string* to) -> absl::StatusOr<size_t> {
          *to += ToByteAlphabet(text);
          return text.size();
        });
  }
  return part.UnsupportedType();
}

}  // namespace

absl::StatusOr<std::vector<Rewrite>> ReadNormalizers(const JsonPart& normalizer) {
  std::vector<Rewrite> rewrites;
  if (!normalizer.is_null()) RETURN_IF_ERROR(AddNormalizer(normalizer, &rewrites));
  return rewrites;
}

absl::StatusOr<std::string> ReadPattern(const JsonPart& part) {
  const JsonPart pattern = part["pattern"];
  RETURN_IF_ERROR(pattern.Only({"String", "Regex"}));
  std::string regex;
  if (pattern["Regex"].is_null()) {
    ASSIGN_OR_RETURN(const std::string text, pattern.String("String"));
    for (const char c : text)
      absl::StrAppend(&regex, absl::ascii_ispunct(c) ? "\\" : "", std::string(1, c));
  } else {
    ASSIGN_OR_RETURN(regex, pattern.String("Regex"));
  }
  const auto compiled = SplitPattern::Compile(regex);
  if (!compiled.ok())
    return pattern.Unsupported(absl::StrCat("the pattern (", compiled.status().message(), ")"));
  return regex;
}

// A Replace of plain text, without a regular expression.
static Rewrite ReplaceText(const std::string& what, const std::string& content) {
  return [what, content](absl::string_view text, const TextPlace& place,
                         std::string* out) -> absl::StatusOr<size_t> {
    size_t at = 0;
    for (size_t found; (found = text.find(what, at)) != absl::string_view::npos;) {
      absl::StrAppend(out, text.substr(at, found - at), content);
      at = found + what.size();
      RETURN_IF_ERROR(CheckTextGrowth(text.size(), out->size()));
    }
    size_t end = text.size();
    if (!place.ends) {
      // A suffix that may be the start of `what`.
      size_t held = std::min(what.size() - 1, text.size() - at);
      while (held > 0 && !absl::StartsWith(what, text.substr(text.size() - held))) --held;
      end -= held;
      while (end > at && end < text.size() && (text[end] & 0xc0) == 0x80) --end;
    }
    absl::StrAppend(out, text.substr(at, end - at));
    return end;
  };
}

absl::StatusOr<Rewrite> ReadReplace(const JsonPart& part) {
  RETURN_IF_ERROR(part.Only({"pattern", "content"}));
  ASSIGN_OR_RETURN(const std::string content, part.String("content"));
  ASSIGN_OR_RETURN(const std::string regex, ReadPattern(part));
  if (part["pattern"]["Regex"].is_null()) {
    ASSIGN_OR_RETURN(const std::string what, part["pattern"].String("String"));
    return ReplaceText(what, content);
  }
  ASSIGN_OR_RETURN(SplitPattern compiled, SplitPattern::Compile(regex));
  auto pattern = std::make_shared<const SplitPattern>(std::move(compiled));
  return [pattern, content](absl::string_view text, const TextPlace& place,
                            std::string* out) -> absl::StatusOr<size_t> {
    SplitMatcher matcher(*pattern);
    size_t at = 0;
    while (at < text.size()) {
      ASSIGN_OR_RETURN(const SplitMatcher::Match match, matcher.Find(text, at, !place.ends));
      const bool found = match.kind == SplitMatcher::Match::Kind::kFound;
      const size_t end = match.kind == SplitMatcher::Match::Kind::kNone ? text.size() : match.begin;
      out->append(text.data() + at, end - at);
      at = end;
      if (!found) break;
      *out += content;
      at = match.end;
      RETURN_IF_ERROR(CheckTextGrowth(text.size(), out->size()));
    }
    return at;
  };
}

}  // namespace spillway
