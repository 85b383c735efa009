#include "engine/weights/safetensors_header.h"

#include <algorithm>
#include <optional>
#include <tuple>
#include <unordered_set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "io/base/status.h"
#include "nlohmann/json.hpp"

namespace spillway {
namespace {

using nlohmann::json;

constexpr absl::string_view kMetadata = "__metadata__";
constexpr uint64_t kMostDimensions = 64;

struct DtypeBits {
  absl::string_view name;
  int bits;
};

constexpr DtypeBits kDtypes[] = {
    {"BOOL", 8},        {"U8", 8},          {"I8", 8},      {"F8_E4M3", 8}, {"F8_E5M2", 8},
    {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"F8_E8M0", 8}, {"U16", 16},    {"I16", 16},
    {"F16", 16},        {"BF16", 16},       {"U32", 32},    {"I32", 32},    {"F32", 32},
    {"U64", 64},        {"I64", 64},        {"F64", 64},    {"C64", 64},    {"F4", 4},
    {"F6_E2M3", 6},     {"F6_E3M2", 6},
};

// A tensor while its object is being read.
struct Entry {
  std::string name;
  std::optional<std::string> dtype;
  std::optional<std::vector<uint64_t>> shape;
  std::optional<std::vector<uint64_t>> offsets;
};

// Accepts only the structure that a header may have, so that neither depth nor memory depends on
// the content of a hostile one, beyond its length.
class HeaderReader : public json::json_sax_t {
 public:
  std::vector<Entry> entries;
  std::map<std::string, std::string> metadata;
  std::string error;

  bool null() override { return Unexpected("null"); }
  bool boolean(bool) override { return Unexpected("true or false"); }
  bool number_integer(number_integer_t value) override {
    return value < 0 ? Fail(absl::StrCat("a negative number (", value, ")"))
                     : Number(static_cast<uint64_t>(value));
  }
  bool number_unsigned(number_unsigned_t value) override { return Number(value); }
  bool number_float(number_float_t, const string_t& text) override {
    return Fail(absl::StrCat(text, " is not a whole number below 2^64"));
  }
  bool binary(binary_t&) override { return Unexpected("binary data"); }

  bool string(string_t& value) override {
    if (state_ == State::kMetadata) {
      metadata[key_] = std::move(value);
      return true;
    }
    if (state_ == State::kTensor && key_ == "dtype") {
      entries.back().dtype = std::move(value);
      return true;
    }
    return Unexpected("a string");
  }

  bool start_object(std::size_t) override {
    switch (state_) {
      case State::kStart:
        state_ = State::kTop;
        return true;
      case State::kTop:
        if (key_ == kMetadata) {
          state_ = State::kMetadata;
        } else {
          entries.push_back({key_, {}, {}, {}});
          state_ = State::kTensor;
        }
        return true;
      default:
        return Unexpected("an object");
    }
  }

  bool end_object() override {
    if (state_ == State::kTensor) {
      const Entry& entry = entries.back();
      if (!entry.dtype || !entry.shape || !entry.offsets) {
        return Fail("lacks dtype, shape or data_offsets");
      }
      if (entry.offsets->size() != 2) return Fail("data_offsets are not two numbers");
    }
    state_ = state_ == State::kTop ? State::kEnd : State::kTop;
    return true;
  }

  bool start_array(std::size_t) override {
    if (state_ != State::kTensor || key_ == "dtype") return Unexpected("an array");
    (key_ == "shape" ? entries.back().shape : entries.back().offsets).emplace();
    state_ = State::kArray;
    return true;
  }
  bool end_array() override {
    state_ = State::kTensor;
    return true;
  }

  bool key(string_t& name) override {
    key_ = std::move(name);
    switch (state_) {
      case State::kTop:
        // At this depth key_ is a tensor's name, or that of the metadata.
        if (!names_.insert(key_).second) return Fail("the name appears twice");
        return true;
      case State::kMetadata:
        return metadata.count(key_) == 0 ||
               FailPlain(absl::StrCat("the metadata key '", key_, "' appears twice"));
      default: {
        const Entry& entry = entries.back();
        const bool again = (key_ == "dtype" && entry.dtype) || (key_ == "shape" && entry.shape) ||
                           (key_ == "data_offsets" && entry.offsets);
        if (again) return Fail(absl::StrCat("'", key_, "' appears twice"));
        return key_ == "dtype" || key_ == "shape" || key_ == "data_offsets" ||
               Fail(absl::StrCat("unknown key '", key_, "'"));
      }
    }
  }

  bool parse_error(std::size_t position, const std::string&, const json::exception&) override {
    error = absl::StrCat("the header is not valid UTF-8 JSON (at its byte ", position, ")");
    return false;
  }

 private:
  enum class State { kStart, kTop, kMetadata, kTensor, kArray, kEnd };

  bool Number(uint64_t value) {
    if (state_ != State::kArray) return Unexpected("a number");
    std::vector<uint64_t>& list = key_ == "shape" ? *entries.back().shape : *entries.back().offsets;
    if (list.size() >= kMostDimensions) {
      return Fail(absl::StrCat("'", key_, "' has more than ", kMostDimensions, " numbers"));
    }
    list.push_back(value);
    return true;
  }

