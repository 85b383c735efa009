// JSON read strictly: duplicate keys, absurd depth and size are errors, and every key
// knows the line it stands on, so that a message can name it.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

namespace spillway {

// Takes one value of a document event by event, so that it is never there as a whole. Each call
// says what is wrong, or "". Doubled keys are its affair.
class JsonStream {
 public:
  virtual ~JsonStream() = default;

  // An array or object begins, first the value itself; Close ends it.
  virtual std::string Open(bool array) = 0;
  virtual std::string Close() = 0;
  virtual std::string Key(std::string key) = 0;
  virtual std::string Scalar(nlohmann::json value) = 0;
};

struct JsonLimits {
  size_t max_bytes = 32u << 20;
  int max_depth = 64;
  // Of one key: it stands in the pointers of all keys below it.
  size_t max_key_bytes = 64u << 10;
  // Accept comments, trailing commas and the like (engine/base/relaxed_json.h).
  bool relaxed = false;
  // The text's first line is this one of its file.
  int first_line = 1;
  // What the values may take in memory, by a count that is not too low: a number of two bytes takes
  // sixteen or more.
  size_t max_memory_bytes = 96u << 20;
  bool remembers_lines = true;  // of keys
  // Of the outermost object the keys whose values are kept; of others the key is, with null.
  // Doubled keys within such values are not noticed. Empty: all.
  std::function<bool(absl::string_view key)> keep = nullptr;
  // Who takes the array or object at a pointer (of no more than a KiB), in whose place null stands;
  // null: nobody.
  std::function<JsonStream*(absl::string_view pointer, bool array)> elsewhere = nullptr;
};

struct JsonDocument {
  std::string file;  // as it is shown in messages
  nlohmann::json value;
  // Of every key: by its JSON pointer ("/optimizer/params/lr"), the line, from 1. Of a text
  // whose pointers would take much room the first keys only.
  std::map<std::string, int> lines;

  // Of the key at `pointer`, or of the nearest enclosing one; 1 for the document.
  int LineOf(absl::string_view pointer) const;

  // "FILE:LINE".
  std::string Where(absl::string_view pointer) const;
};

// One key appended to a JSON pointer, escaped as RFC 6901 asks.
std::string JsonPointerTo(absl::string_view parent, absl::string_view key);

// kInvalidArgument, "FILE:LINE: ...", for what is not JSON or breaks a limit. Numbers
// beyond a double's range and invalid UTF-8 are errors too. kCancelled where it goes on for 0.7 s
// after a signal (StopPatience). Never throws.
absl::StatusOr<JsonDocument> ParseStrictJson(absl::string_view text, absl::string_view file,
                                             const JsonLimits& limits = {});

// The same of a file; kNotFound and other errors of the file itself name it.
absl::StatusOr<JsonDocument> ReadStrictJson(absl::string_view path, const JsonLimits& limits = {});

}  // namespace spillway
