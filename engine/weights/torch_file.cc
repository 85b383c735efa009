#include "engine/weights/torch_file.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "engine/base/shell_line.h"
#include "engine/weights/pickle.h"
#include "engine/weights/read_at.h"
#include "io/base/status.h"

namespace spillway {
namespace {

using Kind = PickleValue::Kind;

constexpr absl::string_view kZipBegin("PK\x03\x04", 4);
// The integer 0x1950a86a20f9469cfc6c in a pickle of protocol 2 or later, from its third byte on.
constexpr absl::string_view kLegacyMagic("\x8a\x0a\x6c\xfc\x9c\x46", 6);
constexpr uint64_t kMostDirectoryBytes = 64 << 20;
constexpr size_t kMostTorchDimensions = 64;
constexpr int kMostNesting = 3;  // a state dict within the file's dict

struct Range {
  uint64_t begin = 0, size = 0;
};

// A range of a file, read in pieces of 64 KiB.
class FileRange final : public ByteSource {
 public:
  FileRange(int fd, const std::string& path, Range range)
      : fd_(fd), path_(path), at_(range.begin), end_(range.begin + range.size) {}

  absl::Status Read(uint64_t count, char* out) override {
    if (count > end_ - at_) return WrongBytesError("it is cut short");
    while (count > 0) {
      if (at_ < piece_begin_ || at_ >= piece_begin_ + piece_bytes_) {
        piece_begin_ = at_;
        piece_bytes_ = std::min<uint64_t>(piece_.size(), end_ - at_);
        RETURN_IF_ERROR(ReadAt(fd_, path_, at_, piece_.data(), piece_bytes_));
      }
      const uint64_t some = std::min(count, piece_begin_ + piece_bytes_ - at_);
      std::memcpy(out, piece_.data() + (at_ - piece_begin_), some);
      out += some;
      at_ += some;
      count -= some;
    }
    return absl::OkStatus();
  }

  uint64_t at() const { return at_; }

 private:
  const int fd_;
  const std::string& path_;
  uint64_t at_;
  const uint64_t end_;
  uint64_t piece_begin_ = 0, piece_bytes_ = 0;
  std::array<char, 64 << 10> piece_;
};

template <typename T>
T FromLittleEndian(const char* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(T));
  return value;
}

// The records of a zip archive, by name.
class TorchArchive {
 public:
  static absl::StatusOr<std::map<std::string, Range>> Records(int fd, const std::string& path,
                                                              uint64_t file_bytes) {
    TorchArchive archive(fd, path, file_bytes);
    ASSIGN_OR_RETURN(const Range directory, archive.FindDirectory());
    return archive.ReadDirectory(directory);
  }

 private:
  TorchArchive(int fd, const std::string& path, uint64_t file_bytes)
      : fd_(fd), path_(path), file_bytes_(file_bytes) {}

  absl::Status Broken(absl::string_view rule) const {
    return WrongBytesError(absl::StrCat("its zip archive is broken: ", rule));
  }

  bool IsInside(uint64_t begin, uint64_t size) const {
    return begin <= file_bytes_ && size <= file_bytes_ - begin;
  }

