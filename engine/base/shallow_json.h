// JSON whose errors need no messages, such as that of our own files.
#pragma once

#include "absl/strings/string_view.h"
#include "engine/base/strict_json.h"
#include "nlohmann/json.hpp"

namespace spillway {

// Parses JSON; `discarded` if it is invalid, or nested deeper than `max_depth`, which would
// overflow the stack when copied or written. Never throws.
template <typename Json = nlohmann::json>
Json ParseShallowJson(absl::string_view text, int max_depth = JsonLimits().max_depth) {
  bool deep = false;
  const auto shallow = [&](int around, typename Json::parse_event_t event, Json&) {
    const bool begins =
        event == Json::parse_event_t::object_start || event == Json::parse_event_t::array_start;
    deep |= begins && around >= max_depth;
    return !deep;
  };
  Json json = Json::parse(text.begin(), text.end(), shallow, /*allow_exceptions=*/false);
  return deep ? Json(Json::value_t::discarded) : json;
}

}  // namespace spillway
