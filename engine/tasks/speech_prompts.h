// Sounds as what a model that hears is given, and what it makes of them.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/tasks/continue_texts.h"
#include "nlohmann/json.hpp"

namespace spillway {

// A window, and what was made of it.
using WindowMade = std::pair<Prompt, Continuation>;

// A file's windows (engine/media/sound_windows.h), each a prompt. kInvalidArgument for what is no
// sound.
absl::StatusOr<std::vector<Prompt>> PromptsOfSound(const TextModel& model, const std::string& path);

// Where nobody has said what is spoken: asks the model for the language of each sound's beginning,
// `rows` at a time, as transformers' detect_language does, and completes the prompts of all of its
// windows. REQUIRES: the generator was started for these prompts and as many rows.
absl::Status FindLanguages(TextModel& model, int rows, std::vector<Prompt>& prompts);

// What was made of the windows of one sound as a row: text, language where it was found, tokens,
// how it ended and, where they were asked for, segments with their seconds.
absl::StatusOr<nlohmann::ordered_json> RowOfSound(const TextModel& model,
                                                  const std::vector<WindowMade>& windows);

}  // namespace spillway