  absl::StatusOr<Range> FindDirectory() {
    constexpr uint64_t kEndBytes = 22, kMostComment = 65535, kLocatorBytes = 20, kEnd64Bytes = 56;
    std::string tail(std::min(file_bytes_, kEndBytes + kMostComment + kLocatorBytes), '\0');
    const uint64_t tail_begin = file_bytes_ - tail.size();
    RETURN_IF_ERROR(ReadAt(fd_, path_, tail_begin, tail.data(), tail.size()));
    const size_t end = tail.rfind(std::string("PK\5\6", 4));
    if (end == std::string::npos || tail.size() - end < kEndBytes) {
      return Broken("it has no end (it is cut short, or not fetched whole)");
    }
    Range directory = {FromLittleEndian<uint32_t>(&tail[end + 16]),
                       FromLittleEndian<uint32_t>(&tail[end + 12])};
    if (end >= kLocatorBytes && tail.compare(end - kLocatorBytes, 4, "PK\6\7") == 0) {
      const auto end64 = FromLittleEndian<uint64_t>(&tail[end - kLocatorBytes + 8]);
      std::array<char, kEnd64Bytes> record;
      if (!IsInside(end64, record.size())) return Broken("its end lies outside of the file");
      RETURN_IF_ERROR(ReadAt(fd_, path_, end64, record.data(), record.size()));
      if (std::memcmp(record.data(), "PK\6\6", 4) != 0) return Broken("its end has another mark");
      directory = {FromLittleEndian<uint64_t>(&record[48]),
                   FromLittleEndian<uint64_t>(&record[40])};
    }
    if (!IsInside(directory.begin, directory.size) || directory.size > kMostDirectoryBytes) {
      return Broken("its directory lies outside of the file");
    }
    return directory;
  }

  absl::StatusOr<std::map<std::string, Range>> ReadDirectory(Range directory) {
    constexpr size_t kEntryBytes = 46;
    std::string bytes(directory.size, '\0');
    RETURN_IF_ERROR(ReadAt(fd_, path_, directory.begin, bytes.data(), bytes.size()));
    std::map<std::string, Range> records;
    for (size_t at = 0; at < bytes.size();) {
      if (bytes.size() - at < kEntryBytes || bytes.compare(at, 4, "PK\1\2") != 0) {
        return Broken("its directory has an entry without its mark");
      }
      const char* const entry = &bytes[at];
      const size_t name_bytes = FromLittleEndian<uint16_t>(entry + 28);
      const size_t extra_bytes = FromLittleEndian<uint16_t>(entry + 30);
      const size_t all =
          kEntryBytes + name_bytes + extra_bytes + FromLittleEndian<uint16_t>(entry + 32);
      if (bytes.size() - at < all) return Broken("its directory is cut short");
      const std::string name = bytes.substr(at + kEntryBytes, name_bytes);
      uint64_t sizes[] = {FromLittleEndian<uint32_t>(entry + 24),
                          FromLittleEndian<uint32_t>(entry + 20),
                          FromLittleEndian<uint32_t>(entry + 42)};
      ReadLongSizes(absl::string_view(bytes).substr(at + kEntryBytes + name_bytes, extra_bytes),
                    sizes);
      at += all;
      if (FromLittleEndian<uint16_t>(entry + 10) != 0 || sizes[0] != sizes[1]) {
        // TorchScript compresses its code, but no tensors.
        if (absl::StrContains(name, "/code/")) continue;
        return Broken(absl::StrCat("'", name, "' is compressed, which torch.save does not do"));
      }
      ASSIGN_OR_RETURN(const uint64_t begin, DataOf(name, sizes[2]));
      if (!IsInside(begin, sizes[0])) {
        return Broken(absl::StrCat("'", name, "' lies outside of the file"));
      }
      records[name] = {begin, sizes[0]};
    }
    return records;
  }

  // Sizes and offset that do not fit into 32 bits are in an extra field, in this order.
  static void ReadLongSizes(absl::string_view extra, uint64_t (&sizes)[3]) {
    while (extra.size() >= 4) {
      const size_t bytes = FromLittleEndian<uint16_t>(extra.data() + 2);
      absl::string_view field = extra.substr(4, bytes);
      if (FromLittleEndian<uint16_t>(extra.data()) == 1) {
        for (uint64_t& size : sizes) {
          if (size != UINT32_MAX || field.size() < 8) continue;
          size = FromLittleEndian<uint64_t>(field.data());
          field.remove_prefix(8);
        }
      }
      extra.remove_prefix(std::min(extra.size(), 4 + bytes));
    }
  }

