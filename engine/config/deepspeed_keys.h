// Walks a DeepSpeed document against the table of its keys.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "engine/base/strict_json.h"
#include "engine/config/deepspeed_key_table.h"

namespace spillway {

struct KeyReview {
  std::vector<std::string> decided_by_plan;
  std::vector<std::string> without_effect;
  std::vector<std::string> warnings;  // "FILE:LINE: ...": unknown keys that are ignored
};

// Walks the document against the rules. kInvalidArgument names key, line and, of an
// unknown key, the nearest known one. At the top DeepSpeed ignores unknown keys, and so are those
// that are no slip here.
absl::Status ReviewDeepSpeedKeys(const JsonDocument& document, KeyReview* review);

// "/zero_optimization/stage" -> "zero_optimization.stage".
std::string DottedKey(absl::string_view pointer);

}  // namespace spillway
