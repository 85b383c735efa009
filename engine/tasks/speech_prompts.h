// Prompts from sounds for models of speech, and their results.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/tasks/continue_texts.h"
#include "nlohmann/json.hpp"

namespace spillway {

// A window, and the text generated for it.
using WindowMade = std::pair<Prompt, Continuation>;

// A file's windows (engine/media/sound_windows.h), each a prompt. kInvalidArgument for files
// without sound.
absl::StatusOr<std::vector<Prompt>> PromptsOfSound(const TextModel& model, const std::string& path);

// If no language is given: determines it from the model for each sound's beginning, `rows` at a
// time, like transformers' detect_language, and completes the prompts of all of its windows.
// REQUIRES: the generator was started for these prompts and as many rows.
absl::Status FindLanguages(TextModel& model, int rows, std::vector<Prompt>& prompts);

// Joins the results of one sound's windows to a row: text, language if it was detected, tokens, how
// it ended and, if requested, segments with their seconds.
absl::StatusOr<nlohmann::ordered_json> RowOfSound(const TextModel& model,
                                                  const std::vector<WindowMade>& windows);

}  // namespace spillway