  absl::StatusOr<uint64_t> DataOf(const std::string& name, uint64_t header_begin) {
    std::array<char, 30> header;
    if (!IsInside(header_begin, header.size())) {
      return Broken(absl::StrCat("'", name, "' lies outside of the file"));
    }
    RETURN_IF_ERROR(ReadAt(fd_, path_, header_begin, header.data(), header.size()));
    if (absl::string_view(header.data(), 4) != kZipBegin) {
      return Broken(absl::StrCat("'", name, "' has no header of its own"));
    }
    return header_begin + header.size() + FromLittleEndian<uint16_t>(&header[26]) +
           FromLittleEndian<uint16_t>(&header[28]);
  }

  const int fd_;
  const std::string& path_;
  const uint64_t file_bytes_;
};

// The safetensors dtype of a storage or dtype of torch; "": unknown.
absl::string_view DTypeOf(absl::string_view name) {
  static const auto& names = *new std::map<absl::string_view, absl::string_view>{
      {"FloatStorage", "F32"},   {"HalfStorage", "F16"}, {"BFloat16Storage", "BF16"},
      {"DoubleStorage", "F64"},  {"LongStorage", "I64"}, {"IntStorage", "I32"},
      {"ShortStorage", "I16"},   {"CharStorage", "I8"},  {"ByteStorage", "U8"},
      {"BoolStorage", "BOOL"},   {"float32", "F32"},     {"float16", "F16"},
      {"bfloat16", "BF16"},      {"float64", "F64"},     {"int64", "I64"},
      {"int32", "I32"},          {"int16", "I16"},       {"int8", "I8"},
      {"uint8", "U8"},           {"bool", "BOOL"},       {"uint16", "U16"},
      {"uint32", "U32"},         {"uint64", "U64"},      {"float8_e4m3fn", "F8_E4M3"},
      {"float8_e5m2", "F8_E5M2"}};
  for (const absl::string_view module : {"torch.cuda.", "torch.storage.", "torch."}) {
    if (absl::ConsumePrefix(&name, module)) break;
  }
  const auto found = names.find(name);
  return found == names.end() ? "" : found->second;
}

// The command that converts a file of torch.save to one that can be read.
std::string PlainCommand(const std::string& path) {
  return ShellLine({"python3", "-c",
                    "import sys, torch; s = torch.load(sys.argv[1], map_location='cpu', "
                    "weights_only=False); s = s.state_dict() if hasattr(s, 'state_dict') else s; "
                    "torch.save({k: v.contiguous() for k, v in s.items()}, sys.argv[1])",
                    path});
}

// A storage, as torch.save names it outside the pickle.
struct Storage {
  absl::string_view dtype = {};  // "": bytes
  std::string key = {};
  uint64_t elements = 0;
  uint64_t first = 0;  // for a view of another storage, which files before PyTorch 0.4 have
};

class StateDict {
 public:
  StateDict(const PickleReader& pickle, const std::string& path) : pickle_(pickle), path_(path) {}

  // By key: bytes per element of each storage that the pickle mentions.
  std::map<std::string, uint64_t> ElementBytes() const {
    std::map<std::string, uint64_t> bytes;
    for (uint32_t value = 0; value < pickle_.values(); ++value) {
      const auto storage = StorageOf(value);
      if (storage) bytes[storage->key] = BytesOf(storage->dtype);
    }
    return bytes;
  }

  // The tensors below `root`; `range_of` tells where the data of a storage is.
  template <typename RangeOf>
  absl::StatusOr<SafetensorsHeader> Tensors(uint32_t root, const RangeOf& range_of) const {
    ASSIGN_OR_RETURN(const uint32_t dict, FindDict(root));
    std::map<std::string, uint32_t> by_name;
    const std::vector<uint32_t>& items = pickle_.at(dict).items;
    for (size_t i = 0; i + 1 < items.size(); i += 2) {
      if (At(items[i]).kind != Kind::kText) {
        return Unread(absl::StrCat("a key of its state dict is ", What(items[i])));
      }
      by_name[At(items[i]).text] = items[i + 1];
    }
    SafetensorsHeader header;
    const std::string wrapper = WrapperOf(by_name);
    for (const auto& [name, value] : by_name) {
      ASSIGN_OR_RETURN(SafetensorsTensor tensor, TensorOf(name, value, range_of));
      tensor.name = name.substr(wrapper.size());
      header.tensors.push_back(std::move(tensor));
    }
    std::stable_sort(header.tensors.begin(), header.tensors.end(),
                     [](const SafetensorsTensor& a, const SafetensorsTensor& b) {
                       return a.offset_bytes < b.offset_bytes;
                     });
    return header;
  }

