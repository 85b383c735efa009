// Reads the values of a config.json, so that the code of a family reads as a list of keys. Every
// message names file, line, key and value.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "engine/base/strict_json.h"
#include "nlohmann/json.hpp"

namespace spillway {

// A missing or null key leaves the value unchanged. Every method marks its keys as known. Several
// keys are names of one value, which must not contradict each other.
class ConfigReader {
 public:
  using Keys = std::vector<const char*>;

  // `pointer`: JSON pointer to the object in `document` that is read; `document` outlives the
  // reader. `names_may_differ`: of several names for a value the first one present counts, and the
  // others are ignored.
  explicit ConfigReader(const JsonDocument& document, std::string pointer = "",
                        bool names_may_differ = false);

  // The first error.
  const absl::Status& status() const { return status_; }
  // Values that are valid but not supported: "FILE:LINE: ...".
  const std::vector<std::string>& unsupported() const { return unsupported_; }
  // "FILE:LINE: ...": values that are ignored and might surprise, and unknown keys except for
  // transformers' own book-keeping.
  std::vector<std::string> Warnings() const;

  // An integer from 1 to `high`.
  void Integer(const Keys& keys, int64_t high, int64_t* value);
  // Like Integer, but one of the keys must be present.
  void Required(const Keys& keys, int64_t high, int64_t* value);
  // A number with low <= value < high; `range` describes these bounds in words.
  void Number(const Keys& keys, double low, double high, const char* range, double* value);
  // A number above 0 and at most `high`.
  void Positive(const Keys& keys, double high, double* value);
  void Probability(const Keys& keys, double* value);
  void Boolean(const Keys& keys, bool* value);
  // The text at `key`; "" if it is missing or no text.
  std::string Text(const char* key);
  // Notes a key as unsupported unless it is missing, null, false or empty: it would change the
  // model.
  void MustBeOff(const char* key, const char* what);

  // A reader of the object at `key`. REQUIRES: there is one.
  ConfigReader Inside(const std::string& key) const;
  // Takes over the findings (errors, unsupported values, warnings) of `inner`.
  void Absorb(const ConfigReader& inner);

  // The value; null if it is missing. `found_key`: the name under which it was found.
  const nlohmann::json* Find(const Keys& keys, const char** found_key = nullptr);
  bool Has(const Keys& keys) { return Find(keys) != nullptr; }
  // Whether the file has an explicit null at `key`.
  bool IsNull(const char* key) const;

  // "KEY is VALUE; expected ..."
  void Refuse(const char* key, const nlohmann::json& value, const std::string& expected);
  void Fail(absl::string_view key, const std::string& message);
  void Unsupported(absl::string_view key, const std::string& message);
  void Warn(absl::string_view key, const std::string& message);
  std::string Where(absl::string_view key) const;

  // The value as text, shortened.
  static std::string Shown(const nlohmann::json& value);

 private:
  const JsonDocument& document_;
  const nlohmann::json& object_;
  const std::string pointer_;
  const bool names_may_differ_;
  absl::Status status_;
  std::vector<std::string> unsupported_, warnings_;
  std::set<std::string> known_;
};

}  // namespace spillway
