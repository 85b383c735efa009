#include "engine/weights/torch_file.h"

#include <cstring>

#include "engine/weights/pickle.h"
#include "engine/weights/safetensors.h"
#include "io/file.h"
#include "io/file_system.h"
#include "nlohmann/json.hpp"
#include "tests/engine/format_testing.h"

namespace spillway {
namespace {

using absl::StatusCode;

// tests/golden/make_torch_files.py wrote what is there.
const std::string& Golden() {
  static const auto& folder = *new std::string(SPILLWAY_SOURCE_DIR "/tests/golden/torch_files");
  return folder;
}

nlohmann::json Expected() {
  return nlohmann::json::parse(*ReadSmallFile(Golden() + ".json", 1 << 20));
}

std::string Content(const std::string& name) {
  return *ReadSmallFile(Golden() + "/" + name, 1 << 20);
}

// Opens a file that begins as one of torch.save and has this content.
absl::Status OpenTorchBytes(const std::string& bytes) {
  const ScratchDirectory scratch;
  WriteFile(scratch / "m.bin", bytes);
  return SafetensorsFile::Open(scratch / "m.bin").status();
}

TEST(TorchFile, ReadsWhatPythonWrote) {
  const nlohmann::json all = Expected();
  for (const auto& [name, tensors] : all.items()) {
    SCOPED_TRACE(name);
    const auto file = SafetensorsFile::Open(Golden() + "/" + name);
    if (tensors.is_null()) {
      ExpectError(file.status(), StatusCode::kInvalidArgument, {name, "python3 -c", "sys.argv[1]"});
      continue;
    }
    ASSERT_TRUE(file.ok()) << file.status();
    EXPECT_EQ((*file)->tensors().size(), tensors.size());
    for (const auto& [tensor, value] : tensors.items()) {
      SCOPED_TRACE(tensor);
      const SafetensorsTensor* const found = (*file)->Find(tensor);
      ASSERT_NE(found, nullptr);
      EXPECT_EQ(found->shape, value["shape"].get<std::vector<uint64_t>>());
      const auto expected = value["values"].get<std::vector<float>>();
      ASSERT_EQ(found->elements, expected.size());
      if (found->dtype == "BOOL") continue;
      std::vector<float> read(expected.size());
      ASSERT_TRUE((*file)->ReadFp32(tensor, 0, read.size(), read.data()).ok());
      EXPECT_EQ(read, expected);
    }
  }
}

TEST(TorchFile, TiedTensorsAndPiecesOfOneStorageLieInOnePlace) {
  for (const char* name : {"zip.bin", "legacy.bin", "protocol4.pt"}) {
    const auto file = *SafetensorsFile::Open(Golden() + "/" + name);
    const auto offset = [&](const char* tensor) { return file->Find(tensor)->offset_bytes; };
    EXPECT_EQ(offset("table"), offset("tied")) << name;
    EXPECT_EQ(offset("table") + 16, offset("rows")) << name;
    EXPECT_TRUE(file->Fingerprint().ok());
    EXPECT_TRUE(file->metadata().empty());
  }
}

TEST(TorchFile, SaysWhatItDoesNotRead) {
  const struct {
    const char* name;
    const char* what;
  } cases[] = {
      {"strided.pt", "tensor 'a' is a view whose rows"},
      {"sparse.pt", "'a' is an object that torch._utils._rebuild_sparse_tensor makes"},
      {"number.pt", "'b' is the number 3"},
      {"tensor.pt", "an object that torch._utils._rebuild_tensor_v2 makes, and no state dict"},
      {"quantised.pt", "'a' is an object that torch._utils._rebuild_qtensor makes"},
      {"module.pt", "Net"},
      {"script.pt", "TorchScript"},
  };
  for (const auto& c : cases) {
    ExpectError(SafetensorsFile::Open(Golden() + "/" + c.name).status(),
                StatusCode::kInvalidArgument, {c.name, c.what});
  }
}

TEST(TorchFile, NothingOfAPickleIsRun) {
  // os.system('touch FILE'), as a call in place of a tensor: what Python's pickle would run.
  const ScratchDirectory scratch;
  std::string pickle = std::string(
      "\x80\x02}q\x00X\x01\x00\x00\x00"
      "acos\nsystem\nX",
      23);
  const std::string command = "touch " + (scratch / "ran");
  pickle += std::string({static_cast<char>(command.size()), 0, 0, 0}) + command + "\x85Rs.";
  const std::string file = Content("legacy.bin");
  const size_t state = file.find("collections\nOrderedDict") - 3;
  const std::string no_storages = "\x80\x02].";
  ExpectError(OpenTorchBytes(file.substr(0, state) + pickle + no_storages),
              StatusCode::kInvalidArgument,
              {"its dict has no tensors: 'a' is an object that os.system makes"});
  EXPECT_FALSE(Exists(scratch / "ran"));
}

TEST(TorchFile, RefusesWhatIsCutOrMoved) {
  for (const char* name : {"zip.bin", "legacy.bin"}) {
    SCOPED_TRACE(name);
    const std::string whole = Content(name);
    for (size_t size : {size_t{9}, whole.size() / 2, whole.size() - 1}) {
      const absl::Status cut = OpenTorchBytes(whole.substr(0, size));
      ExpectError(cut, StatusCode::kDataLoss, {"m.bin is not a valid file of torch.save"});
    }
  }
}

// A tensor's storage, shape, strides and the like are only numbers in the pickle.
TEST(TorchFile, RefusesTensorsBeyondTheirStorage) {
  const std::string whole = Content("zip.bin");
  // BININT1 12 is the number of elements of `table`'s storage; its shape (3, 4) is K3 K4 TUPLE2.
  const size_t shape = whole.find("K\x03K\x04\x86");
  ASSERT_NE(shape, std::string::npos);
  for (const char rows : {'\x05', '\x40', '\xff'}) {
    std::string changed = whole;
    changed[shape + 1] = rows;
    ExpectError(OpenTorchBytes(changed), StatusCode::kDataLoss, {"beyond its storage"});
  }
}

class TextSource final : public ByteSource {
 public:
  explicit TextSource(std::string text) : text_(std::move(text)) {}
  absl::Status Read(uint64_t count, char* out) override {
    if (count > text_.size() - at_) return absl::DataLossError("it is cut short");
    std::memcpy(out, text_.data() + at_, count);
    at_ += count;
    return absl::OkStatus();
  }

