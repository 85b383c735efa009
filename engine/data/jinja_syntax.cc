#include "engine/data/jinja_syntax.h"

#include <algorithm>
#include <initializer_list>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "engine/base/utf8.h"
#include "io/base/status.h"

namespace spillway {
namespace {

using Expression = std::unique_ptr<JinjaExpression>;

constexpr int kMaxNesting = 100;

struct Token {
  enum class Kind { kText, kOpenOutput, kOpenBlock, kClose, kName, kString, kNumber, kSign, kEnd };
  Kind kind = Kind::kEnd;
  int line = 1;
  std::string text;
  JinjaValue value;
};

absl::Status Wrong(absl::string_view file, int line, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat(file, ":", line, ": ", why));
}

absl::Status Refused(absl::string_view file, int line, absl::string_view what) {
  return absl::UnimplementedError(
      absl::StrCat(file, ":", line, ": ", what, " in a chat template is not supported"));
}

class Lexer {
 public:
  Lexer(std::string source, absl::string_view file) : source_(std::move(source)), file_(file) {}

  absl::StatusOr<std::vector<Token>> Run() {
    while (at_ < source_.size()) {
      const size_t open = FindOpening();
      AddText(open);
      if (open == source_.size()) break;
      RETURN_IF_ERROR(Tag(open));
    }
    Add(Token::Kind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  void Add(Token::Kind kind, absl::string_view text, JinjaValue value = nullptr) {
    tokens_.push_back({kind, line_, std::string(text), std::move(value)});
  }

  size_t FindOpening() const {
    for (size_t at = at_; at + 1 < source_.size(); ++at) {
      if (source_[at] == '{' && absl::StrContains("{%#", source_.substr(at + 1, 1))) return at;
    }
    return source_.size();
  }

  // What stands before a tag at `open`, without what the tags on both sides trim.
  void AddText(size_t open) {
    absl::string_view text = absl::string_view(source_).substr(at_, open - at_);
    const absl::string_view tag = absl::string_view(source_).substr(open, 3);
    const int lines = static_cast<int>(std::count(text.begin(), text.end(), '\n'));
    const char sign = tag.size() == 3 ? tag[2] : ' ';
    if (trim_all_) text = absl::StripLeadingAsciiWhitespace(text);
    if (trim_line_ && absl::StartsWith(text, "\n")) text.remove_prefix(1);
    if (sign == '-') {
      text = absl::StripTrailingAsciiWhitespace(text);
    } else if (!tag.empty() && tag[1] != '{' && sign != '+') {
      // lstrip_blocks: white space from the line's beginning to the tag.
      size_t begin = text.size();
      while (begin > 0 && text[begin - 1] != '\n' && absl::ascii_isspace(text[begin - 1])) --begin;
      const bool at_line_start =
          begin > 0
              ? text[begin - 1] == '\n'
              : at_ == 0 || source_[static_cast<size_t>(text.data() - source_.data()) - 1] == '\n';
      if (at_line_start) text = text.substr(0, begin);
    }
    if (!text.empty()) Add(Token::Kind::kText, text);
    line_ += lines;
    trim_all_ = trim_line_ = false;
  }

  absl::Status Tag(size_t open) {
    const char kind = source_[open + 1];
    at_ = open + 2;
    if (kind == '#') {
      const size_t end = source_.find("#}", at_);
      if (end == std::string::npos) return Wrong(file_, line_, "a comment without an end");
      line_ +=
          static_cast<int>(std::count(source_.begin() + static_cast<std::ptrdiff_t>(at_),
                                      source_.begin() + static_cast<std::ptrdiff_t>(end), '\n'));
      trim_all_ = end > at_ && source_[end - 1] == '-';
      trim_line_ = end == at_ || source_[end - 1] != '+';
      at_ = end + 2;
      return absl::OkStatus();
    }
    if (at_ < source_.size() && (source_[at_] == '-' || source_[at_] == '+')) ++at_;
    Add(kind == '{' ? Token::Kind::kOpenOutput : Token::Kind::kOpenBlock, "");
    const std::string close = kind == '{' ? "}}" : "%}";
    int depth = 0;  // "}}" may end two dictionaries
    while (true) {
      while (at_ < source_.size() && absl::ascii_isspace(source_[at_]))
        line_ += source_[at_++] == '\n';
      if (at_ == source_.size())
        return Wrong(file_, line_, absl::StrCat("no \"", close, "\" ends the tag"));
      const bool signed_close = source_[at_] == '-' || source_[at_] == '+';
      if (depth == 0 && source_.compare(at_ + signed_close, 2, close) == 0) {
        trim_all_ = source_[at_] == '-';
        trim_line_ = kind == '%' && source_[at_] != '+';
        at_ += 2 + signed_close;
        Add(Token::Kind::kClose, close);
        return absl::OkStatus();
      }
      RETURN_IF_ERROR(Word());
      if (tokens_.back().kind != Token::Kind::kSign) continue;
      const std::string& sign = tokens_.back().text;
      depth +=
          (sign == "{" || sign == "(" || sign == "[") - (sign == "}" || sign == ")" || sign == "]");
    }
  }

  absl::Status Word() {
    const char c = source_[at_];
    size_t end = at_;
    if (absl::ascii_isalpha(c) || c == '_') {
      while (end < source_.size() && (absl::ascii_isalnum(source_[end]) || source_[end] == '_'))
        ++end;
      Add(Token::Kind::kName, absl::string_view(source_).substr(at_, end - at_));
      at_ = end;
      return absl::OkStatus();
    }
    if (absl::ascii_isdigit(c)) {
      while (end < source_.size() && absl::ascii_isdigit(source_[end])) ++end;
      const bool real =
          end + 1 < source_.size() && source_[end] == '.' && absl::ascii_isdigit(source_[end + 1]);
      if (real) {
        for (++end; end < source_.size() && absl::ascii_isdigit(source_[end]);) ++end;
      }
      const std::string text = source_.substr(at_, end - at_);
      int64_t whole = 0;
      double number = 0;
      if (!(real ? absl::SimpleAtod(text, &number) : absl::SimpleAtoi(text, &whole))) {
        return Wrong(file_, line_, absl::StrCat("the number ", text, " is too large"));
      }
      Add(Token::Kind::kNumber, text, real ? JinjaValue(number) : JinjaValue(whole));
      at_ = end;
      return absl::OkStatus();
    }
    if (c == '"' || c == '\'') return String(c);
    for (const absl::string_view sign : {"==", "!=", "<=", ">=", "//", "**"}) {
      if (source_.compare(at_, 2, sign.data()) == 0) {
        Add(Token::Kind::kSign, sign);
        at_ += 2;
        return absl::OkStatus();
      }
    }
    if (!absl::StrContains("+-*/%~()[]{}<>=|,.:", c)) {
      return Wrong(file_, line_, absl::StrCat("'", std::string(1, c), "' has no meaning here"));
    }
    Add(Token::Kind::kSign, absl::string_view(source_).substr(at_++, 1));
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
      const char c = source_[at_];
      const size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
      uint32_t point = 0;
      if (digits > 0) {
        if (!absl::SimpleHexAtoi(source_.substr(at_ + 1, digits), &point) || point > 0x10ffff ||
            (point >= 0xd800 && point <= 0xdfff)) {
          return Wrong(file_, line_, "a string has a \\x or \\u that is no character");
        }
        AppendUtf8(point, &text);
        at_ += digits;
      } else if (c == 'n' || c == 't' || c == 'r') {
        text += c == 'n' ? '\n' : c == 't' ? '\t' : '\r';
      } else if (c == '\\' || c == '\'' || c == '"') {
        text += c;
      } else if (c != '\n') {
        absl::StrAppend(&text, "\\", std::string(1, c));
      }
    }
    if (at_ >= source_.size()) return Wrong(file_, line, "a string without an end");
    ++at_;
    Add(Token::Kind::kString, "", text);
    return absl::OkStatus();
  }

  const std::string source_;
  const absl::string_view file_;
  size_t at_ = 0;
  int line_ = 1;
  bool trim_all_ = false, trim_line_ = false;  // what the tag before the text asks for
  std::vector<Token> tokens_;
};

class Parser {
 public:
  Parser(std::vector<Token> tokens, absl::string_view file)
      : tokens_(std::move(tokens)), file_(file) {}