 private:
  const PickleValue& At(uint32_t value) const { return pickle_.at(value); }

  // Bytes of one element; storages without a dtype count bytes.
  static uint64_t BytesOf(absl::string_view dtype) {
    return dtype.empty() ? 1 : static_cast<uint64_t>(SafetensorsDtypeBits(dtype)) / 8;
  }

  absl::Status Unread(absl::string_view what) const {
    return absl::InvalidArgumentError(
        absl::StrCat(path_, " cannot be read: ", what,
                     ". State dicts of plain tensors are read. If you trust the file, make it one "
                     "with: ",
                     PlainCommand(path_)));
  }

  // Describes a value, for messages.
  std::string What(uint32_t value) const {
    const PickleValue& it = At(value);
    switch (it.kind) {
      case Kind::kNone:
        return "None";
      case Kind::kNumber:
        return absl::StrCat("the number ", it.number);
      case Kind::kText:
        return "a text";
      case Kind::kName:
        return absl::StrCat("the class ", it.text);
      case Kind::kSequence:
        return "a list or tuple";
      case Kind::kDict:
        return "a dict";
      case Kind::kCall:
        return absl::StrCat("an object that ", At(it.items[0]).text, " makes");
      case Kind::kPersistent:
        return "a storage";
      case Kind::kOther:
        break;
    }
    return "bytes or a number";
  }

  // The call that makes a tensor, without the call that makes it a parameter; nullopt: no tensor.
  std::optional<uint32_t> TensorCall(uint32_t value) const {
    for (int depth = 0; depth < kMostNesting && At(value).kind == Kind::kCall; ++depth) {
      const std::string& name = At(At(value).items[0]).text;
      if (absl::StartsWith(name, "torch._utils._rebuild_tensor")) return value;
      const std::vector<uint32_t>& arguments = At(At(value).items[1]).items;
      if (!absl::StartsWith(name, "torch._utils._rebuild_parameter") || arguments.empty()) break;
      value = arguments[0];
    }
    return std::nullopt;
  }

  bool HasTensors(uint32_t dict) const {
    const std::vector<uint32_t>& items = At(dict).items;
    for (size_t i = 1; i < items.size(); i += 2) {
      if (TensorCall(items[i])) return true;
    }
    return false;
  }

  absl::StatusOr<uint32_t> FindDict(uint32_t root) const {
    for (int depth = 0; depth < kMostNesting; ++depth) {
      if (At(root).kind != Kind::kDict) {
        return Unread(absl::StrCat("it holds ", What(root), ", and no state dict"));
      }
      if (HasTensors(root)) return root;
      const std::optional<uint32_t> inner = InnerDict(root);
      if (!inner) break;
      root = *inner;
    }
    const std::vector<uint32_t>& items = At(root).items;
    if (items.size() < 2 || At(items[0]).kind != Kind::kText)
      return Unread("its dict has no tensors");
    return Unread(
        absl::StrCat("its dict has no tensors: '", At(items[0]).text, "' is ", What(items[1])));
  }

  // The dict in `dict` under one of the names of a state dict.
  std::optional<uint32_t> InnerDict(uint32_t dict) const {
    const std::vector<uint32_t>& items = At(dict).items;
    for (const absl::string_view name : {"state_dict", "model_state_dict", "model", "module"}) {
      for (size_t i = 0; i + 1 < items.size(); i += 2) {
        const bool named = At(items[i]).kind == Kind::kText && At(items[i]).text == name;
        if (named && At(items[i + 1]).kind == Kind::kDict) return items[i + 1];
      }
    }
    return std::nullopt;
  }

