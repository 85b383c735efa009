#include "engine/data/text_pairs.h"

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/data/jsonl.h"
#include "engine/data/text_rows.h"
#include "io/base/status.h"

namespace spillway {
namespace {

using nlohmann::json;

// Whether the value of the path `name` is at the key, or inside its value.
bool IsAtOrWithin(const std::string& name, absl::string_view key) {
  return name == key || (absl::StartsWith(name, key) && name[key.size()] == '.');
}

// Null if the path does not exist.
const json* Inside(const json& row, const std::string& name) {
  if (!row.is_object()) return nullptr;
  const auto whole = row.find(name);
  if (whole != row.end()) return &*whole;
  for (size_t dot = name.find('.'); dot != std::string::npos; dot = name.find('.', dot + 1)) {
    const auto outer = row.find(name.substr(0, dot));
    if (outer == row.end()) continue;
    if (const json* found = Inside(*outer, name.substr(dot + 1))) return found;
  }
  return nullptr;
}

absl::StatusOr<std::string> TextIn(const json& row, const std::string& name, const char* flag,
                                   const char* to_do) {
  const json* found = Inside(row, name);
  if (found != nullptr) return TextOf(*found, name, to_do);
  return absl::InvalidArgumentError(
      absl::StrCat("it has no \"", name, "\" (", flag,
                   " NAME says where it is; translation.en is en inside translation); its keys: ",
                   ShownKeys(row)));
}

}  // namespace

absl::Status ReadTextPairs(const std::string& path, const PairKeys& keys, bool needs_target,
                           const std::function<absl::Status(const TextPairRow&)>& take) {
  return ReadRows(
      path, "{\"prompt\": \"...\", \"completion\": \"...\"}",
      [&](absl::string_view key) {
        return IsAtOrWithin(keys.source, key) || IsAtOrWithin(keys.target, key);
      },
      [&](const json& row, int64_t line) -> absl::Status {
        TextPairRow pair;
        ASSIGN_OR_RETURN(pair.source, TextIn(row, keys.source, "--source-key", "read"));
        pair.source.insert(0, keys.source_prefix);
        if (needs_target) {
          ASSIGN_OR_RETURN(pair.target, TextIn(row, keys.target, "--target-key", "learn"));
        } else if (const json* found = Inside(row, keys.target);
                   found != nullptr && found->is_string()) {
          pair.target = found->get<std::string>();
        }
        pair.line = line;
        return take(pair);
      });
}

}  // namespace spillway
