// Reads the values of a config.json, so that what a family understands reads as a list. Every
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

// Every method leaves its value alone where the key is missing or null, and remembers the key as
// known. Several keys: names for one value, which must not contradict each other.
class ConfigReader {
 public:
  using Keys = std::vector<const char*>;

  // `pointer`: to the object in `document` that is read, which outlives the reader.
  // `names_may_differ`: of several names for a value the first counts, whatever the others say.
  explicit ConfigReader(const JsonDocument& document, std::string pointer = "",
                        bool names_may_differ = false);

  // The first value that makes no sense.
  const absl::Status& status() const { return status_; }
  // What makes sense and is not built here: "FILE:LINE: ...".
  const std::vector<std::string>& unsupported() const { return unsupported_; }
  // "FILE:LINE: ...": what is ignored and might surprise, keys that were not asked for and that no
  // transformers config uses for anything but its own book-keeping included.
  std::vector<std::string> Warnings() const;

  // From 1 to `high`.
  void Integer(const Keys& keys, int64_t high, int64_t* value);
  // The same, of which a config must have one.
  void Required(const Keys& keys, int64_t high, int64_t* value);
  // low <= value < high; `range` says so in words.
  void Number(const Keys& keys, double low, double high, const char* range, double* value);
  // Above 0 and at most `high`.
  void Positive(const Keys& keys, double high, double* value);
  void Probability(const Keys& keys, double* value);
  void Boolean(const Keys& keys, bool* value);
  // "" where it is missing or no text.
  std::string Text(const char* key);
  // A key that would change the model in a way that is not built here.
  void MustBeOff(const char* key, const char* what);

  // Of an object under `key`. REQUIRES: there is one.
  ConfigReader Inside(const std::string& key) const;
  // Takes over what `inner` found wrong, unsupported or surprising.
  void Absorb(const ConfigReader& inner);

  // Null where it is missing. `found_key`: under which of the names it is there.
  const nlohmann::json* Find(const Keys& keys, const char** found_key = nullptr);
  bool Has(const Keys& keys) { return Find(keys) != nullptr; }
  // The file says null.
  bool IsNull(const char* key) const;

  // "KEY is VALUE; expected ..."
  void Refuse(const char* key, const nlohmann::json& value, const std::string& expected);
  void Fail(absl::string_view key, const std::string& message);
  void Unsupported(absl::string_view key, const std::string& message);
  void Warn(absl::string_view key, const std::string& message);
  std::string Where(absl::string_view key) const;

  // Short, whatever the file holds.
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
