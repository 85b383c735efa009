// The flags that `generate` and `predict` share: the model, sampling, budgets.
#pragma once

#include <optional>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "tools/compute_library.h"

namespace spillway {

// Flags that are text until they are checked.
struct TextFlags {
  using Text = std::optional<std::string>;
  Text tokens, min_tokens, temperature, top_k, top_p, repetition_penalty, no_repeat_ngram, beams,
      length_penalty, early_stopping, seed;
  bool download = false;
  Text max_source_length, dtype, compute, threads, device_memory, host_memory, swap;
};

// `temperature`: its text in --help. Both outlive the app.
void AddTextFlags(CLI::App& command, const std::string& temperature, TextRequest& request,
                  TextFlags& flags);

// Parses `flags` into `request`; kInvalidArgument names the invalid flag.
absl::Status ReadTextFlags(const TextFlags& flags, TextRequest& request);

}  // namespace spillway
