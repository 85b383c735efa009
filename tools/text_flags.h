// The flags that `generate` and `predict` share: the model, how tokens are chosen, budgets.
#pragma once

#include <optional>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "tools/compute_library.h"

namespace spillway {

// What of them is text until it is checked.
struct TextFlags {
  using Text = std::optional<std::string>;
  Text tokens, min_tokens, temperature, top_k, top_p, repetition_penalty, no_repeat_ngram, beams,
      length_penalty, early_stopping, seed;
  bool download = false;
  Text max_source_length, dtype, compute, threads, device_memory, host_memory, swap;
};

// `temperature`: what --help says of it. Both outlive the app.
void AddTextFlags(CLI::App& command, const std::string& temperature, TextRequest& request,
                  TextFlags& flags);

// Puts `flags` into `task`; kInvalidArgument names the flag that makes no sense.
absl::Status ReadTextFlags(const TextFlags& flags, TextRequest& request);

}  // namespace spillway
