// Finds the token that ends an assistant's turn in conversations.
#pragma once

#include <cstdint>
#include <optional>

#include "engine/tokenizers/tokenizer.h"

namespace spillway {

// The added token, such as "<|im_end|>", that the tokenizer's chat template writes after an answer,
// with at most white space between them. None without a template, if it ends turns with other text,
// or if it cannot render one question and its answer. REQUIRES: the tokenizer can encode.
std::optional<uint32_t> EndOfTurn(const Tokenizer& tokenizer);

}  // namespace spillway