  // The prefix that DistributedDataParallel or torch.compile puts before every name.
  static std::string WrapperOf(const std::map<std::string, uint32_t>& by_name) {
    std::string wrapper;
    for (bool more = true; more;) {
      more = false;
      for (const absl::string_view part : {"module.", "_orig_mod."}) {
        const std::string longer = absl::StrCat(wrapper, part);
        const bool all = std::all_of(by_name.begin(), by_name.end(), [&](const auto& item) {
          return absl::StartsWith(item.first, longer) && item.first.size() > longer.size();
        });
        if (!all || by_name.empty()) continue;
        wrapper = longer;
        more = true;
      }
    }
    return wrapper;
  }

  std::optional<uint64_t> Count(uint32_t value) const {
    const PickleValue& it = At(value);
    if (it.kind != Kind::kNumber || it.number < 0) return std::nullopt;
    return static_cast<uint64_t>(it.number);
  }

  std::optional<std::vector<uint64_t>> Counts(uint32_t value) const {
    const PickleValue& it = At(value);
    if (it.kind == Kind::kCall && At(it.items[0]).text == "torch.Size") {
      const std::vector<uint32_t>& arguments = At(it.items[1]).items;
      return arguments.size() == 1 && At(arguments[0]).kind == Kind::kSequence
                 ? Counts(arguments[0])
                 : std::nullopt;
    }
    if (it.kind != Kind::kSequence || it.items.size() > kMostTorchDimensions) return std::nullopt;
    std::vector<uint64_t> counts;
    for (const uint32_t item : it.items) {
      const auto count = Count(item);
      if (!count) return std::nullopt;
      counts.push_back(*count);
    }
    return counts;
  }

  // Parses ("storage", type, key, location, elements, view).
  std::optional<Storage> StorageOf(uint32_t value) const {
    if (At(value).kind != Kind::kPersistent) return std::nullopt;
    const std::vector<uint32_t>& id = At(At(value).items[0]).items;
    if (id.size() < 5 || At(id[0]).text != "storage" || At(id[1]).kind != Kind::kName ||
        At(id[2]).kind != Kind::kText) {
      return std::nullopt;
    }
    Storage storage;
    const std::string& type = At(id[1]).text;
    storage.dtype = DTypeOf(type);
    if (storage.dtype.empty() && !absl::EndsWith(type, "UntypedStorage")) return std::nullopt;
    storage.key = At(id[2]).text;
    const auto elements = Count(id[4]);
    if (!elements) return std::nullopt;
    storage.elements = *elements;
    if (id.size() > 5 && At(id[5]).kind == Kind::kSequence) {  // (key, first, elements)
      const auto view = At(id[5]).items.size() == 3 ? Count(At(id[5]).items[1]) : std::nullopt;
      if (!view) return std::nullopt;
      storage.first = *view;
    }
    return storage;
  }

  static bool IsContiguous(const std::vector<uint64_t>& shape,
                           const std::vector<uint64_t>& strides) {
    uint64_t expected = 1;
    for (size_t i = shape.size(); i-- > 0;) {
      if (shape[i] != 1 && strides[i] != expected) return false;
      expected *= shape[i];
    }
    return true;
  }

  // The number of elements; nullopt where it overflows.
  static std::optional<uint64_t> ElementsOf(const std::vector<uint64_t>& shape) {
    uint64_t elements = 1;
    for (const uint64_t size : shape) {
      if (__builtin_mul_overflow(elements, size, &elements)) return std::nullopt;
    }
    return elements;
  }

