// Which token ends a turn of the assistant in conversations.
#pragma once

#include <cstdint>
#include <optional>

#include "engine/tokenizers/tokenizer.h"

namespace spillway {

// The added token, as "<|im_end|>", that the tokenizer's chat template writes behind an answer:
// nothing but white space may stand between the two. None without a template, and where it ends
// turns by other text, or writes no conversation of one question and its answer. REQUIRES: the
// tokenizer can encode.
std::optional<uint32_t> EndOfTurn(const Tokenizer& tokenizer);

}  // namespace spillway
