// Jinja's filters and tests.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "engine/chat/py_methods.h"
#include "engine/chat/py_value.h"

namespace spillway {

// kUnimplemented for an unknown filter or test, kInvalidArgument where Python or Jinja would raise.
absl::StatusOr<PyValue> JinjaFilter(const std::string& name, const PyValue& of,
                                    const PyArguments& arguments, JinjaWork& work);
absl::StatusOr<bool> JinjaTest(const std::string& name, const PyValue& of,
                               const PyArguments& arguments, JinjaWork& work);

}  // namespace spillway