  template <typename RangeOf>
  absl::StatusOr<SafetensorsTensor> TensorOf(const std::string& name, uint32_t value,
                                             const RangeOf& range_of) const {
    const std::optional<uint32_t> call = TensorCall(value);
    if (!call) return Unread(absl::StrCat("'", name, "' is ", What(value), ", and no tensor"));
    const std::string& function = At(At(*call).items[0]).text;
    const std::vector<uint32_t>& arguments = At(At(*call).items[1]).items;
    const bool plain = function == "torch._utils._rebuild_tensor" ||
                       function == "torch._utils._rebuild_tensor_v2" ||
                       function == "torch._utils._rebuild_tensor_v3";
    if (!plain) {
      return Unread(absl::StrCat("'", name, "' is a tensor of a kind of its own (", function, ")"));
    }
    const auto odd = [&](absl::string_view rule) {
      return WrongBytesError(absl::StrCat("tensor '", name, "': ", rule));
    };
    if (arguments.size() < 4) return odd("its description is too short");
    const auto storage = StorageOf(arguments[0]);
    if (!storage) return odd("its storage is described in a way that is unknown");
    const auto first = Count(arguments[1]);
    const auto shape = Counts(arguments[2]), strides = Counts(arguments[3]);
    if (!first || !shape || !strides || shape->size() != strides->size()) {
      return odd("its shape or strides are not numbers");
    }
    SafetensorsTensor tensor;
    const bool typed = absl::EndsWith(function, "_v3") && arguments.size() > 6;
    const absl::string_view dtype = typed && At(arguments[6]).kind == Kind::kName
                                        ? DTypeOf(At(arguments[6]).text)
                                        : storage->dtype;
    if (dtype.empty()) return odd("its dtype is unknown");
    tensor.dtype = std::string(dtype);
    tensor.shape = *shape;
    const auto elements = ElementsOf(*shape);
    const uint64_t bytes = BytesOf(dtype);
    if (!elements || *elements > UINT64_MAX / 16) return odd("its shape overflows");
    tensor.elements = *elements;
    tensor.size_bytes = tensor.elements * bytes;
    ASSIGN_OR_RETURN(const Range data, range_of(storage->key));
    // The offset counts elements of the tensor's own dtype.
    uint64_t begin = 0;
    if (__builtin_add_overflow(*first, storage->first, &begin) ||
        __builtin_mul_overflow(begin, bytes, &begin) || begin > data.size ||
        tensor.size_bytes > data.size - begin) {
      return odd("it reaches beyond its storage");
    }
    tensor.offset_bytes = data.begin + begin;
    if (tensor.elements > 1 && !IsContiguous(*shape, *strides)) {
      return Unread(
          absl::StrCat("tensor '", name, "' is a view whose rows do not lie one behind the other"));
    }
    return tensor;
  }

  const PickleReader& pickle_;
  const std::string& path_;
};

absl::StatusOr<SafetensorsHeader> ReadZip(int fd, const std::string& path, uint64_t file_bytes) {
  ASSIGN_OR_RETURN(const auto records, TorchArchive::Records(fd, path, file_bytes));
  // All records are in one folder, named like the file when it was written.
  std::string folder;
  for (const auto& [name, range] : records) {
    if (absl::EndsWith(name, "/data.pkl")) folder = name.substr(0, name.size() - 8);
  }
  if (folder.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " is a zip archive, and none that torch.save wrote: unpack it"));
  }
  if (records.contains(folder + "constants.pkl")) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, " is a TorchScript program, not a state dict. If you trust it, convert it with: ",
        ShellLine({"python3", "-c",
                   "import sys, torch; torch.save(torch.jit.load(sys.argv[1], "
                   "map_location='cpu').state_dict(), sys.argv[1])",
                   path})));
  }
  if (const auto order = records.find(folder + "byteorder"); order != records.end()) {
    std::string said(std::min<uint64_t>(order->second.size, 16), '\0');
    RETURN_IF_ERROR(ReadAt(fd, path, order->second.begin, said.data(), said.size()));
    if (said != "little") {
      return absl::InvalidArgumentError(absl::StrCat(
          path,
          " was written on a machine whose numbers begin with the high byte: convert it "
          "there (safetensors are the same everywhere)"));
    }
  }
  FileRange source(fd, path, records.at(folder + "data.pkl"));
  PickleReader pickle(&source);
  ASSIGN_OR_RETURN(const uint32_t root, pickle.Read());
  return StateDict(pickle, path)
      .Tensors(root, [&](const std::string& key) -> absl::StatusOr<Range> {
        const auto found = records.find(absl::StrCat(folder, "data/", key));
        if (found != records.end()) return found->second;
        return WrongBytesError(absl::StrCat("its archive has no data/", key));
      });
}

