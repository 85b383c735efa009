// A tokenizer with one token per character: the vocabulary is the sorted distinct code points of a
// text.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/tokenizers/tokenizer.h"

namespace spillway {

inline constexpr absl::string_view kCharsFile = "chars.json";

// REQUIRES: sorted, distinct, valid code points; at least one.
std::unique_ptr<Tokenizer> NewCharTokenizer(std::vector<uint32_t> code_points);

// Makes a tokenizer from the code points of these texts (.txt, or the strings of .jsonl and then a
// newline, too), read as a stream. kInvalidArgument for invalid UTF-8 (file and byte offset), or no
// text at all.
absl::StatusOr<std::unique_ptr<Tokenizer>> NewCharTokenizer(const std::vector<std::string>& files);

// Reads {"kind": "chars", "version": 1, "code_points": [10, 32, ...]}, sorted and distinct.
absl::StatusOr<std::unique_ptr<Tokenizer>> LoadCharTokenizer(absl::string_view path);

}  // namespace spillway