  absl::StatusOr<std::vector<JinjaNode>> Run() {
    ASSIGN_OR_RETURN(std::vector<JinjaNode> nodes, Body({}));
    return nodes;
  }

 private:
  const Token& Now() const { return tokens_[at_]; }
  bool Is(Token::Kind kind, absl::string_view text) const {
    return Now().kind == kind && Now().text == text;
  }
  bool IsSign(absl::string_view text) const { return Is(Token::Kind::kSign, text); }
  bool IsName(absl::string_view text) const { return Is(Token::Kind::kName, text); }
  bool Take(Token::Kind kind, absl::string_view text) {
    if (!Is(kind, text)) return false;
    ++at_;
    return true;
  }
  bool TakeSign(absl::string_view text) { return Take(Token::Kind::kSign, text); }
  bool TakeName(absl::string_view text) { return Take(Token::Kind::kName, text); }

  std::string Shown() const {
    if (Now().kind == Token::Kind::kEnd) return "the end";
    return Now().kind == Token::Kind::kString ? "a string"
                                              : absl::StrCat("\"", Now().text.substr(0, 40), "\"");
  }
  absl::Status Unexpected(absl::string_view wanted) const {
    return Wrong(file_, Now().line, absl::StrCat(Shown(), " where ", wanted, " should stand"));
  }
  absl::Status Expect(Token::Kind kind, absl::string_view text) {
    return Take(kind, text) ? absl::OkStatus() : Unexpected(absl::StrCat("\"", text, "\""));
  }
  absl::Status ExpectSign(absl::string_view text) { return Expect(Token::Kind::kSign, text); }
  absl::StatusOr<std::string> ExpectName() {
    if (Now().kind != Token::Kind::kName) return Unexpected("a name");
    return tokens_[at_++].text;
  }

