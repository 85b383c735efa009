// Methods of Python's strings, dictionaries and lists, and code they share with Jinja's filters.
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

// The arguments of a call, without the object.
struct PyArguments {
  std::vector<PyValue> values;
  std::vector<std::pair<std::string, PyValue>> named;
};

// Large because methods share most of their searching, splitting and padding of text. The arguments
// by parameter. `parameters` lists names separated by spaces; a name that ends with "!" is
// required. kInvalidArgument, naming `function`, for an unknown argument.
class PyParameters {
 public:
  static absl::StatusOr<PyParameters> Bind(absl::string_view function, absl::string_view parameters,
                                           const PyArguments& given, JinjaWork& work);

  bool given(size_t place) const { return values_[place].has_value(); }
  // Undefined if it was not given.
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

// Whether Python's type has a method of this name, which precedes a dictionary's own key.
bool PyHasMethod(const PyValue& of, const std::string& name);
// Undefined for a method that changes the value, as in Jinja's sandbox.
absl::StatusOr<PyValue> PyMethodOf(const PyValue& of, const std::string& name, JinjaWork& work);
absl::StatusOr<PyValue> PyCallMethod(const PyMethodRep& method, const PyArguments& arguments,
                                     JinjaWork& work);

// text % values.
absl::StatusOr<PyValue> PyPercent(const std::string& text, const PyValue& values, JinjaWork& work);

// Strips Python's white space, or the characters of `characters`, from the ends that are given.
std::string PyStripped(absl::string_view text, const std::optional<std::string>& characters,
                       bool left, bool right);
// Replaces at most `count` occurrences; all if it is negative.
absl::StatusOr<std::string> PyReplaced(const std::string& text, const std::string& from,
                                       const std::string& to, int64_t count, JinjaWork& work);
// upper, lower, title or capitalize. `filter`: Jinja's filter title, whose words start after white
// space and some punctuation; the method's start after any non-letter. kUnimplemented for title and
// capitalize of letters beyond ASCII.
absl::StatusOr<std::string> PyCased(const std::string& name, std::string text, bool filter,
                                    JinjaWork& work);
// Centres `text` in `width` characters.
std::string PyCentered(const std::string& text, int64_t length, int64_t width,
                       const std::string& fill);
// str.splitlines.
std::vector<std::string> PyLinesOf(absl::string_view text, bool keep_ends);
// Escapes HTML as MarkupSafe does.
std::string PyEscaped(absl::string_view text);
bool PyIsAscii(absl::string_view text);

}  // namespace spillway
