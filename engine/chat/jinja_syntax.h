// The part of Jinja that chat templates are written in, as a tree.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/chat/py_value.h"

namespace spillway {

// The kind of an expression.
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
    kIf,          // expression: body, else otherwise
    kFor,         // target in expression if condition: body, otherwise where there was none
    kSet,         // target to expression, or to body (through the filters of condition)
    kWith,        // targets to values, in body
    kGeneration,  // body: what the assistant says
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
  // Of a with; of a macro's parameters the defaults, null for those without.
  std::vector<std::unique_ptr<JinjaExpression>> targets, values;
  // `target` is a name, a tuple of targets, or in a set an attribute of a namespace.
  std::unique_ptr<JinjaExpression> target, expression, condition;
  std::vector<JinjaNode> body, otherwise;
  // What a macro's body names, and may be given beyond its parameters.
  bool takes_caller = false, takes_values = false, takes_named = false;
};

struct JinjaTemplate {
  std::vector<JinjaNode> nodes;
  bool generates = false;    // it says with {% generation %} what the assistant says
  bool reads_clock = false;  // it names strftime_now
};

// As transformers reads one: with trim_blocks and lstrip_blocks. Trees are at most some hundred
// levels high. kInvalidArgument, "FILE:LINE: ...", for what is no template; kUnimplemented names
// what is not supported.
absl::StatusOr<JinjaTemplate> ParseJinja(absl::string_view source, absl::string_view file);

}  // namespace spillway
