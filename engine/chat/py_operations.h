// Operators of chat templates: arithmetic, items, attributes and slices of values.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "engine/chat/py_value.h"

namespace spillway {

// Computes + - * / // % **.
absl::StatusOr<PyValue> PyArithmetic(const std::string& sign, const PyValue& left,
                                     const PyValue& right, JinjaWork& work);
// value[key] and value.name, as Jinja looks them up; undefined if missing.
absl::StatusOr<PyValue> PyItem(const PyValue& of, const PyValue& key, JinjaWork& work);
absl::StatusOr<PyValue> PyAttribute(const PyValue& of, const std::string& name, JinjaWork& work);
// of[begin:end:step]; a missing bound is None.
absl::StatusOr<PyValue> PySlice(const PyValue& of, const PyValue (&bounds)[3], JinjaWork& work);

}  // namespace spillway