  bool Unexpected(absl::string_view what) {
    if (state_ == State::kMetadata) {
      return FailPlain(absl::StrCat("the metadata value of '", key_, "' is not a string"));
    }
    return Fail(absl::StrCat(what, " where none belongs"));
  }
  // Fails with the entry that is being read, if any.
  bool Fail(absl::string_view why) {
    if (state_ == State::kTensor || state_ == State::kArray) {
      return FailPlain(absl::StrCat("tensor '", entries.back().name, "': ", why));
    }
    if (state_ == State::kTop) return FailPlain(absl::StrCat("tensor '", key_, "': ", why));
    return FailPlain(absl::StrCat("the header is not an object: ", why));
  }
  bool FailPlain(std::string why) {
    error = std::move(why);
    return false;
  }

  State state_ = State::kStart;
  std::string key_;
  std::unordered_set<std::string> names_;
};

// Computes elements and bytes of an entry, and checks them against each other.
absl::StatusOr<SafetensorsTensor> ToTensor(Entry entry, uint64_t data_begin_bytes) {
  SafetensorsTensor tensor;
  const auto broken = [&](absl::string_view why) {
    return WrongBytesError(absl::StrCat("tensor '", tensor.name, "': ", why));
  };
  tensor.name = std::move(entry.name);
  tensor.dtype = *std::move(entry.dtype);
  tensor.shape = *std::move(entry.shape);
  const uint64_t begin = (*entry.offsets)[0];
  const uint64_t end = (*entry.offsets)[1];
  const int bits = SafetensorsDtypeBits(tensor.dtype);
  if (bits == 0) return broken(absl::StrCat("unknown dtype '", tensor.dtype, "'"));
  if (end < begin) return broken(absl::StrCat("its data ends (", end, ") before it begins"));

  tensor.elements = 1;
  for (const uint64_t size : tensor.shape) {
    if (__builtin_mul_overflow(tensor.elements, size, &tensor.elements)) {
      return broken("the product of its shape overflows");
    }
  }
  uint64_t size_bits = 0;
  if (__builtin_mul_overflow(tensor.elements, static_cast<uint64_t>(bits), &size_bits)) {
    return broken("its size overflows");
  }
  if (size_bits % 8 != 0) return broken("its size is not a whole number of bytes");
  tensor.size_bytes = size_bits / 8;
  if (tensor.size_bytes != end - begin) {
    return broken(absl::StrCat("its shape and dtype make ", tensor.size_bytes,
                               " bytes, its data_offsets ", end - begin));
  }
  if (__builtin_add_overflow(data_begin_bytes, begin, &tensor.offset_bytes)) {
    return broken("its offset overflows");
  }
  return tensor;
}

absl::Status CheckLayout(const std::vector<SafetensorsTensor>& tensors, uint64_t data_begin_bytes,
                         uint64_t file_size_bytes) {
  uint64_t expected = data_begin_bytes;
  for (const SafetensorsTensor& tensor : tensors) {
    if (tensor.offset_bytes != expected) {
      return WrongBytesError(absl::StrCat(
          "tensor '", tensor.name, "': its data begins at ", tensor.offset_bytes - data_begin_bytes,
          ", which leaves a ", tensor.offset_bytes > expected ? "hole after" : "overlap with",
          " what ends at ", expected - data_begin_bytes));
    }
    if (__builtin_add_overflow(expected, tensor.size_bytes, &expected)) {
      return WrongBytesError(absl::StrCat("tensor '", tensor.name, "': its end overflows"));
    }
  }
  if (expected != file_size_bytes) {
    return WrongBytesError(absl::StrCat("the header describes a file of ", expected,
                                        " bytes, but it has ", file_size_bytes,
                                        expected > file_size_bytes ? ": it is cut short" : ""));
  }
  return absl::OkStatus();
}

}  // namespace

int SafetensorsDtypeBits(absl::string_view dtype) {
  for (const DtypeBits& known : kDtypes) {
    if (known.name == dtype) return known.bits;
  }
  return 0;
}

absl::string_view SafetensorsDtypeName(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return "F32";
    case DType::kBFloat16:
      return "BF16";
    case DType::kFloat16:
      return "F16";
  }
  return "";
}

absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(absl::string_view json_text,
                                                         uint64_t file_size_bytes) {
  if (json_text.empty() || json_text.front() != '{') {
    return WrongBytesError("the header does not begin with '{'");
  }
  const size_t last = json_text.find_last_not_of(' ');
  if (json_text[last] != '}') {
    return WrongBytesError("the header does not end with '}' and spaces");
  }
  HeaderReader reader;
  if (!json::sax_parse(json_text.begin(), json_text.end(), &reader)) {
    return WrongBytesError(reader.error);
  }
  const uint64_t data_begin_bytes = 8 + json_text.size();
  SafetensorsHeader header;
  header.metadata = std::move(reader.metadata);
  header.tensors.reserve(reader.entries.size());
  for (Entry& entry : reader.entries) {
    ASSIGN_OR_RETURN(SafetensorsTensor tensor, ToTensor(std::move(entry), data_begin_bytes));
    header.tensors.push_back(std::move(tensor));
  }
  std::sort(header.tensors.begin(), header.tensors.end(),
            [](const SafetensorsTensor& a, const SafetensorsTensor& b) {
              return std::tie(a.offset_bytes, a.size_bytes, a.name) <
                     std::tie(b.offset_bytes, b.size_bytes, b.name);
            });
  RETURN_IF_ERROR(CheckLayout(header.tensors, data_begin_bytes, file_size_bytes));
  return header;
}

}  // namespace spillway
