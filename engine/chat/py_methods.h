// Methods of Python's strings, dictionaries and lists, and what Jinja's filters share with them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/chat/py_value.h"

namespace spillway {

// What a call gives, after the value that it is made on.
struct PyArguments {
  std::vector<PyValue> values;
  std::vector<std::pair<std::string, PyValue>> named;
};

// Large because methods share most of how texts are searched, cut and filled.
// The arguments by their parameters, which are the words of `parameters`; one that ends with "!"
// has to be given. kInvalidArgument, which names `function`, for any that has no parameter.
class PyParameters {
 public:
  static absl::StatusOr<PyParameters> Bind(absl::string_view function, absl::string_view parameters,
                                           const PyArguments& given, JinjaWork& work);

  bool given(size_t place) const { return values_[place].has_value(); }
  // Undefined where it is not given.
  PyValue value(size_t place) const { return values_[place].value_or(PyValue()); }
  // kInvalidArgument for a value of another type.
  absl::StatusOr<std::string> Text(size_t place, absl::string_view otherwise,
                                   JinjaWork& work) const;
  absl::StatusOr<int64_t> Integer(size_t place, int64_t otherwise, JinjaWork& work) const;
  bool True(size_t place, bool otherwise = false) const {
    return given(place) ? PyTrue(*values_[place]) : otherwise;
  }

 private:
  std::string function_;
  std::vector<std::string> names_;
  std::vector<std::optional<PyValue>> values_;
};

// Whether Python's type has an attribute of this name: it comes before a dictionary's own key.
bool PyHasMethod(const PyValue& of, const std::string& name);
// Undefined for a method that changes the value, as Jinja's sandbox has it.
absl::StatusOr<PyValue> PyMethodOf(const PyValue& of, const std::string& name, JinjaWork& work);
absl::StatusOr<PyValue> PyCallMethod(const PyMethodRep& method, const PyArguments& arguments,
                                     JinjaWork& work);

// text % values.
absl::StatusOr<PyValue> PyPercent(const std::string& text, const PyValue& values, JinjaWork& work);

// White space of Python's str.strip(), or the characters of `characters`.
std::string PyStripped(absl::string_view text, const std::optional<std::string>& characters,
                       bool left, bool right);
// At most `count` places; all of them if it is negative.
absl::StatusOr<std::string> PyReplaced(const std::string& text, const std::string& from,
                                       const std::string& to, int64_t count, JinjaWork& work);
// upper, lower, title or capitalize. `filter`: words of Jinja's filter title begin after white
// space and some signs, those of the method after all that is no letter. kUnimplemented for title
// and capitalize of letters beyond ASCII.
absl::StatusOr<std::string> PyCased(const std::string& name, std::string text, bool filter,
                                    JinjaWork& work);
// In the middle of so many characters.
std::string PyCentered(const std::string& text, int64_t length, int64_t width,
                       const std::string& fill);
// str.splitlines.
std::vector<std::string> PyLinesOf(absl::string_view text, bool keep_ends);
// As MarkupSafe does it.
std::string PyEscaped(absl::string_view text);
bool PyIsAscii(absl::string_view text);

}  // namespace spillway
