#include "engine/data/jinja_syntax.h"

#include <algorithm>
#include <initializer_list>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "engine/data/jinja_lexer.h"
#include "io/base/status.h"

namespace spillway {
namespace {

using Expression = std::unique_ptr<JinjaExpression>;
using Token = JinjaToken;

constexpr int kMaxNesting = 100;

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
  JinjaPlace At() const { return {file_, Now().line}; }
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
    return At().Wrong(absl::StrCat(Shown(), " where ", wanted, " should stand"));
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
    if (++depth_ > kMaxNesting) return At().Wrong("too deeply nested");
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
      if (captures_++ > 0)
        return JinjaPlace{file_, node->line}.Refused("{% generation %} within a capture");
      RETURN_IF_ERROR(CloseBlock());
      const int loops = std::exchange(loops_, 0);  // Jinja makes a function of the body
      ASSIGN_OR_RETURN(node->body, Body({"endgeneration"}));
      loops_ = loops;
      --captures_;
      return CloseBlock();
    }
    if (name == "break" || name == "continue") {
      if (loops_ == 0)
        return JinjaPlace{file_, node->line}.Wrong(absl::StrCat("\"", name, "\" outside a loop"));
      node->kind = name == "break" ? JinjaNode::Kind::kBreak : JinjaNode::Kind::kContinue;
      return CloseBlock();
    }
    return JinjaPlace{file_, node->line}.Refused(absl::StrCat("{% ", name, " %}"));
  }

  absl::Status If(JinjaNode* node) {
    node->kind = JinjaNode::Kind::kIf;
    ASSIGN_OR_RETURN(node->expression, Tuple());
    RETURN_IF_ERROR(CloseBlock());
    ASSIGN_OR_RETURN(node->body, Body({"endif", "elif", "else"}));
    if (end_ == "elif") {
      JinjaNode other;
      other.line = Now().line;
      if (++depth_ > kMaxNesting) return At().Wrong("too deeply nested");
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
    if (IsName("recursive")) return At().Refused("a recursive loop");
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
    if (IsSign(",")) return At().Refused("setting several names at once");
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
    if (IsSign(",")) return At().Refused("a tuple");
    return first;
  }

  absl::StatusOr<Expression> Condition() {
    if (++depth_ > kMaxNesting) return At().Wrong("too deeply nested");
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
    if (++depth_ > kMaxNesting) return At().Wrong("too deeply nested");
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
      if (std::exchange(compared, true)) return At().Refused("a chain of comparisons");
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
    if (IsSign("+")) return At().Refused("a plus sign before a value");
    if (!TakeSign("-")) return Postfixed();
    if (++depth_ > kMaxNesting) return At().Wrong("too deeply nested");
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

  absl::StatusOr<Expression> Number() {
    Expression out = New(JinjaKind::kLiteral);
    const std::string& text = Now().text;
    int64_t whole = 0;
    double real = 0;
    const bool has_point = absl::StrContains(text, '.');
    if (!(has_point ? absl::SimpleAtod(text, &real) : absl::SimpleAtoi(text, &whole))) {
      return At().Wrong(absl::StrCat("the number ", text, " is too large"));
    }
    out->value = has_point ? JinjaValue(real) : JinjaValue(whole);
    ++at_;
    return out;
  }

  absl::StatusOr<Expression> Primary() {
    const Token& token = Now();
    if (token.kind == Token::Kind::kNumber) return Number();
    if (token.kind == Token::Kind::kString) {
      Expression out = New(JinjaKind::kLiteral);
      std::string text;
      while (Now().kind == Token::Kind::kString) text += tokens_[at_++].text;
      out->value = std::move(text);
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
  ASSIGN_OR_RETURN(std::vector<JinjaToken> tokens, LexJinja(source, file));
  return Parser(std::move(tokens), file).Run();
}

}  // namespace spillway