  // ------------------------------------------------------------------ statements

  // Up to a block that begins with one of `ends`, whose name is taken; to the end without any.
  absl::StatusOr<std::vector<JinjaNode>> Body(std::initializer_list<absl::string_view> ends) {
    if (++depth_ > kMaxNesting) return Wrong(file_, Now().line, "too deeply nested");
    std::vector<JinjaNode> nodes;
    while (true) {
      JinjaNode node;
      node.line = Now().line;
      const Token::Kind kind = Now().kind;
      if (kind == Token::Kind::kEnd) {
        if (ends.size() > 0) return Unexpected(absl::StrCat("\"", *ends.begin(), "\""));
        break;
      }
      node.text = tokens_[at_++].text;
      if (kind == Token::Kind::kOpenOutput) {
        node.kind = JinjaNode::Kind::kOutput;
        ASSIGN_OR_RETURN(node.expression, Tuple());
        RETURN_IF_ERROR(Expect(Token::Kind::kClose, "}}"));
      } else if (kind == Token::Kind::kOpenBlock) {
        ASSIGN_OR_RETURN(end_, ExpectName());
        if (std::find(ends.begin(), ends.end(), end_) != ends.end()) break;
        RETURN_IF_ERROR(Statement(end_, &node));
      }
      nodes.push_back(std::move(node));
    }
    --depth_;
    return nodes;
  }

  absl::Status CloseBlock() { return Expect(Token::Kind::kClose, "%}"); }

  absl::Status Statement(const std::string& name, JinjaNode* node) {
    if (name == "if") return If(node);
    if (name == "for") return For(node);
    if (name == "set") return Set(node);
    if (name == "generation") {
      node->kind = JinjaNode::Kind::kGeneration;
      if (captures_++ > 0) return Refused(file_, node->line, "{% generation %} within a capture");
      RETURN_IF_ERROR(CloseBlock());
      ASSIGN_OR_RETURN(node->body, Body({"endgeneration"}));
      --captures_;
      return CloseBlock();
    }
    if (name == "break" || name == "continue") {
      if (loops_ == 0)
        return Wrong(file_, node->line, absl::StrCat("\"", name, "\" outside a loop"));
      node->kind = name == "break" ? JinjaNode::Kind::kBreak : JinjaNode::Kind::kContinue;
      return CloseBlock();
    }
    return Refused(file_, node->line, absl::StrCat("{% ", name, " %}"));
  }

