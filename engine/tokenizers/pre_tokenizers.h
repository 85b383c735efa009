// The pre-tokenizers of a tokenizer.json.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "engine/tokenizers/json_part.h"
#include "engine/tokenizers/text_stage.h"

namespace spillway {

struct PreTokenizers {
  std::vector<StageMaker> stages;  // in order
  bool ends_in_bytes = false;      // the last one is a ByteLevel that leaves words as bytes
};

// The stages of `pre_tokenizer` with all its parts; none for null. ByteLevel writes words in its
// alphabet; with `bytes`, one at the end leaves that to the model. kUnimplemented names an
// unsupported part, kInvalidArgument a broken one.
absl::StatusOr<PreTokenizers> ReadPreTokenizers(const JsonPart& pre_tokenizer, bool bytes);

}  // namespace spillway
