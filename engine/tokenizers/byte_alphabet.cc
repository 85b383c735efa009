#include "engine/tokenizers/byte_alphabet.h"

#include <array>

#include "engine/base/utf8.h"

namespace spillway {
namespace {

struct ByteAlphabet {
  std::array<std::string, 256> letters;
  std::array<int, 0x144> bytes;

  ByteAlphabet() {
    bytes.fill(-1);
    uint32_t next = 0x100;
    for (uint32_t byte = 0; byte < 256; ++byte) {
      const bool printable = (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte != 0xad);
      const uint32_t letter = printable ? byte : next++;
      AppendUtf8(letter, &letters[byte]);
      bytes[letter] = static_cast<int>(byte);
    }
  }
  static const ByteAlphabet& Get() {
    static const ByteAlphabet alphabet;
    return alphabet;
  }
};

}  // namespace

std::string ToByteAlphabet(absl::string_view bytes) {
  std::string out;
  for (const char c : bytes) out += ByteAlphabet::Get().letters[static_cast<unsigned char>(c)];
  return out;
}

std::optional<std::string> FromByteAlphabet(absl::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const uint32_t point = TakeCodePoint(text, &at);
    if (point >= 0x144 || ByteAlphabet::Get().bytes[point] < 0) return std::nullopt;
    out += static_cast<char>(ByteAlphabet::Get().bytes[point]);
  }
  return out;
}

}  // namespace spillway
