#include "engine/chat/jinja_syntax.h"

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "engine/chat/jinja_lexer.h"
#include "io/base/status.h"

namespace spillway {
namespace {

using Expression = std::unique_ptr<JinjaExpression>;
using Token = JinjaToken;

// Trees are read, evaluated and destroyed by recursion: within what they nest in, and along chains
// such as 1+1+1, which nest to the left.
constexpr int kMaxNesting = 100, kMaxHeight = 250;

class Parser {
 public:
  Parser(std::vector<Token> tokens, absl::string_view file)
      : tokens_(std::move(tokens)), file_(file) {}

  absl::StatusOr<JinjaTemplate> Run() {
    ASSIGN_OR_RETURN(out_.nodes, Body({}));
    return std::move(out_);
  }

 private:
  const Token& Now() const { return tokens_[at_]; }
  JinjaPlace At() const { return {file_, Now().line}; }
  JinjaPlace At(const JinjaNode& node) const { return {file_, node.line}; }
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
  absl::Status TooDeep() const { return At().Wrong("too deeply nested"); }

  // ------------------------------------------------------------------ statements

  // Up to a block that begins with one of `ends`, whose name is taken; to the end without any.
  absl::StatusOr<std::vector<JinjaNode>> Body(std::initializer_list<absl::string_view> ends) {
    if (++depth_ > kMaxNesting) return TooDeep();
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

  // The body of a block that Jinja makes a function of, or whose text it takes: no loop is left
  // from within, and no generation is in it, as the text before it is not known there.
  absl::Status Captured(const char* end, JinjaNode* node) {
    const int loops = std::exchange(loops_, 0);
    ++captures_;
    ASSIGN_OR_RETURN(node->body, Body({end}));
    --captures_;
    loops_ = loops;
    return CloseBlock();
  }

  absl::Status Statement(const std::string& name, JinjaNode* node) {
    using Kind = JinjaNode::Kind;
    if (name == "if") return If(node);
    if (name == "for") return For(node);
    if (name == "set") return Set(node);
    if (name == "macro") return Macro(node);
    if (name == "call") return Call(node);
    if (name == "with") return With(node);
    if (name == "filter") {
      node->kind = Kind::kFilter;
      ASSIGN_OR_RETURN(node->expression, FilterChain());
      RETURN_IF_ERROR(CloseBlock());
      return Captured("endfilter", node);
    }
    if (name == "generation") {
      node->kind = Kind::kGeneration;
      out_.generates = true;
      if (captures_ > 0) return At(*node).Refused("{% generation %} within a capture");
      RETURN_IF_ERROR(CloseBlock());
      return Captured("endgeneration", node);
    }
    if (name == "break" || name == "continue") {
      if (loops_ == 0) return At(*node).Wrong(absl::StrCat("\"", name, "\" outside a loop"));
      node->kind = name == "break" ? Kind::kBreak : Kind::kContinue;
      return CloseBlock();
    }
    return At(*node).Refused(absl::StrCat("{% ", name, " %}"));
  }

  absl::Status If(JinjaNode* node) {
    node->kind = JinjaNode::Kind::kIf;
    ASSIGN_OR_RETURN(node->expression, Tuple());
    RETURN_IF_ERROR(CloseBlock());
    ASSIGN_OR_RETURN(node->body, Body({"endif", "elif", "else"}));
    if (end_ == "elif") {
      JinjaNode other;
      other.line = Now().line;
      if (++depth_ > kMaxNesting) return TooDeep();
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
    ASSIGN_OR_RETURN(node->target, Target(false));
    RETURN_IF_ERROR(Expect(Token::Kind::kName, "in"));
    ASSIGN_OR_RETURN(node->expression, TupleOf(&Parser::Or, false));
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
    ASSIGN_OR_RETURN(node->target, Target(true));
    if (TakeSign("=")) {
      ASSIGN_OR_RETURN(node->expression, Tuple());
      return CloseBlock();
    }
    if (IsSign("|")) {
      ++at_;
      ASSIGN_OR_RETURN(node->condition, FilterChain());
    }
    RETURN_IF_ERROR(CloseBlock());
    // A set block is no function: a loop around it can be left from within.
    ++captures_;
    ASSIGN_OR_RETURN(node->body, Body({"endset"}));
    --captures_;
    return CloseBlock();
  }

  absl::Status With(JinjaNode* node) {
    node->kind = JinjaNode::Kind::kWith;
    while (Now().kind != Token::Kind::kClose) {
      if (!node->targets.empty()) RETURN_IF_ERROR(ExpectSign(","));
      ASSIGN_OR_RETURN(node->targets.emplace_back(), SingleTarget(false));
      RETURN_IF_ERROR(ExpectSign("="));
      ASSIGN_OR_RETURN(node->values.emplace_back(), Condition());
    }
    RETURN_IF_ERROR(CloseBlock());
    ASSIGN_OR_RETURN(node->body, Body({"endwith"}));
    return CloseBlock();
  }

  // "(a, b=1)".
  absl::Status Signature(JinjaNode* node) {
    RETURN_IF_ERROR(ExpectSign("("));
    while (!TakeSign(")")) {
      if (!node->names.empty()) RETURN_IF_ERROR(ExpectSign(","));
      if (TakeSign(")")) break;
      ASSIGN_OR_RETURN(node->names.emplace_back(), ExpectName());
      Expression otherwise;
      if (TakeSign("=")) {
        ASSIGN_OR_RETURN(otherwise, Condition());
      } else if (!node->values.empty() && node->values.back() != nullptr) {
        return At().Wrong("a parameter without a default behind one with a default");
      }
      node->values.push_back(std::move(otherwise));
    }
    return absl::OkStatus();
  }

  // The body of a macro, and which of the names that it may be given beyond its parameters it uses.
  absl::Status MacroBody(const char* end, JinjaNode* node) {
    RETURN_IF_ERROR(CloseBlock());
    const size_t first = at_;
    RETURN_IF_ERROR(Captured(end, node));
    const auto uses = [&](absl::string_view name) {
      if (std::find(node->names.begin(), node->names.end(), name) != node->names.end()) {
        return false;
      }
      for (size_t i = first; i < at_; ++i) {
        if (tokens_[i].kind == Token::Kind::kName && tokens_[i].text == name &&
            !(tokens_[i - 1].kind == Token::Kind::kSign && tokens_[i - 1].text == ".")) {
          return true;
        }
      }
      return false;
    };
    node->takes_caller = uses("caller");
    node->takes_values = uses("varargs");
    node->takes_named = uses("kwargs");
    return absl::OkStatus();
  }

  absl::Status Macro(JinjaNode* node) {
    node->kind = JinjaNode::Kind::kMacro;
    ASSIGN_OR_RETURN(node->text, ExpectName());
    RETURN_IF_ERROR(Signature(node));
    return MacroBody("endmacro", node);
  }

  absl::Status Call(JinjaNode* node) {
    node->kind = JinjaNode::Kind::kCall;
    node->text = "caller";
    if (IsSign("(")) RETURN_IF_ERROR(Signature(node));
    ASSIGN_OR_RETURN(node->expression, Condition());
    if (node->expression->kind != JinjaKind::kCall) return At(*node).Wrong("{% call %} of no call");
    return MacroBody("endcall", node);
  }

  // What is assigned to: a name, or in a set an attribute of a namespace.
  absl::StatusOr<Expression> SingleTarget(bool attributes) {
    if (TakeSign("(")) {
      if (++depth_ > kMaxNesting) return TooDeep();
      ASSIGN_OR_RETURN(Expression inner, Target(false));
      --depth_;
      RETURN_IF_ERROR(ExpectSign(")"));
      return inner;
    }
    ASSIGN_OR_RETURN(const std::string name, ExpectName());
    Expression out = New(JinjaKind::kName, name);
    if (!attributes || !TakeSign(".")) return out;
    ASSIGN_OR_RETURN(const std::string attribute, ExpectName());
    return Over(JinjaKind::kAttribute, attribute, std::move(out));
  }

  // One target, or several with commas between them.
  absl::StatusOr<Expression> Target(bool attributes) {
    ASSIGN_OR_RETURN(Expression first, SingleTarget(attributes));
    if (!IsSign(",")) return first;
    Expression out = New(JinjaKind::kTuple);
    out->children.push_back(std::move(first));
    while (TakeSign(",")) {
      if (IsName("in") || IsSign("=") || IsSign(")")) break;
      ASSIGN_OR_RETURN(out->children.emplace_back(), SingleTarget(attributes));
    }
    RETURN_IF_ERROR(Measure(out.get()));
    return out;
  }

  // ----------------------------------------------------------------- expressions

  Expression New(JinjaKind kind, std::string text = "") const {
    auto out = std::make_unique<JinjaExpression>();
    out->kind = kind;
    out->line = Now().line;
    out->text = std::move(text);
    return out;
  }
  absl::Status Measure(JinjaExpression* e) const {
    for (const auto& child : e->children) {
      if (child != nullptr) e->height = std::max(e->height, child->height + 1);
    }
    return e->height > kMaxHeight ? TooDeep() : absl::OkStatus();
  }
  // A new expression over these children.
  template <typename... Children>
  absl::StatusOr<Expression> Over(JinjaKind kind, std::string text, Children... children) const {
    Expression out = New(kind, std::move(text));
    (out->children.push_back(std::move(children)), ...);
    RETURN_IF_ERROR(Measure(out.get()));
    return out;
  }

  // One expression that `next` takes, or a tuple of several; none at all is one in parentheses.
  absl::StatusOr<Expression> TupleOf(absl::StatusOr<Expression> (Parser::*next)(),
                                     bool parentheses) {
    if (parentheses && IsSign(")")) return New(JinjaKind::kTuple);
    ASSIGN_OR_RETURN(Expression first, (this->*next)());
    if (!IsSign(",")) return first;
    Expression out = New(JinjaKind::kTuple);
    out->children.push_back(std::move(first));
    while (TakeSign(",")) {
      if (IsSign(")") || Now().kind == Token::Kind::kClose || IsName("recursive")) break;
      ASSIGN_OR_RETURN(out->children.emplace_back(), (this->*next)());
    }
    RETURN_IF_ERROR(Measure(out.get()));
    return out;
  }
  absl::StatusOr<Expression> Tuple() { return TupleOf(&Parser::Condition, false); }

  absl::StatusOr<Expression> Condition() {
    if (++depth_ > kMaxNesting) return TooDeep();
    ASSIGN_OR_RETURN(Expression out, Or());
    while (TakeName("if")) {
      ASSIGN_OR_RETURN(Expression condition, Or());
      Expression other;
      if (TakeName("else")) {
        ASSIGN_OR_RETURN(other, Condition());
      }
      ASSIGN_OR_RETURN(out, Over(JinjaKind::kCondition, "", std::move(out), std::move(condition),
                                 std::move(other)));
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
    if (++depth_ > kMaxNesting) return TooDeep();
    ASSIGN_OR_RETURN(Expression inner, Not());
    --depth_;
    return Over(JinjaKind::kNot, "", std::move(inner));
  }

  absl::StatusOr<Expression> Compare() {
    ASSIGN_OR_RETURN(Expression left, Sum());
    Expression out;
    while (true) {
      std::string sign = TakeOneOf(Token::Kind::kSign, {"==", "!=", "<=", ">=", "<", ">"});
      if (sign.empty() && TakeName("in")) sign = "in";
      if (sign.empty() && IsName("not") && tokens_[at_ + 1].kind == Token::Kind::kName &&
          tokens_[at_ + 1].text == "in") {
        at_ += 2;
        sign = "not in";
      }
      if (sign.empty()) break;
      if (out == nullptr) {
        out = New(JinjaKind::kCompare);
        out->children.push_back(std::move(left));
      }
      out->keywords.push_back(sign);
      ASSIGN_OR_RETURN(out->children.emplace_back(), Sum());
    }
    if (out == nullptr) return left;
    RETURN_IF_ERROR(Measure(out.get()));
    return out;
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
      ASSIGN_OR_RETURN(left, Over(JinjaKind::kBinary, sign, std::move(left), std::move(right)));
    }
  }
  absl::StatusOr<Expression> Sum() {
    return LeftToRight(Token::Kind::kSign, {"+", "-"}, &Parser::Concat);
  }
  absl::StatusOr<Expression> Concat() {
    ASSIGN_OR_RETURN(Expression first, Product());
    if (!IsSign("~")) return first;
    Expression out = New(JinjaKind::kConcat);
    out->children.push_back(std::move(first));
    while (TakeSign("~")) {
      ASSIGN_OR_RETURN(out->children.emplace_back(), Product());
    }
    RETURN_IF_ERROR(Measure(out.get()));
    return out;
  }
  absl::StatusOr<Expression> Product() {
    return LeftToRight(Token::Kind::kSign, {"*", "//", "/", "%"}, &Parser::Power);
  }
  absl::StatusOr<Expression> Power() {
    return LeftToRight(Token::Kind::kSign, {"**"}, &Parser::Filtered);
  }

  // "name" or "name(arguments)" behind a "|".
  absl::StatusOr<Expression> Filter(Expression of) {
    ASSIGN_OR_RETURN(const std::string name, ExpectName());
    Expression out = New(JinjaKind::kFilter, name);
    out->children.push_back(std::move(of));
    if (IsSign("(")) RETURN_IF_ERROR(Arguments(out.get()));
    RETURN_IF_ERROR(Measure(out.get()));
    return out;
  }

  // "a | b(1)", over a value that a block makes.
  absl::StatusOr<Expression> FilterChain() {
    ASSIGN_OR_RETURN(Expression out, Filter(nullptr));
    while (TakeSign("|")) {
      ASSIGN_OR_RETURN(out, Filter(std::move(out)));
    }
    return out;
  }

  absl::StatusOr<Expression> Test(Expression of) {
    const bool negated = TakeName("not");
    ASSIGN_OR_RETURN(const std::string name, ExpectName());
    Expression out = New(JinjaKind::kTest, name);
    out->children.push_back(std::move(of));
    const bool word = Now().kind == Token::Kind::kName && !IsName("and") && !IsName("or") &&
                      !IsName("else") && !IsName("if") && !IsName("is") && !IsName("in") &&
                      !IsName("not") && !IsName("recursive");
    if (IsSign("(")) {
      RETURN_IF_ERROR(Arguments(out.get()));
    } else if (word || Now().kind == Token::Kind::kString || Now().kind == Token::Kind::kNumber ||
               IsSign("[") || IsSign("{")) {
      ASSIGN_OR_RETURN(Expression primary, Primary());
      ASSIGN_OR_RETURN(out->children.emplace_back(), Postfixed(std::move(primary)));
    }
    RETURN_IF_ERROR(Measure(out.get()));
    return negated ? Over(JinjaKind::kNot, "", std::move(out)) : std::move(out);
  }

  absl::StatusOr<Expression> Filtered() {
    ASSIGN_OR_RETURN(Expression out, Unary());
    while (true) {
      if (TakeSign("|")) {
        ASSIGN_OR_RETURN(out, Filter(std::move(out)));
      } else if (TakeName("is")) {
        ASSIGN_OR_RETURN(out, Test(std::move(out)));
      } else if (IsSign("(")) {
        ASSIGN_OR_RETURN(out, CallOf(std::move(out)));
      } else {
        return out;
      }
    }
  }

  absl::StatusOr<Expression> Unary() {
    const bool minus = IsSign("-");
    if (!minus && !IsSign("+")) {
      ASSIGN_OR_RETURN(Expression primary, Primary());
      return Postfixed(std::move(primary));
    }
    ++at_;
    if (++depth_ > kMaxNesting) return TooDeep();
    ASSIGN_OR_RETURN(Expression inner, Unary());
    --depth_;
    return Over(minus ? JinjaKind::kMinus : JinjaKind::kPlus, "", std::move(inner));
  }

  absl::Status Arguments(JinjaExpression* out) {
    RETURN_IF_ERROR(ExpectSign("("));
    while (!TakeSign(")")) {
      if (IsSign("**")) return At().Refused("a call with **");
      std::string keyword;
      if (TakeSign("*")) {
        keyword = "*";
        if (absl::c_linear_search(out->keywords, keyword)) return At().Wrong("a second *");
      } else if (Now().kind == Token::Kind::kName && tokens_[at_ + 1].kind == Token::Kind::kSign &&
                 tokens_[at_ + 1].text == "=") {
        keyword = Now().text;
        at_ += 2;
      } else if (!out->keywords.empty() && !out->keywords.back().empty()) {
        return At().Wrong("an argument without a name behind one with a name");
      }
      ASSIGN_OR_RETURN(out->children.emplace_back(), Condition());
      out->keywords.push_back(keyword);
      if (!IsSign(")")) RETURN_IF_ERROR(ExpectSign(","));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<Expression> CallOf(Expression of) {
    Expression out = New(JinjaKind::kCall);
    out->children.push_back(std::move(of));
    RETURN_IF_ERROR(Arguments(out.get()));
    RETURN_IF_ERROR(Measure(out.get()));
    return out;
  }

  absl::StatusOr<Expression> Postfixed(Expression out) {
    while (true) {
      if (TakeSign(".")) {
        if (Now().kind == Token::Kind::kNumber) {
          ASSIGN_OR_RETURN(Expression index, Number());
          ASSIGN_OR_RETURN(out, Over(JinjaKind::kItem, "", std::move(out), std::move(index)));
          continue;
        }
        ASSIGN_OR_RETURN(const std::string name, ExpectName());
        ASSIGN_OR_RETURN(out, Over(JinjaKind::kAttribute, name, std::move(out)));
      } else if (IsSign("(")) {
        ASSIGN_OR_RETURN(out, CallOf(std::move(out)));
      } else if (TakeSign("[")) {
        ASSIGN_OR_RETURN(out, Subscript(std::move(out)));
      } else {
        return out;
      }
    }
  }

  absl::StatusOr<Expression> Subscript(Expression of) {
    Expression out = New(JinjaKind::kItem);
    out->children.push_back(std::move(of));
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
    RETURN_IF_ERROR(Measure(out.get()));
    return out;
  }

  absl::StatusOr<Expression> Number() {
    Expression out = New(JinjaKind::kLiteral);
    const std::string& text = Now().text;
    int64_t whole = 0;
    double real = 0;
    const bool has_point = text.find_first_of(".eE") != std::string::npos;
    if (!(has_point ? absl::SimpleAtod(text, &real) : absl::SimpleAtoi(text, &whole))) {
      return At().Wrong(absl::StrCat("the number ", text, " is too large"));
    }
    out->value = has_point ? PyValue::Float(real) : PyValue::Int(whole);
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
      out->value = PyTextValue(std::move(text));
      return out;
    }
    if (token.kind == Token::Kind::kName) {
      const std::string& name = token.text;
      Expression out = New(JinjaKind::kName, name);
      ++at_;
      out_.reads_clock |= name == "strftime_now";
      const bool yes = name == "true" || name == "True", no = name == "false" || name == "False";
      if (yes || no || name == "none" || name == "None") {
        out->kind = JinjaKind::kLiteral;
        out->value = yes || no ? PyValue::Bool(yes) : PyValue::None();
      }
      return out;
    }
    if (TakeSign("(")) {
      ASSIGN_OR_RETURN(Expression out, TupleOf(&Parser::Condition, true));
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
    RETURN_IF_ERROR(Measure(out.get()));
    return out;
  }

  const std::vector<Token> tokens_;
  const absl::string_view file_;
  JinjaTemplate out_;
  size_t at_ = 0;
  int depth_ = 0, loops_ = 0;
  int captures_ = 0;  // of text, in a set, a macro or a generation
  std::string end_;   // the name that ended the last body
};

}  // namespace

absl::StatusOr<JinjaTemplate> ParseJinja(absl::string_view source, absl::string_view file) {
  ASSIGN_OR_RETURN(std::vector<JinjaToken> tokens, LexJinja(source, file));
  return Parser(std::move(tokens), file).Run();
}

}  // namespace spillway
