#include "engine/base/relaxed_json.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace spillway {
namespace {

bool IsNameCharacter(char c) { return absl::ascii_isalnum(c) || c == '_' || c == '-' || c == '.'; }

// Copies token by token, and tracks the previous token.
class Relaxer {
 public:
  explicit Relaxer(absl::string_view text) : text_(text) {}

  std::string Strict() {
    while (at_ < text_.size()) {
      if (SkipSpaceOrComment()) continue;
      const char c = text_[at_];
      if (c == ',') {
        Comma();
      } else if (c == '}' || c == ']') {
        comma_at_ = std::string::npos;  // dropped, if there was one
        Put(c);
        EndOfValue();
      } else if (c == '"' || c == '\'') {
        BeginMember();
        QuotedString(c);
        EndOfValue();
      } else if (c == ':' || c == '{' || c == '[') {
        if (c != ':') BeginMember();
        Put(c);
        value_ended_ = false;
      } else {
        BeginMember();
        Word();
        EndOfValue();
      }
    }
    FlushComma();
    return std::move(strict_);
  }

 private:
  // Replaces a comment by the line ends in it.
  bool SkipSpaceOrComment() {
    const absl::string_view rest = text_.substr(at_);
    size_t length = 0;
    if (absl::ascii_isspace(rest[0])) {
      length = 1;
    } else if (rest[0] == '#' || rest.substr(0, 2) == "//") {
      length = std::min(rest.find('\n'), rest.size());
    } else if (rest.substr(0, 2) == "/*") {
      const size_t end = rest.find("*/", 2);
      length = end == absl::string_view::npos ? rest.size() : end + 2;
    } else {
      return false;
    }
    const bool space = length == 1 && rest[0] != '#';
    for (const char c : rest.substr(0, length)) {
      new_line_ = new_line_ || c == '\n';
      if (space || c == '\n') strict_ += c;
    }
    if (!space) strict_ += ' ';
    at_ += length;
    return true;
  }

  // Holds a comma back until a member follows.
  void Comma() {
    value_ended_ = false;
    if (comma_at_ != std::string::npos) {  // a second comma: both stay, and are an error
      FlushComma();
      return Put(',');
    }
    comma_at_ = strict_.size();
    ++at_;
  }

  void FlushComma() {
    if (comma_at_ != std::string::npos) strict_.insert(comma_at_, 1, ',');
    comma_at_ = std::string::npos;
  }

  void BeginMember() {
    FlushComma();
    if (value_ended_ && new_line_) strict_.insert(value_end_, 1, ',');
    value_ended_ = false;
  }

  void EndOfValue() {
    value_ended_ = true;
    value_end_ = strict_.size();
    new_line_ = false;
  }

  void Put(char c) {
    strict_ += c;
    ++at_;
  }

  void QuotedString(char quote) {
    strict_ += '"';
    ++at_;
    while (at_ < text_.size() && text_[at_] != quote) {
      const char c = text_[at_];
      if (c == '\n') return;  // unclosed: the strict parser reports it
      if (c == '\\' && at_ + 1 < text_.size()) {
        if (text_[at_ + 1] == '\'') {
          ++at_;  // \' is no escape in JSON
        } else {
          Put(c);
        }
      } else if (c == '"') {
        strict_ += '\\';
      }
      Put(text_[at_]);
    }
    if (at_ == text_.size()) return;
    strict_ += '"';
    ++at_;
  }

  // Copies a number, a literal (Python's too), or a key without quotes.
  void Word() {
    const size_t begin = at_;
    while (at_ < text_.size() && IsNameCharacter(text_[at_])) ++at_;
    if (at_ == begin) return Put(text_[at_]);
    const absl::string_view word = text_.substr(begin, at_ - begin);
    size_t next = at_;
    while (next < text_.size() && (text_[next] == ' ' || text_[next] == '\t')) ++next;
    const bool is_key = next < text_.size() && text_[next] == ':';
    if (is_key) {
      absl::StrAppend(&strict_, "\"", word, "\"");
    } else if (word == "True" || word == "False") {
      strict_ += absl::AsciiStrToLower(word);
    } else {
      absl::StrAppend(&strict_, word == "None" ? "null" : word);
    }
  }

  absl::string_view text_;
  size_t at_ = 0;
  std::string strict_;
  size_t comma_at_ = std::string::npos;  // position of the comma that is held back
  bool value_ended_ = false;             // the last token ended a value (or is a key)
  size_t value_end_ = 0;
  bool new_line_ = false;  // since then
};

}  // namespace

std::string StrictJsonFromRelaxed(absl::string_view text) { return Relaxer(text).Strict(); }

}  // namespace spillway
