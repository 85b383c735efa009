#include "engine/config/deepspeed_reader.h"

#include <algorithm>

#include "engine/config/deepspeed_values.h"

namespace spillway {
namespace {

using nlohmann::json;

// Blocks that DeepSpeed reads with pydantic, which takes "16" for 16.
bool IsTypedBlock(absl::string_view pointer) {
  return absl::StartsWith(pointer, "/fp16/") || absl::StartsWith(pointer, "/bf16/") ||
         absl::StartsWith(pointer, "/zero_optimization/");
}

}  // namespace

const json* DeepSpeedReader::Find(const std::string& pointer) const {
  const json* at = &document_.value;
  size_t begin = 1;
  while (begin <= pointer.size()) {
    const size_t end = std::min(pointer.find('/', begin), pointer.size());
    const std::string name = pointer.substr(begin, end - begin);
    if (!at->is_object() || !at->contains(name)) return nullptr;
    at = &(*at)[name];
    begin = end + 1;
  }
  return at->is_null() ? nullptr : at;
}

void DeepSpeedReader::Refuse(const std::string& where, absl::string_view message) {
  status_.Update(absl::InvalidArgumentError(absl::StrCat(where, ": ", message)));
}

void DeepSpeedReader::Fail(const std::string& pointer, absl::string_view must, const json& value) {
  Refuse(Where(pointer),
         absl::StrCat("'", DottedKey(pointer), "' must be ", must, ", not ", ShownJson(value)));
}

void DeepSpeedReader::Integer(const std::string& pointer, int64_t low, int64_t high,
                              Setting<int64_t>* setting) {
  const json* value = Begin(pointer, setting);
  if (value == nullptr) return;
  const std::optional<int64_t> number = AsInteger(*value, IsTypedBlock(pointer));
  if (!number || *number < low || *number > high) {
    return Fail(pointer,
                high >= kMost ? absl::StrCat("a whole number of ", low, " or more")
                              : absl::StrCat("a whole number from ", low, " to ", high),
                *value);
  }
  setting->value = *number;
}

void DeepSpeedReader::Number(const std::string& pointer, double low, double high,
                             Setting<double>* setting) {
  const json* value = Begin(pointer, setting);
  if (value == nullptr) return;
  const std::optional<double> number = AsNumber(*value, IsTypedBlock(pointer));
  if (!number || !(*number >= low && *number <= high)) {
    return Fail(pointer,
                high >= kHuge ? absl::StrCat("a number of ", low, " or more")
                              : absl::StrCat("a number from ", low, " to ", high),
                *value);
  }
  setting->value = *number;
}

void DeepSpeedReader::Boolean(const std::string& pointer, Setting<bool>* setting) {
  const json* value = Begin(pointer, setting);
  if (value == nullptr) return;
  setting->value = AsBoolean(*value);
  if (!setting->value) Fail(pointer, "true or false", *value);
}

void DeepSpeedReader::Text(const std::string& pointer, Setting<std::string>* setting) {
  const json* value = Begin(pointer, setting);
  if (value == nullptr) return;
  if (!value->is_string() || value->get_ref<const std::string&>().empty()) {
    return Fail(pointer, "a string", *value);
  }
  setting->value = value->get<std::string>();
}

void DeepSpeedReader::Betas(const std::string& pointer, Setting<std::array<double, 2>>* setting) {
  const json* value = Begin(pointer, setting);
  if (value == nullptr) return;
  std::array<double, 2> betas = {-1, -1};
  if (value->is_array() && value->size() == 2) {
    for (size_t i = 0; i < 2; ++i) betas[i] = AsNumber((*value)[i]).value_or(-1);
  }
  for (const double beta : betas) {
    if (!(beta >= 0 && beta < 1)) return Fail(pointer, "two numbers in [0, 1)", *value);
  }
  setting->value = betas;
}

}  // namespace spillway
