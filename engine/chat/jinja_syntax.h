// Parses the part of Jinja that chat templates use into a tree.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/chat/py_value.h"

namespace spillway {

// Kinds of expressions, with their fields.
enum class JinjaKind {
  kLiteral,    // value
  kName,       // text
  kList,       // children
  kTuple,      // children
  kDict,       // children: key, value, key, value
  kAttribute,  // child 0 . text
  kItem,       // child 0 [child 1]
  kSlice,      // child 0 [child 1 : child 2 : child 3], each of which may be null
  kCall,       // child 0 (children from 1)
  kFilter,     // child 0 | text (children from 1); child 0 is null in a filter block
  kTest,       // child 0 is text (children from 1)
  kNot,
  kMinus,
  kPlus,
  kBinary,     // child 0 text child 1
  kConcat,     // children, with ~ between them
  kCompare,    // child 0 keywords[0] child 1 keywords[1] child 2 ...
  kCondition,  // child 0 if child 1 else child 2, which may be null
};

struct JinjaExpression {
  JinjaKind kind = JinjaKind::kLiteral;
  int line = 0;
  int height = 1;  // of its tree
  std::string text;
  PyValue value;
  std::vector<std::unique_ptr<JinjaExpression>> children;
  // Names of a call's or filter's children from 1; "" of one without, "*" of a list of arguments.
  std::vector<std::string> keywords;
};

struct JinjaNode {
  enum class Kind {
    kText,        // text
    kOutput,      // expression
    kIf,          // if expression: body, else otherwise
    kFor,         // for target in expression if condition: body; otherwise if there was no item
    kSet,         // target to expression, or to body (through the filters of condition)
    kWith,        // targets to values, in body
    kGeneration,  // body is the assistant's text
    kMacro,       // text (names = values): body
    kCall,        // expression, a call, with caller(names = values): body
    kFilter,      // body through the filters of expression
    kBreak,
    kContinue,
  };
  Kind kind = Kind::kText;
  int line = 0;
  std::string text;
  std::vector<std::string> names;
  // kWith: names and values. kMacro: parameters and defaults, null for those without.
  std::vector<std::unique_ptr<JinjaExpression>> targets, values;
  // `target` is a name, a tuple of targets, or in kSet an attribute of a namespace.
  std::unique_ptr<JinjaExpression> target, expression, condition;
  std::vector<JinjaNode> body, otherwise;
  // Whether a macro's body uses `caller`, `varargs` and `kwargs`.
  bool takes_caller = false, takes_values = false, takes_named = false;
};

struct JinjaTemplate {
  std::vector<JinjaNode> nodes;
  bool generates = false;    // marks the assistant's text with {% generation %}
  bool reads_clock = false;  // uses strftime_now
};

// Parses with trim_blocks and lstrip_blocks, like transformers. Trees are at most some hundred
// levels high. kInvalidArgument, "FILE:LINE: ...", for an invalid template; kUnimplemented names an
// unsupported feature.
absl::StatusOr<JinjaTemplate> ParseJinja(absl::string_view source, absl::string_view file);

}  // namespace spillway
