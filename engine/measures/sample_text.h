// The continuation of a prompt that an evaluation generates for people to read (--sample-prompts).
#pragma once

#include <string>

namespace spillway {

struct SampleText {
  std::string prompt;
  std::string text;    // without the prompt
  bool ended = false;  // the model ended it, not the length limit
};

}  // namespace spillway