  absl::Status If(JinjaNode* node) {
    node->kind = JinjaNode::Kind::kIf;
    ASSIGN_OR_RETURN(node->expression, Tuple());
    RETURN_IF_ERROR(CloseBlock());
    ASSIGN_OR_RETURN(node->body, Body({"endif", "elif", "else"}));
    if (end_ == "elif") {
      JinjaNode other;
      other.line = Now().line;
      if (++depth_ > kMaxNesting) return Wrong(file_, Now().line, "too deeply nested");
      RETURN_IF_ERROR(If(&other));
      --depth_;
      node->otherwise.push_back(std::move(other));
      return absl::OkStatus();
    }
    RETURN_IF_ERROR(CloseBlock());
    if (end_ == "endif") return absl::OkStatus();
    ASSIGN_OR_RETURN(node->otherwise, Body({"endif"}));
    return CloseBlock();
  }

  absl::Status For(JinjaNode* node) {
    node->kind = JinjaNode::Kind::kFor;
    do {
      ASSIGN_OR_RETURN(node->names.emplace_back(), ExpectName());
    } while (TakeSign(","));
    RETURN_IF_ERROR(Expect(Token::Kind::kName, "in"));
    ASSIGN_OR_RETURN(node->expression, Or());
    if (TakeName("if")) {
      ASSIGN_OR_RETURN(node->condition, Condition());
    }
    if (IsName("recursive")) return Refused(file_, Now().line, "a recursive loop");
    RETURN_IF_ERROR(CloseBlock());
    ++loops_;
    ASSIGN_OR_RETURN(node->body, Body({"endfor", "else"}));
    --loops_;
    RETURN_IF_ERROR(CloseBlock());
    if (end_ == "endfor") return absl::OkStatus();
    ASSIGN_OR_RETURN(node->otherwise, Body({"endfor"}));
    return CloseBlock();
  }

  absl::Status Set(JinjaNode* node) {
    node->kind = JinjaNode::Kind::kSet;
    ASSIGN_OR_RETURN(node->names.emplace_back(), ExpectName());
    if (TakeSign(".")) {
      ASSIGN_OR_RETURN(node->names.emplace_back(), ExpectName());
    }
    if (IsSign(",")) return Refused(file_, Now().line, "setting several names at once");
    if (TakeSign("=")) {
      ASSIGN_OR_RETURN(node->expression, Tuple());
      return CloseBlock();
    }
    RETURN_IF_ERROR(CloseBlock());
    ++captures_;
    ASSIGN_OR_RETURN(node->body, Body({"endset"}));
    --captures_;
    return CloseBlock();
  }

  // ----------------------------------------------------------------- expressions

  Expression New(JinjaKind kind, std::string text = "") const {
    auto out = std::make_unique<JinjaExpression>();
    out->kind = kind;
    out->line = Now().line;
    out->text = std::move(text);
    return out;
  }
  template <typename... Children>
  Expression New(JinjaKind kind, std::string text, Children... children) const {
    Expression out = New(kind, std::move(text));
    (out->children.push_back(std::move(children)), ...);
    return out;
  }

  absl::StatusOr<Expression> Tuple() {
    ASSIGN_OR_RETURN(Expression first, Condition());
    if (IsSign(",")) return Refused(file_, Now().line, "a tuple");
    return first;
  }

  absl::StatusOr<Expression> Condition() {
    if (++depth_ > kMaxNesting) return Wrong(file_, Now().line, "too deeply nested");
    ASSIGN_OR_RETURN(Expression out, Or());
    while (TakeName("if")) {
      ASSIGN_OR_RETURN(Expression condition, Or());
      Expression other;
      if (TakeName("else")) {
        ASSIGN_OR_RETURN(other, Condition());
      }
      out = New(JinjaKind::kCondition, "", std::move(out), std::move(condition), std::move(other));
    }
    --depth_;
    return out;
  }

  absl::StatusOr<Expression> Or() { return LeftToRight(Token::Kind::kName, {"or"}, &Parser::And); }
  absl::StatusOr<Expression> And() {
    return LeftToRight(Token::Kind::kName, {"and"}, &Parser::Not);
  }

  absl::StatusOr<Expression> Not() {
    if (!TakeName("not")) return Compare();
    if (++depth_ > kMaxNesting) return Wrong(file_, Now().line, "too deeply nested");
    ASSIGN_OR_RETURN(Expression inner, Not());
    --depth_;
    return New(JinjaKind::kNot, "", std::move(inner));
  }

