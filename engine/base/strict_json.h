// Strict JSON: duplicate keys, excessive depth and size are errors, and every key has its line
// number for messages.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

namespace spillway {

// Consumes one value of a document event by event, so that it is never in memory as a whole. Each
// call returns an error, or "". Duplicate keys are the stream's to check.
class JsonStream {
 public:
  virtual ~JsonStream() = default;

  // Open begins an array or object, the first of which is the value itself; Close ends it.
  virtual std::string Open(bool array) = 0;
  virtual std::string Close() = 0;
  virtual std::string Key(std::string key) = 0;
  virtual std::string Scalar(nlohmann::json value) = 0;
};

struct JsonLimits {
  size_t max_bytes = 32u << 20;
  int max_depth = 64;
  // Limit for one key, which is repeated in the pointers of all keys below it.
  size_t max_key_bytes = 64u << 10;
  // Accept comments, trailing commas and the like (engine/base/relaxed_json.h).
  bool relaxed = false;
  // The line number of the text's first line in its file.
  int first_line = 1;
  // Limit of the values' memory, by an upper estimate: a number of two bytes takes sixteen or more.
  size_t max_memory_bytes = 96u << 20;
  bool remembers_lines = true;  // of keys
  // Selects keys of the outermost object whose values are kept; other keys are null. Duplicate keys
  // within dropped values are not noticed. Empty: all.
  std::function<bool(absl::string_view key)> keep = nullptr;
  // The consumer of the array or object at a pointer (of at most a KiB), which becomes null in the
  // document; null: no consumer.
  std::function<JsonStream*(absl::string_view pointer, bool array)> elsewhere = nullptr;
};

struct JsonDocument {
  std::string file;  // as shown in messages
  nlohmann::json value;
  // The line of every key, from 1, by its JSON pointer ("/optimizer/params/lr"). If pointers take
  // too much memory, only the first keys.
  std::map<std::string, int> lines;

  // The line of the key at `pointer`, or of the nearest enclosing one; 1 for the document.
  int LineOf(absl::string_view pointer) const;

  // "FILE:LINE".
  std::string Where(absl::string_view pointer) const;
};

// Appends a key to a JSON pointer, escaped as RFC 6901 asks.
std::string JsonPointerTo(absl::string_view parent, absl::string_view key);

// kInvalidArgument, "FILE:LINE: ...", for invalid JSON or a broken limit; numbers beyond a double's
// range and invalid UTF-8 are errors, too. kCancelled if parsing continues for 0.7 s after a signal
// (StopPatience). Never throws.
absl::StatusOr<JsonDocument> ParseStrictJson(absl::string_view text, absl::string_view file,
                                             const JsonLimits& limits = {});

// Reads and parses a file; kNotFound and other errors of the file name it.
absl::StatusOr<JsonDocument> ReadStrictJson(absl::string_view path, const JsonLimits& limits = {});

}  // namespace spillway
