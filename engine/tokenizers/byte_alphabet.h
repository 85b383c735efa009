// GPT-2's alphabet, in which ByteLevel writes bytes: each is one printable character.
#pragma once

#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace spillway {

// Bytes that are printable in Latin-1 are themselves, the others follow from U+0100 on.
std::string ToByteAlphabet(absl::string_view bytes);

// nullopt where another character is in it. REQUIRES: valid UTF-8.
std::optional<std::string> FromByteAlphabet(absl::string_view text);

}  // namespace spillway
