#include "engine/weights/pickle.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "io/base/status.h"

namespace spillway {
namespace {

// Operations of the pickle machine, as Python's pickletools names them.
struct PickleOp {
  static constexpr uint8_t kMark = '(', kStop = '.', kPop = '0', kPopMark = '1', kDuplicate = '2',
                           kPushFloat = 'F', kPushInt = 'I', kBinInt = 'J', kBinInt1 = 'K',
                           kPushLong = 'L', kBinInt2 = 'M', kPushNone = 'N', kBinPersId = 'Q',
                           kReduce = 'R', kBinString = 'T', kShortBinString = 'U',
                           kBinUnicode = 'X', kAppend = 'a', kBuild = 'b', kGlobal = 'c',
                           kDict = 'd', kEmptyDict = '}', kAppends = 'e', kGet = 'g', kBinGet = 'h',
                           kLongBinGet = 'j', kList = 'l', kEmptyList = ']', kPut = 'p',
                           kBinPut = 'q', kLongBinPut = 'r', kSetItem = 's', kTuple = 't',
                           kEmptyTuple = ')', kSetItems = 'u', kBinFloat = 'G', kBinBytes = 'B',
                           kShortBinBytes = 'C', kProto = 0x80, kNewObj = 0x81, kTuple1 = 0x85,
                           kTuple2 = 0x86, kTuple3 = 0x87, kNewTrue = 0x88, kNewFalse = 0x89,
                           kLong1 = 0x8a, kLong4 = 0x8b, kShortBinUnicode = 0x8c,
                           kBinUnicode8 = 0x8d, kBinBytes8 = 0x8e, kEmptySet = 0x8f,
                           kAddItems = 0x90, kFrozenSet = 0x91, kNewObjEx = 0x92,
                           kStackGlobal = 0x93, kMemoize = 0x94, kFrame = 0x95;
};

constexpr uint64_t kMostTextBytes = 16 << 20, kMostLineBytes = 4096;
constexpr uint32_t kNotRemembered = UINT32_MAX;

}  // namespace

absl::Status PickleReader::Broken(absl::string_view rule) const {
  return WrongBytesError(absl::StrCat("its pickle breaks at byte ", bytes_, ": ", rule));
}

absl::Status PickleReader::Bytes(uint64_t count, char* out) {
  if (count > kMostBytes - bytes_) {
    return Broken(absl::StrCat("it is longer than the ", kMostBytes >> 20, " MiB that are read"));
  }
  RETURN_IF_ERROR(source_.Read(count, out));
  bytes_ += count;
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> PickleReader::Number(int size) {
  unsigned char bytes[8] = {};
  RETURN_IF_ERROR(Bytes(static_cast<uint64_t>(size), reinterpret_cast<char*>(bytes)));
  uint64_t number = 0;
  for (int i = size - 1; i >= 0; --i) number = number << 8 | bytes[i];
  return number;
}

absl::StatusOr<std::string> PickleReader::Text(uint64_t count) {
  if (count > kMostTextBytes) {
    return Broken(
        absl::StrCat("a text of ", count, " bytes; at most ", kMostTextBytes, " are read"));
  }
  // Reads in pieces, so that a false length takes no more memory than there are bytes.
  std::string text;
  for (uint64_t done = 0; done < count;) {
    const uint64_t some = std::min<uint64_t>(count - done, 64 << 10);
    text.resize(done + some);
    RETURN_IF_ERROR(Bytes(some, text.data() + done));
    done += some;
  }
  return text;
}

absl::StatusOr<std::string> PickleReader::Line() {
  std::string line;
  while (line.size() <= kMostLineBytes) {
    char c = 0;
    RETURN_IF_ERROR(Bytes(1, &c));
    if (c == '\n') return line;
    line += c;
  }
  return Broken(absl::StrCat("a line of more than ", kMostLineBytes, " bytes"));
}

absl::StatusOr<uint32_t> PickleReader::Make(PickleValue value) {
  if (values_.size() >= kMostValues) {
    return Broken(absl::StrCat("it has more than ", kMostValues, " values"));
  }
  values_.push_back(std::move(value));
  return static_cast<uint32_t>(values_.size() - 1);
}

absl::Status PickleReader::Push(PickleValue value) {
  ASSIGN_OR_RETURN(const uint32_t made, Make(std::move(value)));
  stack_.push_back(made);
  return absl::OkStatus();
}

absl::Status PickleReader::PushInteger(int64_t number) {
  return Push({.kind = Kind::kNumber, .number = number});
}

absl::StatusOr<uint32_t> PickleReader::Pop() {
  if (stack_.size() <= (marks_.empty() ? 0 : marks_.back())) return Broken("its stack is empty");
  const uint32_t top = stack_.back();
  stack_.pop_back();
  return top;
}

absl::StatusOr<std::vector<uint32_t>> PickleReader::PopToMark() {
  if (marks_.empty()) return Broken("a mark is missing");
  const auto begin = stack_.begin() + static_cast<int64_t>(marks_.back());
  std::vector<uint32_t> items(begin, stack_.end());
  stack_.erase(begin, stack_.end());
  marks_.pop_back();
  return items;
}

absl::Status PickleReader::PushSequence(absl::StatusOr<std::vector<uint32_t>> items) {
  RETURN_IF_ERROR(items.status());
  return Push({.kind = Kind::kSequence, .items = *std::move(items)});
}

absl::Status PickleReader::Extend(Kind kind, const std::vector<uint32_t>& items) {
  ASSIGN_OR_RETURN(const uint32_t top, Pop());
  stack_.push_back(top);
  added_ += items.size();
  if (added_ > kMostValues) {
    return Broken(absl::StrCat("its lists and dicts have more than ", kMostValues, " items"));
  }
  PickleValue& value = values_[top];
  // Items added to an object of a class of its own are ignored, like the object.
  if (value.kind == kind) value.items.insert(value.items.end(), items.begin(), items.end());
  return absl::OkStatus();
}

absl::Status PickleReader::Remember(uint64_t slot) {
  ASSIGN_OR_RETURN(const uint32_t top, Pop());
  stack_.push_back(top);
  // Python numbers the slots in order.
  if (slot > kMostValues) return Broken(absl::StrCat("slot ", slot, " of its memo"));
  if (slot >= memo_.size()) memo_.resize(slot + 1, kNotRemembered);
  memo_[slot] = top;
  return absl::OkStatus();
}

absl::Status PickleReader::Recall(uint64_t slot) {
  if (slot >= memo_.size() || memo_[slot] == kNotRemembered) {
    return Broken(absl::StrCat("slot ", slot, " of its memo is empty"));
  }
  stack_.push_back(memo_[slot]);
  return absl::OkStatus();
}

absl::StatusOr<uint32_t> PickleReader::Read() {
  stack_.clear();
  marks_.clear();
  memo_.clear();
  for (;;) {
    ASSIGN_OR_RETURN(const uint64_t operation, Number(1));
    if (operation == PickleOp::kStop) break;
    RETURN_IF_ERROR(Run(static_cast<uint8_t>(operation)));
    if (stack_.size() + marks_.size() > kMostValues) return Broken("its stack is too deep");
  }
  if (!marks_.empty() || stack_.size() != 1) return Broken("it does not end with one value");
  return stack_.back();
}

absl::Status PickleReader::Run(uint8_t operation) {
  switch (operation) {
    case PickleOp::kProto: {
      ASSIGN_OR_RETURN(const uint64_t version, Number(1));
      return version <= 5 ? absl::OkStatus() : Broken(absl::StrCat("protocol ", version));
    }
    case PickleOp::kFrame:
      return Number(8).status();
    case PickleOp::kMark:
      marks_.push_back(stack_.size());
      return absl::OkStatus();
    case PickleOp::kPop:
      return Pop().status();
    case PickleOp::kPopMark:
      return PopToMark().status();
    case PickleOp::kDuplicate: {
      ASSIGN_OR_RETURN(const uint32_t top, Pop());
      stack_.insert(stack_.end(), {top, top});
      return absl::OkStatus();
    }
    case PickleOp::kPushNone:
      return Push({});
    case PickleOp::kNewTrue:
    case PickleOp::kNewFalse:
      return PushInteger(operation == PickleOp::kNewTrue ? 1 : 0);
    case PickleOp::kBinInt: {
      ASSIGN_OR_RETURN(const uint64_t number, Number(4));
      return PushInteger(static_cast<int32_t>(number));
    }
    case PickleOp::kBinInt1:
    case PickleOp::kBinInt2: {
      ASSIGN_OR_RETURN(const uint64_t number, Number(operation == PickleOp::kBinInt1 ? 1 : 2));
      return PushInteger(static_cast<int64_t>(number));
    }
    case PickleOp::kLong1:
    case PickleOp::kLong4: {
      ASSIGN_OR_RETURN(const uint64_t size, Number(operation == PickleOp::kLong1 ? 1 : 4));
      if (size > 8) {
        RETURN_IF_ERROR(Text(size).status());
        return Push({.kind = Kind::kOther});
      }
      ASSIGN_OR_RETURN(uint64_t number, Number(static_cast<int>(size)));
      const int unused_bits = 64 - 8 * static_cast<int>(size);  // the sign is in the last byte
      if (unused_bits < 64) number = number << unused_bits;
      const auto shifted = static_cast<int64_t>(number);
      return PushInteger(unused_bits < 64 ? shifted >> unused_bits : 0);
    }
    case PickleOp::kBinFloat:
      RETURN_IF_ERROR(Number(8).status());
      return Push({.kind = Kind::kOther});
    case PickleOp::kBinPut:
    case PickleOp::kLongBinPut: {
      ASSIGN_OR_RETURN(const uint64_t slot, Number(operation == PickleOp::kBinPut ? 1 : 4));
      return Remember(slot);
    }
    case PickleOp::kMemoize:
      return Remember(memo_.size());
    case PickleOp::kBinGet:
    case PickleOp::kLongBinGet: {
      ASSIGN_OR_RETURN(const uint64_t slot, Number(operation == PickleOp::kBinGet ? 1 : 4));
      return Recall(slot);
    }
    case PickleOp::kEmptyTuple:
    case PickleOp::kEmptyList:
    case PickleOp::kEmptySet:
      return Push({.kind = Kind::kSequence});
    case PickleOp::kEmptyDict:
      return Push({.kind = Kind::kDict});
    case PickleOp::kTuple:
    case PickleOp::kList:
    case PickleOp::kFrozenSet:
      return PushSequence(PopToMark());
    case PickleOp::kTuple1:
    case PickleOp::kTuple2:
    case PickleOp::kTuple3: {
      std::vector<uint32_t> items(1 + operation - PickleOp::kTuple1);
      for (size_t i = items.size(); i-- > 0;) {
        ASSIGN_OR_RETURN(items[i], Pop());
      }
      return PushSequence(std::move(items));
    }
    case PickleOp::kDict: {
      ASSIGN_OR_RETURN(std::vector<uint32_t> items, PopToMark());
      if (items.size() % 2 != 0) return Broken("a key without a value");
      return Push({.kind = Kind::kDict, .items = std::move(items)});
    }
    case PickleOp::kAppend: {
      ASSIGN_OR_RETURN(const uint32_t item, Pop());
      return Extend(Kind::kSequence, {item});
    }
    case PickleOp::kAppends:
    case PickleOp::kAddItems: {
      ASSIGN_OR_RETURN(const std::vector<uint32_t> items, PopToMark());
      return Extend(Kind::kSequence, items);
    }
    case PickleOp::kSetItem: {
      ASSIGN_OR_RETURN(const uint32_t value, Pop());
      ASSIGN_OR_RETURN(const uint32_t key, Pop());
      return Extend(Kind::kDict, {key, value});
    }
    case PickleOp::kSetItems: {
      ASSIGN_OR_RETURN(const std::vector<uint32_t> items, PopToMark());
      if (items.size() % 2 != 0) return Broken("a key without a value");
      return Extend(Kind::kDict, items);
    }
    case PickleOp::kBinPersId: {
      ASSIGN_OR_RETURN(const uint32_t id, Pop());
      return Push({.kind = Kind::kPersistent, .items = {id}});
    }
    case PickleOp::kReduce:
    case PickleOp::kNewObj:
    case PickleOp::kNewObjEx:
    case PickleOp::kBuild:
    case PickleOp::kStackGlobal:
      return RunCall(operation);
    default:
      return RunText(operation);
  }
}

absl::Status PickleReader::RunText(uint8_t operation) {
  switch (operation) {
    case PickleOp::kBinUnicode:
    case PickleOp::kBinString:
    case PickleOp::kBinBytes:
    case PickleOp::kShortBinUnicode:
    case PickleOp::kShortBinString:
    case PickleOp::kShortBinBytes:
    case PickleOp::kBinUnicode8:
    case PickleOp::kBinBytes8: {
      const bool is_short = operation == PickleOp::kShortBinUnicode ||
                            operation == PickleOp::kShortBinString ||
                            operation == PickleOp::kShortBinBytes;
      const bool is_long = operation == PickleOp::kBinUnicode8 || operation == PickleOp::kBinBytes8;
      ASSIGN_OR_RETURN(const uint64_t size, Number(is_short ? 1 : is_long ? 8 : 4));
      ASSIGN_OR_RETURN(std::string text, Text(size));
      const bool bytes = operation == PickleOp::kBinBytes ||
                         operation == PickleOp::kShortBinBytes || operation == PickleOp::kBinBytes8;
      return Push(bytes ? PickleValue{.kind = Kind::kOther}
                        : PickleValue{.kind = Kind::kText, .text = std::move(text)});
    }
    case PickleOp::kGlobal: {
      ASSIGN_OR_RETURN(const std::string module, Line());
      ASSIGN_OR_RETURN(const std::string name, Line());
      return Push({.kind = Kind::kName, .text = absl::StrCat(module, ".", name)});
    }
    case PickleOp::kPushFloat:
      RETURN_IF_ERROR(Line().status());
      return Push({.kind = Kind::kOther});
    case PickleOp::kPushInt:
    case PickleOp::kPushLong: {
      ASSIGN_OR_RETURN(std::string line, Line());
      if (!line.empty() && line.back() == 'L') line.pop_back();
      int64_t number = 0;
      if (!absl::SimpleAtoi(line, &number)) return Push({.kind = Kind::kOther});
      return PushInteger(number);
    }
    case PickleOp::kPut:
    case PickleOp::kGet: {
      ASSIGN_OR_RETURN(const std::string line, Line());
      uint64_t slot = 0;
      if (!absl::SimpleAtoi(line, &slot)) return Broken("a slot of its memo that is no number");
      return operation == PickleOp::kPut ? Remember(slot) : Recall(slot);
    }
    default:
      return Broken(absl::StrFormat("operation 0x%02x is none that torch.save writes", operation));
  }
}

std::vector<uint32_t> PickleReader::PairsIn(uint32_t arguments) const {
  std::vector<uint32_t> pairs;
  const std::vector<uint32_t>& given = at(arguments).items;
  if (at(arguments).kind != Kind::kSequence || given.size() != 1) return pairs;
  if (at(given[0]).kind != Kind::kSequence) return pairs;
  for (const uint32_t pair : at(given[0]).items) {
    const std::vector<uint32_t>& items = at(pair).items;
    if (at(pair).kind == Kind::kSequence && items.size() == 2) {
      pairs.insert(pairs.end(), items.begin(), items.end());
    }
  }
  return pairs;
}

absl::Status PickleReader::RunCall(uint8_t operation) {
  if (operation == PickleOp::kStackGlobal) {
    ASSIGN_OR_RETURN(const uint32_t name, Pop());
    ASSIGN_OR_RETURN(const uint32_t module, Pop());
    if (at(name).kind != Kind::kText || at(module).kind != Kind::kText) {
      return Broken("a class whose name is no text");
    }
    return Push({.kind = Kind::kName, .text = absl::StrCat(at(module).text, ".", at(name).text)});
  }
  if (operation == PickleOp::kNewObjEx) RETURN_IF_ERROR(Pop().status());  // named arguments
  ASSIGN_OR_RETURN(const uint32_t arguments, Pop());
  if (operation == PickleOp::kBuild) {  // attributes, which no plain value has
    ASSIGN_OR_RETURN(const uint32_t object, Pop());
    stack_.push_back(object);
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const uint32_t called, Pop());
  // Dicts that remember their order, and those with a default, are dicts here.
  const std::string& name = at(called).text;
  if (name == "collections.OrderedDict" || name == "collections.defaultdict") {
    return Push({.kind = Kind::kDict, .items = PairsIn(arguments)});
  }
  return Push({.kind = Kind::kCall, .items = {called, arguments}});
}

}  // namespace spillway
