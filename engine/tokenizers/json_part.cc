#include "engine/tokenizers/json_part.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace spillway {
namespace {

const nlohmann::json kNothing;

}  // namespace

JsonPart JsonPart::Within(absl::string_view key, const nlohmann::json& value) const {
  return JsonPart(document_, &value, JsonPointerTo(pointer_, key));
}

JsonPart JsonPart::operator[](absl::string_view key) const {
  if (!value_->is_object()) return Within(key, kNothing);
  const auto found = value_->find(std::string(key));
  return Within(key, found == value_->end() ? kNothing : *found);
}

absl::StatusOr<std::vector<JsonPart>> JsonPart::Elements(absl::string_view key) const {
  const JsonPart part = (*this)[key];
  std::vector<JsonPart> elements;
  if (part.is_null()) return elements;
  if (!part.json().is_array()) return part.Broken("not an array");
  for (size_t i = 0; i < part.json().size(); ++i) {
    elements.push_back(part.Within(absl::StrCat(i), part.json()[i]));
  }
  return elements;
}

std::string JsonPart::Type() const {
  const JsonPart type = (*this)["type"];
  return type.json().is_string() ? type.json().get<std::string>() : "";
}

absl::StatusOr<bool> JsonPart::Bool(absl::string_view key, std::optional<bool> fallback) const {
  const JsonPart part = (*this)[key];
  if (part.is_null() && fallback) return *fallback;
  if (!part.json().is_boolean()) return part.Broken("neither true nor false");
  return part.json().get<bool>();
}

absl::StatusOr<std::string> JsonPart::String(absl::string_view key,
                                             std::optional<std::string> fallback) const {
  const JsonPart part = (*this)[key];
  if (part.is_null() && fallback) return *std::move(fallback);
  if (!part.json().is_string()) return part.Broken("not a string");
  return part.json().get<std::string>();
}

absl::StatusOr<uint32_t> JsonPart::Number(absl::string_view key,
                                          std::optional<uint32_t> fallback) const {
  const JsonPart part = (*this)[key];
  return part.is_null() && fallback ? *fallback : part.Number();
}

absl::StatusOr<uint32_t> JsonPart::Number() const {
  constexpr uint64_t kLimit = uint64_t{1} << 31;
  if (!value_->is_number_unsigned() || value_->get<uint64_t>() >= kLimit) {
    return Broken("not a number below 2147483648");
  }
  return value_->get<uint32_t>();
}

absl::Status JsonPart::Only(std::initializer_list<absl::string_view> keys) const {
  for (const auto& item : value_->items()) {
    const bool known = std::find(keys.begin(), keys.end(), item.key()) != keys.end();
    if (!known && item.key() != "type" && !item.value().is_null()) {
      return Unsupported(absl::StrCat("\"", item.key().substr(0, 80), "\" of ", Type()));
    }
  }
  return absl::OkStatus();
}

absl::Status JsonPart::Broken(absl::string_view why) const {
  return absl::InvalidArgumentError(absl::StrCat(
      document_->Where(pointer_),
      ": not a tokenizer.json: ", pointer_.empty() ? "" : absl::StrCat(pointer_, ": "), why));
}

absl::Status JsonPart::Unsupported(absl::string_view what) const {
  return absl::UnimplementedError(absl::StrCat(
      document_->Where(pointer_), ": ", pointer_, ": ", what,
      " is not supported; tokenize with Hugging Face's tokenizers and give the tokens as a "
      ".npy file"));
}

absl::Status JsonPart::TooMany(absl::string_view parts, size_t most) const {
  return Unsupported(absl::StrCat("more than ", most, " ", parts));
}

absl::Status JsonPart::UnsupportedType() const {
  const std::string type = Type();
  return Unsupported(type.empty() ? "what has no type" : absl::StrCat("the type ", type));
}

}  // namespace spillway
