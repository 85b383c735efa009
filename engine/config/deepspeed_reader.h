// Reads typed settings out of a DeepSpeed document, one by one. The first error is kept:
// status() is it, "FILE:LINE: 'key' must be ..., not ...", kInvalidArgument.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "engine/base/strict_json.h"
#include "engine/config/deepspeed_keys.h"
#include "engine/config/setting.h"

namespace spillway {

class DeepSpeedReader {
 public:
  static constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  static constexpr double kHuge = 1e30;  // as a limit: none

  // The document must outlive the reader.
  explicit DeepSpeedReader(const JsonDocument& document) : document_(document) {}

  const absl::Status& status() const { return status_; }

  // nullptr when the key is absent or null.
  const nlohmann::json* Find(const std::string& pointer) const;
  std::string Where(const std::string& pointer) const { return document_.Where(pointer); }

  // An error at the key.
  void Refuse(const std::string& where, absl::string_view message);
  void Fail(const std::string& pointer, absl::string_view must, const nlohmann::json& value);

  // Each leaves `setting` as it is when the key is absent.
  void Integer(const std::string& pointer, int64_t low, int64_t high, Setting<int64_t>* setting);
  void Number(const std::string& pointer, double low, double high, Setting<double>* setting);
  void Boolean(const std::string& pointer, Setting<bool>* setting);
  void Text(const std::string& pointer, Setting<std::string>* setting);
  void Betas(const std::string& pointer, Setting<std::array<double, 2>>* setting);

  // One of a few words; case does not count.
  template <typename T>
  void Choice(const std::string& pointer,
              const std::vector<std::pair<absl::string_view, T>>& choices, Setting<T>* setting,
              absl::string_view otherwise = "") {
    const nlohmann::json* value = Begin(pointer, setting);
    if (value == nullptr) return;
    std::vector<absl::string_view> names;
    for (const auto& [name, choice] : choices) {
      names.push_back(name);
      if (value->is_string() &&
          absl::EqualsIgnoreCase(value->get_ref<const std::string&>(), name)) {
        setting->value = choice;
        return;
      }
    }
    Fail(pointer, absl::StrCat("one of ", absl::StrJoin(names, ", "), otherwise), *value);
  }

 private:
  // The value to be read, or nullptr; fills in what the setting says about itself.
  template <typename T>
  const nlohmann::json* Begin(const std::string& pointer, Setting<T>* setting) {
    const nlohmann::json* value = Find(pointer);
    if (value == nullptr) return nullptr;
    *setting = {std::nullopt, DottedKey(pointer), document_.Where(pointer)};
    return *value == "auto" ? nullptr : value;
  }

  const JsonDocument& document_;
  absl::Status status_;
};

}  // namespace spillway