  absl::StatusOr<Expression> Compare() {
    ASSIGN_OR_RETURN(Expression left, Sum());
    bool compared = false;
    while (true) {
      std::string sign = TakeOneOf(Token::Kind::kSign, {"==", "!=", "<=", ">=", "<", ">"});
      if (sign.empty() && TakeName("in")) sign = "in";
      if (sign.empty() && IsName("not") && tokens_[at_ + 1].kind == Token::Kind::kName &&
          tokens_[at_ + 1].text == "in") {
        at_ += 2;
        sign = "not in";
      }
      if (sign.empty()) return left;
      if (std::exchange(compared, true))
        return Refused(file_, Now().line, "a chain of comparisons");
      ASSIGN_OR_RETURN(Expression right, Sum());
      left = New(JinjaKind::kBinary, sign, std::move(left), std::move(right));
    }
  }

  // "" where none of them stands here.
  std::string TakeOneOf(Token::Kind kind, std::initializer_list<const char*> texts) {
    for (const char* text : texts) {
      if (Take(kind, text)) return text;
    }
    return "";
  }

  // The operands of `signs` are what `next` takes.
  absl::StatusOr<Expression> LeftToRight(Token::Kind kind, std::initializer_list<const char*> signs,
                                         absl::StatusOr<Expression> (Parser::*next)()) {
    ASSIGN_OR_RETURN(Expression left, (this->*next)());
    while (true) {
      const std::string sign = TakeOneOf(kind, signs);
      if (sign.empty()) return left;
      ASSIGN_OR_RETURN(Expression right, (this->*next)());
      left = New(JinjaKind::kBinary, sign, std::move(left), std::move(right));
    }
  }
  absl::StatusOr<Expression> Sum() {
    return LeftToRight(Token::Kind::kSign, {"+", "-"}, &Parser::Concat);
  }
  absl::StatusOr<Expression> Concat() {
    return LeftToRight(Token::Kind::kSign, {"~"}, &Parser::Product);
  }
  absl::StatusOr<Expression> Product() {
    return LeftToRight(Token::Kind::kSign, {"*", "//", "/", "%"}, &Parser::Filtered);
  }

  absl::StatusOr<Expression> Filtered() {
    ASSIGN_OR_RETURN(Expression out, Unary());
    while (true) {
      if (TakeSign("|")) {
        ASSIGN_OR_RETURN(const std::string name, ExpectName());
        out = New(JinjaKind::kFilter, name, std::move(out));
        if (IsSign("(")) RETURN_IF_ERROR(Arguments(out.get()));
      } else if (TakeName("is")) {
        const bool negated = TakeName("not");
        ASSIGN_OR_RETURN(const std::string name, ExpectName());
        out = New(JinjaKind::kTest, name, std::move(out));
        const bool word = Now().kind == Token::Kind::kName && !IsName("and") && !IsName("or") &&
                          !IsName("else") && !IsName("if") && !IsName("is") && !IsName("in") &&
                          !IsName("not");
        if (IsSign("(")) {
          RETURN_IF_ERROR(Arguments(out.get()));
        } else if (word || Now().kind == Token::Kind::kString ||
                   Now().kind == Token::Kind::kNumber || IsSign("[")) {
          ASSIGN_OR_RETURN(out->children.emplace_back(), Postfixed());
        }
        if (negated) out = New(JinjaKind::kNot, "", std::move(out));
      } else {
        return out;
      }
    }
  }

  absl::StatusOr<Expression> Unary() {
    if (IsSign("+")) return Refused(file_, Now().line, "a plus sign before a value");
    if (!TakeSign("-")) return Postfixed();
    if (++depth_ > kMaxNesting) return Wrong(file_, Now().line, "too deeply nested");
    ASSIGN_OR_RETURN(Expression inner, Unary());
    --depth_;
    return New(JinjaKind::kMinus, "", std::move(inner));
  }

