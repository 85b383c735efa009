// GPT-2's alphabet, in which ByteLevel writes each byte as one printable character.
#pragma once

#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace spillway {

// Printable Latin-1 bytes are themselves, the others follow from U+0100 on.
std::string ToByteAlphabet(absl::string_view bytes);

// nullopt if it has a character outside the alphabet. REQUIRES: valid UTF-8.
std::optional<std::string> FromByteAlphabet(absl::string_view text);

}  // namespace spillway
