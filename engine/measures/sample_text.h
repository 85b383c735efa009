// A text that an evaluation writes behind a prompt, for people to read (--sample-prompts).
#pragma once

#include <string>

namespace spillway {

struct SampleText {
  std::string prompt;
  std::string text;    // without the prompt
  bool ended = false;  // by the model itself, and not because it was long enough
};

}  // namespace spillway