 private:
  const std::string text_;
  size_t at_ = 0;
};

absl::Status ReadPickle(const std::string& text) {
  TextSource source(text);
  return PickleReader(&source).Read().status();
}

TEST(Pickle, RefusesWhatBreaksItsStackMachine) {
  const struct {
    std::string text;
    const char* rule;
  } cases[] = {
      {"", "cut short"},
      {".", "one value"},
      {"NN.", "one value"},
      {"(N.", "one value"},
      {"0.", "stack is empty"},
      {"N(0.", "stack is empty"},
      {"t.", "a mark is missing"},
      {"(Nd.", "a key without a value"},
      {"}(Nu.", "a key without a value"},
      {"h\x05.", "slot 5 of its memo is empty"},
      {std::string("Nr\xff\xff\xff\x7f.", 7), "of its memo"},
      {"\x80\x09N.", "protocol 9"},
      {"P1\n.", "operation 0x50"},
      {"NR.", "stack is empty"},
      {"X\xff\xff\xff\x7f.", "a text of 2147483647 bytes"},
      {std::string("\x8e\0\0\0\0\0\0\0\x80.", 10), "a text of"},
      {"NN\x93.", "a class whose name is no text"},
      {"c" + std::string(5000, 'a'), "a line of more than"},
      {"gx\n.", "no number"},
  };
  for (const auto& c : cases) ExpectError(ReadPickle(c.text), StatusCode::kDataLoss, {c.rule});
}

TEST(Pickle, ReadsNumbersOfEveryWidth) {
  const struct {
    std::string text;
    int64_t number;
  } cases[] = {
      {"K\xff.", 255},
      {"M\x01\x02.", 513},
      {"J\xff\xff\xff\xff.", -1},
      {std::string("\x8a\x00.", 3), 0},
      {"\x8a\x01\xff.", -1},
      {std::string("\x8a\x05\0\0\0\0\x01.", 8), int64_t{1} << 32},
      {"\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f.", INT64_MAX},
      {"I-12\n.", -12},
      {"L7L\n.", 7},
      {"\x88.", 1},
  };
  for (const auto& c : cases) {
    TextSource source(c.text);
    PickleReader reader(&source);
    const auto value = reader.Read();
    ASSERT_TRUE(value.ok()) << value.status();
    EXPECT_EQ(reader.at(*value).number, c.number);
  }
}

TEST(Pickle, BoundsItsMemory) {
  // A list that holds itself is no loop for the reader, and deep nesting is no depth.
  EXPECT_TRUE(ReadPickle("]q\x01h\x01"
                         "a.")
                  .ok());
  EXPECT_TRUE(ReadPickle(std::string(100'000, '(') + "N" + std::string(100'000, 't') + ".").ok());
  ExpectError(ReadPickle(std::string(PickleReader::kMostValues + 1, 'N')), StatusCode::kDataLoss,
              {"more than 2000000 values"});
  ExpectError(ReadPickle("N" + std::string(PickleReader::kMostValues + 1, '2')),
              StatusCode::kDataLoss, {"too deep"});
}

}  // namespace
}  // namespace spillway
