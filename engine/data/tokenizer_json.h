// Hugging Face's tokenizer.json, as far as it describes a byte-level byte-pair encoding:
// GPT-2's kind and Llama 3's and Qwen's. docs/DATA.md lists what is taken.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/data/added_tokens.h"
#include "engine/data/bpe_merges.h"

namespace spillway {

// Gemma's has 33 MB, Llama 3's 17.
inline constexpr size_t kMaxTokenizerJsonBytes = 64u << 20;

// A tokenizer as plain values.
struct TokenizerSpec {
  // The bytes of each token; an id that nothing has is an empty string. At least one.
  std::vector<std::string> tokens;
  std::array<uint32_t, 256> byte_tokens;
  std::vector<MergeTable::Merge> merges;
  bool ignore_merges = false;
  // By their bytes, those of the model's tokens that a word may be.
  std::vector<uint32_t> word_tokens;
  std::vector<AddedToken> added;
  bool nfc = false;
  std::string split_pattern;  // as the file has it; GPT-2's where ByteLevel implies that
  bool add_prefix_space = false;
};

// kInvalidArgument for what is no tokenizer.json, with the line where there is one;
// kUnimplemented for one of a kind that is not supported: the message names what, and
// what to do instead. A pure function; any text at all may be given. `file` is for messages.
absl::StatusOr<TokenizerSpec> ParseTokenizerJson(absl::string_view text, absl::string_view file);

}  // namespace spillway
