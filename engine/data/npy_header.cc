#include "engine/data/npy_header.h"

#include <cstring>
#include <optional>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "io/base/status.h"

namespace spillway {
namespace {

constexpr absl::string_view kMagic("\x93NUMPY", 6);

absl::Status Broken(absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("not a .npy file of tokens: ", why));
}

// The header's Python dictionary: {'descr': '<u2', 'fortran_order': False, 'shape': (3,)}
struct Description {
  std::optional<std::string> descr;
  std::optional<bool> fortran_order;
  std::optional<std::vector<uint64_t>> shape;
};

// Reads the few Python literals that such a dictionary contains.
class DictionaryReader {
 public:
  explicit DictionaryReader(absl::string_view text) : rest_(text) {}

  std::optional<Description> Read() {
    Description description;
    if (!Take("{")) return std::nullopt;
    while (!Take("}")) {
      const std::optional<std::string> key = String();
      if (!key || !Take(":") || !Member(*key, &description)) return std::nullopt;
      if (!Take(",") && !Peek("}")) return std::nullopt;
    }
    Skip();
    if (!rest_.empty()) return std::nullopt;
    return description;
  }

 private:
  void Skip() { rest_ = absl::StripLeadingAsciiWhitespace(rest_); }
  bool Peek(absl::string_view word) {
    Skip();
    return absl::StartsWith(rest_, word);
  }
  bool Take(absl::string_view word) {
    Skip();
    return absl::ConsumePrefix(&rest_, word);
  }

  std::optional<std::string> String() {
    Skip();
    if (rest_.empty() || (rest_[0] != '\'' && rest_[0] != '"')) return std::nullopt;
    const size_t end = rest_.find(rest_[0], 1);
    if (end == absl::string_view::npos) return std::nullopt;
    std::string value(rest_.substr(1, end - 1));
    rest_.remove_prefix(end + 1);
    return value;
  }

  std::optional<uint64_t> Number() {
    Skip();
    size_t end = 0;
    while (end < rest_.size() && absl::ascii_isdigit(rest_[end])) ++end;
    uint64_t value = 0;
    if (!absl::SimpleAtoi(rest_.substr(0, end), &value)) return std::nullopt;
    rest_.remove_prefix(end);
    return value;
  }

  bool Member(const std::string& key, Description* out) {
    if (key == "descr" && !out->descr) {
      out->descr = String();
      return out->descr.has_value();
    }
    if (key == "fortran_order" && !out->fortran_order) {
      const bool is_true = Take("True");
      if (!is_true && !Take("False")) return false;
      out->fortran_order = is_true;
      return true;
    }
    if (key == "shape" && !out->shape) {
      if (!Take("(")) return false;
      out->shape.emplace();
      while (!Take(")")) {
        const std::optional<uint64_t> size = Number();
        if (!size) return false;
        out->shape->push_back(*size);
        if (!Take(",") && !Peek(")")) return false;
      }
      return true;
    }
    return false;
  }

  absl::string_view rest_;
};

// Reads '<u2', '|u1', '<i8', ...
absl::Status ReadType(const std::string& descr, TokenFormat* format) {
  const bool known = descr.size() == 3 && (descr[1] == 'u' || descr[1] == 'i') &&
                     absl::StrContains("1248", descr.substr(2));
  if (!known) {
    return Broken(absl::StrCat("its type is '", descr, "'; tokens are integers (uint16, ...)"));
  }
  format->width_bytes = descr[2] - '0';
  format->is_signed = descr[1] == 'i';
  if (descr[0] == '>' && format->width_bytes > 1) {
    return Broken("its numbers are big-endian; save it with a little-endian type ('<u2')");
  }
  if (!absl::StrContains("<|=>", descr.substr(0, 1))) {
    return Broken(absl::StrCat("its type is '", descr, "'"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TokenFormat> ParseNpyHeader(absl::string_view head, uint64_t file_size_bytes) {
  if (!absl::StartsWith(head, kMagic)) return Broken("it does not begin with \\x93NUMPY");
  if (head.size() < 10) return Broken("it is cut short");
  const int major = static_cast<unsigned char>(head[6]);
  if (major < 1 || major > 3) return Broken(absl::StrCat("version ", major, " is unknown"));
  const size_t length_bytes = major == 1 ? 2 : 4;
  const size_t dictionary_begin = 8 + length_bytes;
  if (head.size() < dictionary_begin) return Broken("it is cut short");
  uint32_t length = 0;
  std::memcpy(&length, head.data() + 8, length_bytes);
  if (length > head.size() - dictionary_begin) {
    return Broken(
        absl::StrCat("its header has ", length, " bytes, more than the file or ", kNpyHeadBytes));
  }
  DictionaryReader reader(head.substr(dictionary_begin, length));
  const std::optional<Description> description = reader.Read();
  if (!description || !description->descr || !description->fortran_order || !description->shape) {
    return Broken("its header is not {'descr': ..., 'fortran_order': ..., 'shape': ...}");
  }
  TokenFormat format;
  RETURN_IF_ERROR(ReadType(*description->descr, &format));
  if (description->shape->size() != 1) {
    return Broken(absl::StrCat("it has ", description->shape->size(),
                               " dimensions; tokens are one-dimensional"));
  }
  format.data_offset_bytes = dictionary_begin + length;
  const uint64_t data_bytes = file_size_bytes - format.data_offset_bytes;
  const uint64_t tokens = (*description->shape)[0];
  uint64_t expected_bytes = 0;
  if (__builtin_mul_overflow(tokens, static_cast<uint64_t>(format.width_bytes), &expected_bytes) ||
      expected_bytes != data_bytes) {
    return Broken(absl::StrCat("its header says ", tokens, " numbers of ", format.width_bytes,
                               " bytes, but ", data_bytes, " bytes follow"));
  }
  format.tokens = static_cast<int64_t>(tokens);
  return format;
}

}  // namespace spillway
