#include "engine/config/deepspeed_keys.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "engine/base/nearest.h"
#include "engine/config/deepspeed_values.h"
#include "io/base/check.h"
#include "io/base/status.h"

namespace spillway {
namespace {

using nlohmann::json;

const KeyRule* FindRule(absl::string_view pointer) {
  for (const KeyRule& rule : DeepSpeedKeyRules()) {
    if (rule.pointer == pointer) return &rule;
  }
  return nullptr;
}

// Names of the keys that may stand directly below `parent`.
std::vector<std::string> KeysBelow(absl::string_view parent) {
  std::vector<std::string> keys;
  for (const KeyRule& rule : DeepSpeedKeyRules()) {
    const size_t slash = rule.pointer.rfind('/');
    if (rule.pointer.substr(0, slash) == parent) {
      keys.emplace_back(rule.pointer.substr(slash + 1));
    }
  }
  return keys;
}

std::string UnknownKey(absl::string_view parent, const std::string& name) {
  const std::string here = parent.empty() ? "" : absl::StrCat(" in '", DottedKey(parent), "'");
  std::string message = absl::StrCat("unknown key '", name, "'", here);
  for (const KeyRule& rule : DeepSpeedKeyRules()) {  // known, but elsewhere
    if (absl::EndsWith(rule.pointer, absl::StrCat("/", name))) {
      return absl::StrCat(message, "; did you mean '", DottedKey(rule.pointer), "'?");
    }
  }
  const std::string nearest = NearestName(name, KeysBelow(parent));
  if (!nearest.empty()) return absl::StrCat(message, "; did you mean '", nearest, "'?");
  std::vector<std::string> all;
  for (const KeyRule& rule : DeepSpeedKeyRules()) {
    all.emplace_back(rule.pointer.substr(rule.pointer.rfind('/') + 1));
  }
  return absl::StrCat(message, DidYouMean(name, all));
}

// What an unknown key at the top was probably meant to be: a known one of which it is a slip, or
// one of its name inside a block, as `stage`. Else "".
std::string MeantAtTop(const std::string& name) {
  for (const std::string& known : KeysBelow("")) {
    if (IsSlipOf(name, known)) return known;
  }
  for (const KeyRule& rule : DeepSpeedKeyRules()) {
    if (absl::EndsWith(rule.pointer, absl::StrCat("/", name))) return DottedKey(rule.pointer);
  }
  return "";
}

// Whether a value says "not this feature".
// A block of blocks (compression_training's methods, each with the parameters that they share) is
// when all of them are.
bool IsDisabled(const json& value) {
  if (value.is_object()) {
    if (value.empty()) return true;
    const auto enabled = value.find("enabled");
    if (enabled != value.end()) return IsDisabled(*enabled);
    const auto shared = value.find("shared_parameters");
    if (shared != value.end()) return IsDisabled(*shared);
    return std::all_of(value.begin(), value.end(),
                       [](const json& one) { return one.is_object() && IsDisabled(one); });
  }
  return value.is_null() || value == "auto" || AsBoolean(value) == false;
}

bool IsAccepted(const json& value, const json& accepted) {
  if (value.is_null() || value == "auto") return true;
  for (const json& one : accepted) {
    if (value == one) return true;
    if (one.is_boolean() && AsBoolean(value) == one.get<bool>()) return true;
    if (one.is_string() && value.is_string() &&
        absl::EqualsIgnoreCase(value.get_ref<const std::string&>(),
                               one.get_ref<const std::string&>())) {
      return true;
    }
  }
  return false;
}

class Review {
 public:
  Review(const JsonDocument& document, KeyReview* review) : document_(document), review_(review) {}

  // `listed`: an outer key already stands for these in the review's lists.
  absl::Status Block(const json& object, const std::string& pointer, bool listed = false) {
    for (const auto& [name, value] : object.items()) {
      const std::string below = JsonPointerTo(pointer, name);
      const KeyRule* rule = FindRule(below);
      if (rule == nullptr && pointer.empty()) {
        const std::string meant = MeantAtTop(name);
        if (!meant.empty()) {
          return Error(below,
                       absl::StrCat("unknown key '", name, "'; did you mean '", meant, "'?"));
        }
        review_->warnings.push_back(absl::StrCat(document_.Where(below), ": ",
                                                 UnknownKey(pointer, name),
                                                 " (ignored, as DeepSpeed does)"));
        continue;
      }
      if (rule == nullptr) return Error(below, UnknownKey(pointer, name));
      RETURN_IF_ERROR(Key(*rule, value, listed));
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Key(const KeyRule& rule, const json& value, bool listed) {
    const std::string pointer(rule.pointer);
    const std::string key = DottedKey(pointer);
    switch (rule.treatment) {
      case KeyTreatment::kBlock:
        if (value.is_null() || value == "auto") return absl::OkStatus();
        // An old form: a block that is switched by a boolean.
        if (value.is_boolean() && pointer == "/zero_optimization") {
          review_->decided_by_plan.push_back(key);
          return absl::OkStatus();
        }
        if (!value.is_object()) return Error(pointer, absl::StrCat("'", key, "' is a block {...}"));
        return Block(value, pointer, listed);
      case KeyTreatment::kHonoured:
        return absl::OkStatus();
      case KeyTreatment::kPlan:
        if (!listed) review_->decided_by_plan.push_back(key);
        return Names(value, pointer);
      case KeyTreatment::kNoEffect:
        if (!listed) review_->without_effect.push_back(key);
        return Names(value, pointer);
      case KeyTreatment::kOnly: {
        const json accepted = json::parse(rule.only.begin(), rule.only.end(), nullptr, false);
        SPILLWAY_CHECK(accepted.is_array());
        if (IsAccepted(value, accepted)) return absl::OkStatus();
        return Error(pointer, absl::StrCat("'", key, "': ", ShownJson(value), " is not supported (",
                                           rule.why, "); accepted: ", Listed(accepted)));
      }
      case KeyTreatment::kUnlessEnabled:
        if (IsDisabled(value)) return absl::OkStatus();
        return Error(pointer, absl::StrCat("'", key, "' is not supported: ", rule.why,
                                           "; remove it, or disable it"));
      case KeyTreatment::kRefused:
        if (value.is_null()) return absl::OkStatus();
        break;
    }
    return Error(pointer, absl::StrCat("'", key, "' is not supported: ", rule.why));
  }

  // Of a key that is accepted whatever it says: at least the names in it are known.
  absl::Status Names(const json& value, const std::string& pointer) {
    if (!value.is_object() || KeysBelow(pointer).empty()) return absl::OkStatus();
    return Block(value, pointer, /*listed=*/true);
  }

  absl::Status Error(absl::string_view pointer, absl::string_view message) {
    return absl::InvalidArgumentError(absl::StrCat(document_.Where(pointer), ": ", message));
  }

  static std::string Listed(const json& values) {
    std::string text;
    for (const json& value : values)
      absl::StrAppend(&text, text.empty() ? "" : ", ", ShownJson(value));
    return text;
  }

  const JsonDocument& document_;
  KeyReview* review_;
};

}  // namespace

std::string DottedKey(absl::string_view pointer) {
  return absl::StrReplaceAll(pointer.substr(1), {{"/", "."}});
}

absl::Status ReviewDeepSpeedKeys(const JsonDocument& document, KeyReview* review) {
  if (!document.value.is_object()) {
    return absl::InvalidArgumentError(
        absl::StrCat(document.file, ":1: a DeepSpeed configuration is a JSON object {...}"));
  }
  return Review(document, review).Block(document.value, "");
}

}  // namespace spillway
