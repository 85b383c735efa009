// What Jinja's operators, filters, tests and methods make of values, as Python would.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/data/jinja_arguments.h"
#include "engine/data/jinja_syntax.h"

namespace spillway {

// All are pure. What a value can't do is kInvalidArgument, what Python can and this can't
// kUnimplemented.
bool JinjaTrue(const JinjaValue& value);
bool JinjaEqual(const JinjaValue& left, const JinjaValue& right);
std::string JinjaTypeName(const JinjaValue& value);
bool IsJinjaKept(const JinjaValue& value, JinjaKept kind);
// As it is written into the text.
absl::StatusOr<std::string> JinjaToText(const JinjaValue& value, const JinjaPlace& at);
// What a loop goes through: elements, characters, keys.
absl::StatusOr<std::vector<JinjaValue>> JinjaItems(const JinjaValue& value, const JinjaPlace& at);
// Of a list or dictionary; null where it has no such element.
const JinjaValue* JinjaElement(const JinjaValue& of, const JinjaValue& key);
absl::StatusOr<JinjaValue> JinjaItem(const JinjaValue& of, const JinjaValue& key,
                                     const JinjaPlace& at);
// of[bounds[0]:bounds[1]:bounds[2]].
absl::StatusOr<JinjaValue> JinjaSlice(const JinjaValue& of,
                                      const std::optional<int64_t> (&bounds)[3],
                                      const JinjaPlace& at);
absl::StatusOr<bool> JinjaContains(const JinjaValue& all, const JinjaValue& one,
                                   const JinjaPlace& at);
// < > <= >=.
absl::StatusOr<bool> JinjaCompare(const std::string& sign, const JinjaValue& left,
                                  const JinjaValue& right, const JinjaPlace& at);
// + - * / // %.
absl::StatusOr<JinjaValue> JinjaArithmetic(const std::string& sign, const JinjaValue& left,
                                           const JinjaValue& right, const JinjaPlace& at);
absl::StatusOr<JinjaValue> JinjaMethod(const std::string& name, const JinjaValue& of,
                                       const JinjaArguments& arguments, const JinjaPlace& at);
absl::StatusOr<JinjaValue> JinjaFilter(const std::string& name, const JinjaValue& of,
                                       const JinjaArguments& arguments, const JinjaPlace& at);
absl::StatusOr<JinjaValue> JinjaTest(const std::string& name, const JinjaValue& of,
                                     const JinjaArguments& arguments, const JinjaPlace& at);

}  // namespace spillway