// The format before PyTorch 1.6: pickles of the magic number, the version, the machine and the
// value; one that lists the storages' keys; then for each storage the number of elements and the
// elements.
absl::StatusOr<SafetensorsHeader> ReadLegacy(int fd, const std::string& path, uint64_t file_bytes) {
  FileRange source(fd, path, {0, file_bytes});
  PickleReader pickle(&source);
  for (int i = 0; i < 2; ++i) RETURN_IF_ERROR(pickle.Read().status());
  ASSIGN_OR_RETURN(const uint32_t machine, pickle.Read());
  const std::vector<uint32_t>& said = pickle.at(machine).items;
  for (size_t i = 0; i + 1 < said.size(); i += 2) {
    if (pickle.at(said[i]).text == "little_endian" && pickle.at(said[i + 1]).number == 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          path,
          " was written on a machine whose numbers begin with the high byte: convert it "
          "there (safetensors are the same everywhere)"));
    }
  }
  ASSIGN_OR_RETURN(const uint32_t root, pickle.Read());
  ASSIGN_OR_RETURN(const uint32_t keys, pickle.Read());
  const StateDict dict(pickle, path);
  const std::map<std::string, uint64_t> element_bytes = dict.ElementBytes();
  std::map<std::string, Range> storages;
  uint64_t at = source.at();
  for (const uint32_t key : pickle.at(keys).items) {
    const std::string& name = pickle.at(key).text;
    const auto width = element_bytes.find(name);
    uint64_t count = 0, bytes = 0;
    if (width == element_bytes.end() || file_bytes - at < sizeof(count)) {
      return WrongBytesError(absl::StrCat("storage ", name, " is missing"));
    }
    RETURN_IF_ERROR(ReadAt(fd, path, at, &count, sizeof(count)));
    at += sizeof(count);
    if (__builtin_mul_overflow(count, width->second, &bytes) || bytes > file_bytes - at) {
      return WrongBytesError(absl::StrCat("it is cut short: storage ", name, " of ", count,
                                          " elements begins at byte ", at));
    }
    storages[name] = {at, bytes};
    at += bytes;
  }
  return dict.Tensors(root, [&](const std::string& key) -> absl::StatusOr<Range> {
    const auto found = storages.find(key);
    if (found != storages.end()) return found->second;
    return WrongBytesError(absl::StrCat("it has no storage ", key));
  });
}

}  // namespace

bool BeginsAsTorchFile(absl::string_view begin) {
  if (absl::StartsWith(begin, kZipBegin)) return true;
  return begin.size() >= 8 && begin[0] == '\x80' && begin.substr(2, 6) == kLegacyMagic;
}

absl::StatusOr<SafetensorsHeader> ReadTorchFileHeader(int fd, const std::string& path,
                                                      uint64_t file_size_bytes) {
  std::array<char, 8> begin = {};
  RETURN_IF_ERROR(ReadAt(fd, path, 0, begin.data(), std::min<uint64_t>(8, file_size_bytes)));
  const bool zip = absl::StartsWith(absl::string_view(begin.data(), begin.size()), kZipBegin);
  auto header = zip ? ReadZip(fd, path, file_size_bytes) : ReadLegacy(fd, path, file_size_bytes);
  if (!absl::IsDataLoss(header.status())) return header;
  return WrongBytesError(
      absl::StrCat(path, " is not a valid file of torch.save: ", header.status().message()));
}

}  // namespace spillway
