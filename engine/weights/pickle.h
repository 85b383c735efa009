// Reads Python's pickle format as data: what torch.save writes around the tensors of a state dict.
//
// A pickle is a program for a small stack machine. This reader runs its stack operations and
// nothing else: names of classes and functions stay names, a call becomes a value of kind kCall
// that lists its arguments, and no code is found, imported or run.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace spillway {

struct PickleValue {
  enum class Kind : uint8_t {
    kNone,
    kNumber,      // an integer or a boolean: `number`
    kText,        // `text`
    kName,        // a class or a function: `text` is "module.name"
    kSequence,    // a list, a tuple or a set: `items`
    kDict,        // alternating keys and values in `items`; a later key replaces an earlier one
    kCall,        // of the name items[0] with the arguments items[1], a sequence
    kPersistent,  // data that torch.save stores outside the pickle; items[0] names it
    kOther,       // bytes, floats, and numbers beyond 64 bits, which do not describe tensors
  };
  Kind kind = Kind::kNone;
  int64_t number = 0;
  std::string text = {};
  std::vector<uint32_t> items = {};  // values of the same reader, which may refer to each other
};

// Bytes of a file that is read from front to back.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Exactly `count` bytes. kDataLoss if the source ends before that.
  virtual absl::Status Read(uint64_t count, char* out) = 0;
};

// For one thread.
class PickleReader {
 public:
  // `source` outlives the reader.
  explicit PickleReader(ByteSource* source) : source_(*source) {}

  // Reads one pickle up to its end and returns its value's number. Values of earlier pickles stay.
  // kDataLoss with the broken rule and its byte, counted from where the reader began: an unknown
  // operation, a stack that is too short, or more than kMostValues values or kMostBytes bytes.
  absl::StatusOr<uint32_t> Read();

  const PickleValue& at(uint32_t value) const { return values_[value]; }
  uint32_t values() const { return static_cast<uint32_t>(values_.size()); }

  // A state dict of 100,000 tensors has about 1.5 million values in 20 MB. A value takes 72 bytes.
  static constexpr uint32_t kMostValues = 2'000'000;
  static constexpr uint64_t kMostBytes = 64 << 20;

 private:
  using Kind = PickleValue::Kind;

  absl::Status Run(uint8_t operation);
  absl::Status RunText(uint8_t operation);
  absl::Status RunCall(uint8_t operation);
  absl::Status Broken(absl::string_view rule) const;

  absl::Status Bytes(uint64_t count, char* out);
  // A little-endian number of `size` bytes.
  absl::StatusOr<uint64_t> Number(int size);
  absl::StatusOr<std::string> Text(uint64_t count);
  absl::StatusOr<std::string> Line();

  absl::StatusOr<uint32_t> Make(PickleValue value);
  absl::Status Push(PickleValue value);
  absl::Status PushInteger(int64_t number);
  absl::StatusOr<uint32_t> Pop();
  // Pops the last mark and returns the values above it.
  absl::StatusOr<std::vector<uint32_t>> PopToMark();
  absl::Status PushSequence(absl::StatusOr<std::vector<uint32_t>> items);
  // Adds items to the value on top of the stack.
  absl::Status Extend(Kind kind, const std::vector<uint32_t>& items);
  // The pairs in `arguments`: Python 2 gives an OrderedDict its items as one list of pairs.
  std::vector<uint32_t> PairsIn(uint32_t arguments) const;
  absl::Status Remember(uint64_t slot);
  absl::Status Recall(uint64_t slot);

  ByteSource& source_;
  uint64_t bytes_ = 0;
  std::deque<PickleValue> values_;
  std::vector<uint32_t> stack_;
  std::vector<size_t> marks_;  // sizes of the stack
  std::vector<uint32_t> memo_;
  uint64_t added_ = 0;  // items of all sequences and dicts
};

}  // namespace spillway
