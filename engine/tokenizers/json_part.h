// An object in a tokenizer.json, with file, line and key for messages.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/base/strict_json.h"

namespace spillway {

// A view: the document must outlive it. Any thread.
class JsonPart {
 public:
  explicit JsonPart(const JsonDocument* document) : JsonPart(document, &document->value, "") {}

  // The member of that name; null if it is missing.
  JsonPart operator[](absl::string_view key) const;
  // The elements of an array; empty if it is missing. kInvalidArgument for another type.
  absl::StatusOr<std::vector<JsonPart>> Elements(absl::string_view key) const;

  const nlohmann::json& json() const { return *value_; }
  bool is_null() const { return value_->is_null(); }
  // The member "type"; "" if it is missing.
  std::string Type() const;

  // Members with a default, used if missing or null; without a default that is an error, as is
  // another type.
  absl::StatusOr<bool> Bool(absl::string_view key, std::optional<bool> fallback) const;
  absl::StatusOr<std::string> String(absl::string_view key,
                                     std::optional<std::string> fallback = std::nullopt) const;
  // Below 2^31.
  absl::StatusOr<uint32_t> Number(absl::string_view key,
                                  std::optional<uint32_t> fallback = std::nullopt) const;
  absl::StatusOr<uint32_t> Number() const;

  // kUnimplemented if the object has a non-null member besides "type" and these.
  absl::Status Only(std::initializer_list<absl::string_view> keys) const;

  // "FILE:LINE".
  std::string Where() const { return document_->Where(pointer_); }
  // kInvalidArgument, "FILE:LINE: not a tokenizer.json: ...".
  absl::Status Broken(absl::string_view why) const;
  // kUnimplemented, "FILE:LINE: PLACE: WHAT is not supported; ...".
  absl::Status Unsupported(absl::string_view what) const;
  // The error for more such parts than `most`.
  absl::Status TooMany(absl::string_view parts, size_t most) const;
  // The error for an unsupported type.
  absl::Status UnsupportedType() const;

 private:
  JsonPart(const JsonDocument* document, const nlohmann::json* value, std::string pointer)
      : document_(document), value_(value), pointer_(std::move(pointer)) {}
  JsonPart Within(absl::string_view key, const nlohmann::json& value) const;

  const JsonDocument* document_;
  const nlohmann::json* value_;
  std::string pointer_;
};

}  // namespace spillway
