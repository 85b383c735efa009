#include "engine/chat/jinja_lexer.h"

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "engine/base/utf8.h"
#include "engine/measures/text_words.h"
#include "io/base/status.h"

namespace spillway {
namespace {

absl::string_view WithoutLeadingSpace(absl::string_view text) {
  size_t begin = 0;
  for (size_t at = 0; at < text.size() && IsWhiteSpace(TakeCodePoint(text, &at));) begin = at;
  return text.substr(begin);
}

int LinesIn(absl::string_view text) {
  return static_cast<int>(std::count(text.begin(), text.end(), '\n'));
}

class JinjaLexer {
 public:
  JinjaLexer(std::string source, absl::string_view file)
      : source_(std::move(source)), file_(file) {}

  absl::StatusOr<std::vector<JinjaToken>> Run() {
    while (at_ < source_.size()) {
      const size_t open = FindOpening();
      AddText(open);
      if (open == source_.size()) break;
      RETURN_IF_ERROR(Tag(open));
    }
    Add(Kind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  using Kind = JinjaToken::Kind;

  JinjaPlace At() const { return {file_, line_}; }
  void Add(Kind kind, absl::string_view text) {
    tokens_.push_back({kind, line_, std::string(text)});
  }
  // The text from `begin` to `end`, or to its end.
  absl::string_view Part(size_t begin, size_t end = std::string::npos) const {
    return absl::string_view(source_).substr(begin, end - begin);
  }

  size_t FindOpening() const {
    for (size_t at = at_; at + 1 < source_.size(); ++at) {
      if (source_[at] == '{' && absl::StrContains("{%#", source_.substr(at + 1, 1))) return at;
    }
    return source_.size();
  }

  // Adds the text before a tag at `open`, trimmed as the tags on both sides ask.
  void AddText(size_t open) {
    absl::string_view text = Part(at_, open);
    const absl::string_view tag = Part(open, open + 3);
    const int lines = LinesIn(text);
    const char sign = tag.size() == 3 ? tag[2] : ' ';
    if (trim_all_) text = WithoutLeadingSpace(text);
    if (trim_line_ && absl::StartsWith(text, "\n")) text.remove_prefix(1);
    if (sign == '-') {
      text = WithoutTrailingSpace(text);
    } else if (!tag.empty() && tag[1] != '{' && sign != '+') {
      // lstrip_blocks: strips white space from the line's start to the tag.
      const size_t line = text.rfind('\n') + 1;
      const auto begin = static_cast<size_t>(text.data() - source_.data());
      const bool whole_line = line > 0 || begin == 0 || source_[begin - 1] == '\n';
      if (whole_line && WithoutLeadingSpace(text.substr(line)).empty()) text = text.substr(0, line);
    }
    if (!text.empty()) Add(Kind::kText, text);
    line_ += lines;
    trim_all_ = trim_line_ = false;
  }

  absl::Status Tag(size_t open) {
    const char kind = source_[open + 1];
    at_ = open + 2;
    if (at_ < source_.size() && (source_[at_] == '-' || source_[at_] == '+')) ++at_;
    if (kind == '#') return Comment();
    if (kind == '%' && TakeRawTag("raw")) return Raw();
    Add(kind == '{' ? Kind::kOpenOutput : Kind::kOpenBlock, "");
    const std::string close = kind == '{' ? "}}" : "%}";
    int depth = 0;  // "}}" may end two dictionaries
    while (true) {
      const size_t begin =
          std::exchange(at_, source_.size() - WithoutLeadingSpace(Part(at_)).size());
      line_ += LinesIn(Part(begin, at_));
      if (at_ == source_.size()) return At().Wrong(absl::StrCat("no \"", close, "\" ends the tag"));
      const bool signed_close = source_[at_] == '-' || source_[at_] == '+';
      if (depth == 0 && source_.compare(at_ + signed_close, 2, close) == 0) {
        trim_all_ = source_[at_] == '-';
        trim_line_ = kind == '%' && source_[at_] != '+';
        at_ += 2 + signed_close;
        Add(Kind::kClose, close);
        return absl::OkStatus();
      }
      RETURN_IF_ERROR(Word());
      if (tokens_.back().kind != Kind::kSign) continue;
      const std::string& sign = tokens_.back().text;
      depth +=
          (sign == "{" || sign == "(" || sign == "[") - (sign == "}" || sign == ")" || sign == "]");
    }
  }

  absl::Status Comment() {
    const size_t end = source_.find("#}", at_);
    if (end == std::string::npos) return At().Wrong("a comment without an end");
    line_ += LinesIn(Part(at_, end));
    trim_all_ = end > at_ && source_[end - 1] == '-';
    trim_line_ = end == at_ || source_[end - 1] != '+';
    at_ = end + 2;
    return absl::OkStatus();
  }

  // Takes a tag with only this name, after its "{%" and sign.
  bool TakeRawTag(absl::string_view name) {
    absl::string_view rest = WithoutLeadingSpace(Part(at_));
    if (!absl::ConsumePrefix(&rest, name)) return false;
    rest = WithoutLeadingSpace(rest);
    const char sign = rest.empty() ? ' ' : rest[0];
    if (sign == '-' || sign == '+') rest.remove_prefix(1);
    if (!absl::StartsWith(rest, "%}")) return false;
    const size_t end = source_.size() - rest.size() + 2;
    line_ += LinesIn(Part(at_, end));
    at_ = end;
    trim_all_ = sign == '-';
    trim_line_ = name == "endraw" && sign != '+';
    return true;
  }

  // Reads text up to {% endraw %}.
  absl::Status Raw() {
    const int line = line_;
    for (size_t open = at_; (open = source_.find("{%", open)) != std::string::npos; open += 2) {
      const size_t begin = std::exchange(at_, open + 2);
      if (at_ < source_.size() && (source_[at_] == '-' || source_[at_] == '+')) ++at_;
      const bool all = trim_all_, one = trim_line_;
      const int lines = line_;
      if (!TakeRawTag("endraw")) {
        at_ = begin;
        continue;
      }
      // The text before that tag is added first.
      const size_t end = at_;
      const bool all_behind = trim_all_, one_behind = trim_line_;
      const int tag_lines = line_ - lines;
      at_ = begin;
      trim_all_ = all;
      trim_line_ = one;
      line_ = lines;
      AddText(open);
      at_ = end;
      trim_all_ = all_behind;
      trim_line_ = one_behind;
      line_ += tag_lines;
      return absl::OkStatus();
    }
    return JinjaPlace{file_, line}.Wrong("a raw block without an end");
  }

  absl::Status Word() {
    const char c = source_[at_];
    if (absl::ascii_isdigit(c)) return Number();
    if (c == '"' || c == '\'') return String(c);
    if (absl::ascii_isalpha(c) || c == '_') {
      size_t end = at_;
      while (end < source_.size() && (absl::ascii_isalnum(source_[end]) || source_[end] == '_'))
        ++end;
      Add(Kind::kName, Part(at_, end));
      at_ = end;
      return absl::OkStatus();
    }
    for (const absl::string_view sign : {"==", "!=", "<=", ">=", "//", "**"}) {
      if (source_.compare(at_, 2, sign.data()) == 0) {
        Add(Kind::kSign, sign);
        at_ += 2;
        return absl::OkStatus();
      }
    }
    if (!absl::ascii_isascii(static_cast<unsigned char>(c))) {
      return At().Refused(absl::StrCat("the character ", CharacterAt(at_), " in a tag"));
    }
    if (!absl::StrContains("+-*/%~()[]{}<>=|,.:", c)) {
      return At().Wrong(absl::StrCat("'", CharacterAt(at_), "' has no meaning here"));
    }
    Add(Kind::kSign, Part(at_, at_ + 1));
    ++at_;
    return absl::OkStatus();
  }

  absl::string_view CharacterAt(size_t begin) const {
    size_t end = begin;
    TakeCodePoint(source_, &end);
    return Part(begin, end);
  }

  absl::Status Number() {
    const bool attribute = at_ > 0 && source_[at_ - 1] == '.';
    size_t end = at_;
    const auto digit_at = [&](size_t at) {
      return at < source_.size() && absl::ascii_isdigit(source_[at]);
    };
    const auto skip_digits = [&] {
      while (digit_at(end) || (end < source_.size() && source_[end] == '_' && digit_at(end + 1)))
        ++end;
    };
    skip_digits();
    if (!attribute && end < source_.size() && source_[end] == '.' && digit_at(end + 1)) {
      ++end;
      skip_digits();
    }
    if (!attribute && end < source_.size() && absl::ascii_tolower(source_[end]) == 'e') {
      const bool sign = end + 1 < source_.size() && absl::StrContains("+-", source_[end + 1]);
      if (digit_at(end + 1 + sign)) {
        end += 1 + sign;
        skip_digits();
      }
    }
    if (end < source_.size() && (absl::ascii_isalnum(source_[end]) || source_[end] == '_')) {
      return At().Refused(absl::StrCat("the number ", Part(at_, end + 1), "..."));
    }
    Add(Kind::kNumber, absl::StrReplaceAll(Part(at_, end), {{"_", ""}}));
    at_ = end;
    return absl::OkStatus();
  }

  absl::Status String(char quote) {
    std::string text;
    const int line = line_;
    for (++at_; at_ < source_.size() && source_[at_] != quote; ++at_) {
      line_ += source_[at_] == '\n';
      if (source_[at_] != '\\') {
        text += source_[at_];
        continue;
      }
      if (++at_ == source_.size()) break;
      RETURN_IF_ERROR(Escape(&text));
    }
    if (at_ >= source_.size()) return JinjaPlace{file_, line}.Wrong("a string without an end");
    ++at_;
    Add(Kind::kString, text);
    return absl::OkStatus();
  }

  // Reads Python's escape sequence after a backslash; at_ moves to its last byte.
  absl::Status Escape(std::string* text) {
    constexpr absl::string_view kLetters = "abfnrtv\\'\"", kMeant = "\a\b\f\n\r\t\v\\'\"";
    const char c = source_[at_];
    const size_t letter = kLetters.find(c);
    const bool octal = c >= '0' && c <= '7';
    if (letter != absl::string_view::npos) {
      *text += kMeant[letter];
    } else if (c == 'N' || !absl::ascii_isascii(static_cast<unsigned char>(c))) {
      return At().Refused(absl::StrCat("\\", CharacterAt(at_), " in a string"));
    } else if (octal || c == 'x' || c == 'u' || c == 'U') {
      return CodePoint(octal, octal ? 3 : c == 'x' ? 2 : c == 'u' ? 4 : 8, text);
    } else if (c == '\n') {
      ++line_;
    } else {
      absl::StrAppend(text, "\\", std::string(1, c));
    }
    return absl::OkStatus();
  }

  // Reads "101" or "x41": up to three octal digits, or `digits` hexadecimal ones.
  absl::Status CodePoint(bool octal, size_t digits, std::string* text) {
    const size_t begin = at_ + !octal;
    size_t end = begin;
    while (
        end < begin + digits && end < source_.size() &&
        (octal ? source_[end] >= '0' && source_[end] <= '7' : absl::ascii_isxdigit(source_[end]))) {
      ++end;
    }
    const uint64_t point =
        std::stoull("0" + source_.substr(begin, end - begin), nullptr, octal ? 8 : 16);
    if ((!octal && end < begin + digits) || point > 0x10ffff ||
        (point >= 0xd800 && point <= 0xdfff)) {
      return At().Wrong("a string has a \\x or \\u that is no character");
    }
    AppendUtf8(static_cast<uint32_t>(point), text);
    at_ = end - 1;
    return absl::OkStatus();
  }

  const std::string source_;
  const absl::string_view file_;
  size_t at_ = 0;
  int line_ = 1;
  bool trim_all_ = false, trim_line_ = false;  // trimming by the tag before the text
  std::vector<JinjaToken> tokens_;
};

}  // namespace

absl::Status JinjaPlace::Wrong(absl::string_view why) const {
  return absl::InvalidArgumentError(absl::StrCat(file, ":", line, ": ", why));
}

absl::Status JinjaPlace::Refused(absl::string_view what) const {
  return absl::UnimplementedError(
      absl::StrCat(file, ":", line, ": ", what, " in a chat template is not supported"));
}

absl::StatusOr<std::vector<JinjaToken>> LexJinja(absl::string_view source, absl::string_view file) {
  std::string text = absl::StrReplaceAll(source, {{"\r\n", "\n"}, {"\r", "\n"}});
  if (absl::EndsWith(text, "\n")) text.pop_back();
  return JinjaLexer(std::move(text), file).Run();
}

}  // namespace spillway