  absl::Status Arguments(JinjaExpression* out) {
    RETURN_IF_ERROR(ExpectSign("("));
    while (!TakeSign(")")) {
      std::string keyword;
      if (Now().kind == Token::Kind::kName && tokens_[at_ + 1].kind == Token::Kind::kSign &&
          tokens_[at_ + 1].text == "=") {
        keyword = Now().text;
        at_ += 2;
      }
      ASSIGN_OR_RETURN(out->children.emplace_back(), Condition());
      out->keywords.resize(out->children.size() - 2);
      out->keywords.push_back(keyword);
      if (!IsSign(")")) RETURN_IF_ERROR(ExpectSign(","));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<Expression> Postfixed() {
    ASSIGN_OR_RETURN(Expression out, Primary());
    while (true) {
      if (TakeSign(".")) {
        ASSIGN_OR_RETURN(const std::string name, ExpectName());
        out = New(JinjaKind::kAttribute, name, std::move(out));
      } else if (IsSign("(")) {
        out = New(JinjaKind::kCall, "", std::move(out));
        RETURN_IF_ERROR(Arguments(out.get()));
      } else if (TakeSign("[")) {
        ASSIGN_OR_RETURN(out, Subscript(std::move(out)));
      } else {
        return out;
      }
    }
  }

  absl::StatusOr<Expression> Subscript(Expression of) {
    Expression out = New(JinjaKind::kItem, "", std::move(of));
    while (true) {
      Expression part;
      if (!IsSign(":") && !IsSign("]")) {
        ASSIGN_OR_RETURN(part, Condition());
      }
      out->children.push_back(std::move(part));
      if (TakeSign("]")) break;
      RETURN_IF_ERROR(ExpectSign(":"));
      out->kind = JinjaKind::kSlice;
      if (out->children.size() == 4) return Unexpected("\"]\"");
    }
    if (out->kind == JinjaKind::kItem && out->children[1] == nullptr) return Unexpected("an index");
    if (out->kind == JinjaKind::kSlice) out->children.resize(4);
    return out;
  }

  absl::StatusOr<Expression> Primary() {
    const Token& token = Now();
    if (token.kind == Token::Kind::kString || token.kind == Token::Kind::kNumber) {
      Expression out = New(JinjaKind::kLiteral);
      out->value = token.value;
      ++at_;
      while (out->value.is_string() && Now().kind == Token::Kind::kString) {
        out->value = out->value.get<std::string>() + tokens_[at_++].value.get<std::string>();
      }
      return out;
    }
    if (token.kind == Token::Kind::kName) {
      Expression out = New(JinjaKind::kName, token.text);
      ++at_;
      const std::string lower = absl::AsciiStrToLower(out->text);
      const bool known =
          out->text == lower || out->text == absl::StrCat(lower.substr(0, 1) == "n"   ? "N"
                                                          : lower.substr(0, 1) == "t" ? "T"
                                                                                      : "F",
                                                          lower.substr(1));
      if (known && (lower == "true" || lower == "false" || lower == "none")) {
        out->kind = JinjaKind::kLiteral;
        if (lower != "none") out->value = lower == "true";
      }
      return out;
    }
    if (TakeSign("(")) {
      ASSIGN_OR_RETURN(Expression out, Tuple());
      RETURN_IF_ERROR(ExpectSign(")"));
      return out;
    }
    if (!IsSign("[") && !IsSign("{")) return Unexpected("a value");
    const bool dict = IsSign("{");
    Expression out = New(dict ? JinjaKind::kDict : JinjaKind::kList);
    ++at_;
    const char* close = dict ? "}" : "]";
    while (!TakeSign(close)) {
      ASSIGN_OR_RETURN(out->children.emplace_back(), Condition());
      if (dict) {
        RETURN_IF_ERROR(ExpectSign(":"));
        ASSIGN_OR_RETURN(out->children.emplace_back(), Condition());
      }
      if (!IsSign(close)) RETURN_IF_ERROR(ExpectSign(","));
    }
    return out;
  }

  const std::vector<Token> tokens_;
  const absl::string_view file_;
  size_t at_ = 0;
  int depth_ = 0, loops_ = 0;
  int captures_ = 0;  // of text, in a set or a generation
  std::string end_;   // the name that ended the last body
};

}  // namespace

absl::StatusOr<std::vector<JinjaNode>> ParseJinja(absl::string_view source,
                                                  absl::string_view file) {
  std::string text = absl::StrReplaceAll(source, {{"\r\n", "\n"}, {"\r", "\n"}});
  if (absl::EndsWith(text, "\n")) text.pop_back();
  ASSIGN_OR_RETURN(std::vector<Token> tokens, Lexer(std::move(text), file).Run());
  return Parser(std::move(tokens), file).Run();
}

}  // namespace spillway
