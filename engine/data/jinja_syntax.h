// The part of Jinja that chat templates are written in, as a tree.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

namespace spillway {

// None, booleans, numbers, strings, lists and dictionaries in order; "discarded" is undefined.
// Binary is what stays one thing when it is copied, which the renderer keeps: a JinjaKept, with
// its number there as the subtype.
using JinjaValue = nlohmann::ordered_json;
inline JinjaValue JinjaUndefined() { return JinjaValue(JinjaValue::value_t::discarded); }

enum class JinjaKept : uint8_t {
  kNamespace,
  kGenerator,  // what map, selectattr, ... give without list: it can be gone through once
};

// Of an expression.
enum class JinjaKind {
  kLiteral,    // value
  kName,       // text
  kList,       // children
  kDict,       // children: key, value, key, value
  kAttribute,  // child 0 . text
  kItem,       // child 0 [child 1]
  kSlice,      // child 0 [child 1 : child 2 : child 3], each of which may be null
  kCall,       // child 0 (children from 1)
  kFilter,     // child 0 | text (children from 1)
  kTest,       // child 0 is text (children from 1)
  kNot,
  kMinus,
  kBinary,     // child 0 text child 1
  kCondition,  // child 0 if child 1 else child 2, which may be null
};

struct JinjaExpression {
  JinjaKind kind = JinjaKind::kLiteral;
  int line = 0;
  std::string text;
  JinjaValue value;
  std::vector<std::unique_ptr<JinjaExpression>> children;
  std::vector<std::string> keywords;  // of a call's or filter's children from 1: their names, or ""
};

struct JinjaNode {
  enum class Kind {
    kText,        // text
    kOutput,      // expression
    kIf,          // expression: body, else otherwise
    kFor,         // names in expression if condition: body, otherwise where there was none
    kSet,         // names (two for an attribute of a namespace) to expression, or to body
    kGeneration,  // body: what the assistant says
    kBreak,
    kContinue,
  };
  Kind kind = Kind::kText;
  int line = 0;
  std::string text;
  std::vector<std::string> names;
  std::unique_ptr<JinjaExpression> expression, condition;
  std::vector<JinjaNode> body, otherwise;
};

// As transformers reads one: with trim_blocks and lstrip_blocks. kInvalidArgument,
// "FILE:LINE: ...", for what is no template; kUnimplemented names what is not supported.
absl::StatusOr<std::vector<JinjaNode>> ParseJinja(absl::string_view source, absl::string_view file);

}  // namespace spillway
