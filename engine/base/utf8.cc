#include "engine/base/utf8.h"

#include "absl/strings/str_cat.h"
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
  if ((byte & 0xe0) == 0xc0) {
    missing_ = 1;
    minimum_ = 0x80;
    code_point_ = byte & 0x1f;
  } else if ((byte & 0xf0) == 0xe0) {
    missing_ = 2;
    minimum_ = 0x800;
    code_point_ = byte & 0x0f;
  } else if ((byte & 0xf8) == 0xf0) {
    missing_ = 3;
    minimum_ = 0x10000;
    code_point_ = byte & 0x07;
  } else {
    return Result::kInvalid;
  }
  return Result::kMore;
}

void AppendUtf8(uint32_t code_point, std::string* out) {
  const auto tail = [&](int shift) {
    *out += static_cast<char>(0x80 | ((code_point >> shift) & 0x3f));
  };
  if (code_point < 0x80) {
    *out += static_cast<char>(code_point);
  } else if (code_point < 0x800) {
    *out += static_cast<char>(0xc0 | (code_point >> 6));
    tail(0);
  } else if (code_point < 0x10000) {
    *out += static_cast<char>(0xe0 | (code_point >> 12));
    tail(6);
    tail(0);
  } else {
    *out += static_cast<char>(0xf0 | (code_point >> 18));
    tail(12);
    tail(6);
    tail(0);
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

}  // namespace spillway
