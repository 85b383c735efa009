#include "engine/base/utf8.h"

#include "absl/strings/str_format.h"

namespace spillway {

Utf8Decoder::Result Utf8Decoder::Next(unsigned char byte) {
  ++bytes_;
  if (missing_ > 0) {
    if ((byte & 0xc0) != 0x80) return Result::kInvalid;
    code_point_ = (code_point_ << 6) | (byte & 0x3f);
    if (--missing_ > 0) return Result::kMore;
    const bool surrogate = code_point_ >= 0xd800 && code_point_ <= 0xdfff;
    if (code_point_ < minimum_ || surrogate || code_point_ > 0x10ffff) return Result::kInvalid;
    return Result::kCodePoint;
  }
  offset_ = bytes_ - 1;
  if (byte < 0x80) {
    code_point_ = byte;
    return Result::kCodePoint;
  }
  if (byte < 0xc0 || byte >= 0xf8) return Result::kInvalid;
  missing_ = byte < 0xe0 ? 1 : byte < 0xf0 ? 2 : 3;
  minimum_ = missing_ == 1 ? 0x80 : missing_ == 2 ? 0x800 : 0x10000;
  code_point_ = byte & (0x3f >> missing_);
  return Result::kMore;
}

void AppendUtf8(uint32_t code_point, std::string* out) {
  const int tails = code_point < 0x80 ? 0 : code_point < 0x800 ? 1 : code_point < 0x10000 ? 2 : 3;
  const uint32_t mark = tails == 0 ? 0 : 0xf0 << (3 - tails);
  *out += static_cast<char>(mark | code_point >> 6 * tails);
  for (int tail = tails; tail-- > 0;) {
    *out += static_cast<char>(0x80 | (code_point >> 6 * tail & 0x3f));
  }
}

std::string DescribeCodePoint(uint32_t code_point) {
  std::string name = absl::StrFormat("U+%04X", code_point);
  const bool control = code_point < 0x20 || (code_point >= 0x7f && code_point < 0xa0);
  if (control) return name;
  name += " '";
  AppendUtf8(code_point, &name);
  return name + "'";
}

std::string AsCleanLine(absl::string_view text) {
  std::string line;
  for (size_t at = 0; at < text.size();) {
    Utf8Decoder decoder;
    auto result = Utf8Decoder::Result::kMore;
    const size_t begin = at;
    while (at < text.size() && result == Utf8Decoder::Result::kMore) {
      result = decoder.Next(static_cast<unsigned char>(text[at++]));
    }
    if (result != Utf8Decoder::Result::kCodePoint) {
      line.push_back('?');
      at = begin + 1;
      continue;
    }
    const uint32_t c = decoder.code_point();
    const bool spaced = c == '\n' || c == '\r' || c == '\t' || c == 0x2028 || c == 0x2029;
    const bool turns = c == 0x061c || c == 0x200e || c == 0x200f || (c >= 0x202a && c <= 0x202e) ||
                       (c >= 0x2066 && c <= 0x2069);
    if (spaced) {
      line.push_back(' ');
    } else if (turns || c < 0x20 || (c >= 0x7f && c < 0xa0)) {
      line.push_back('?');
    } else {
      line.append(text.substr(begin, at - begin).data(), at - begin);
    }
  }
  return line;
}

}  // namespace spillway
