#include "engine/weights/safetensors.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>

#include "engine/weights/safetensors_model.h"
#include "tests/engine/format_testing.h"
#include "tests/engine/weights/safetensors_testing.h"

namespace spillway {
namespace {

using absl::StatusCode;

absl::Status OpenBytes(const std::string& bytes) {
  const ScratchDirectory scratch;
  WriteFile(scratch / "m.safetensors", bytes);
  return SafetensorsFile::Open(scratch / "m.safetensors").status();
}

TEST(SafetensorsFile, AcceptsWhatTheFormatAllows) {
  const struct {
    const char* what;
    std::string bytes;
  } cases[] = {
      {"no tensors", SafetensorsBytes("{}", "")},
      {"padding spaces", SafetensorsBytes("{}      ", "")},
      {"metadata", SafetensorsBytes("{\"__metadata__\":{\"format\":\"pt\"}}", "")},
      {"a scalar", SafetensorsBytes("{" + Entry("s", "F32", "[]", 0, 4) + "}", "abcd")},
      {"an empty tensor", SafetensorsBytes("{" + Entry("e", "F32", "[0,5]", 0, 0) + "}", "")},
      {"empty ones between others",
       SafetensorsBytes("{" + Entry("a", "U8", "[2]", 0, 2) + "," + Entry("e", "I64", "[0]", 2, 2) +
                            "," + Entry("b", "U8", "[1]", 2, 3) + "}",
                        "xyz")},
      {"any order of names", SafetensorsBytes("{" + Entry("b", "U8", "[1]", 2, 3) + "," +
                                                  Entry("a", "BF16", "[1]", 0, 2) + "}",
                                              "xyz")},
      {"half-byte numbers", SafetensorsBytes("{" + Entry("f", "F4", "[3,2]", 0, 3) + "}", "xyz")},
      {"names in UTF-8", SafetensorsBytes("{" + Entry("\u00e9", "U8", "[1]", 0, 1) + "}", "x")},
  };
  for (const auto& c : cases) EXPECT_TRUE(OpenBytes(c.bytes).ok()) << c.what << OpenBytes(c.bytes);
}

TEST(SafetensorsFile, RefusesEveryBrokenRule) {
  const std::string good = SafetensorsBytes("{" + Entry("a", "F32", "[2]", 0, 8) + "}", "12345678");
  ASSERT_TRUE(OpenBytes(good).ok());
  const auto with = [](const std::string& entries, const std::string& data) {
    return SafetensorsBytes("{" + entries + "}", data);
  };
  const auto length = [&](uint64_t n) {
    std::string bytes = good;
    std::memcpy(bytes.data(), &n, 8);
    return bytes;
  };
  const std::string max = "18446744073709551615";
  std::string many = "1";
  for (int i = 0; i < 64; ++i) many += ",1";
  const struct {
    std::string bytes;
    const char* rule;
  } cases[] = {
      {"", "shorter than the 8 bytes"},
      {"1234567", "shorter than the 8 bytes"},
      {length(100'000'001), "at most 100000000"},
      {length(UINT64_MAX), "at most 100000000"},
      {length(UINT64_MAX - 7), "at most 100000000"},
      {length(good.size() - 7), "cut short"},
      {"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n", "git lfs pull"},
      {length(0), "does not begin with '{'"},
      {SafetensorsBytes(" {}", ""), "does not begin with '{'"},
      {SafetensorsBytes("[]", ""), "does not begin with '{'"},
      {SafetensorsBytes("{}\n", ""), "does not end with"},
      {SafetensorsBytes(std::string("{}\0", 3), ""), "does not end with"},
      {SafetensorsBytes("{} {}", ""), "not valid UTF-8 JSON"},
      {SafetensorsBytes("{\"a\":}", ""), "not valid UTF-8 JSON"},
      {with(Entry("\xff", "U8", "[1]", 0, 1), "x"), "not valid UTF-8 JSON"},
      {with(Entry("\xc0\xaf", "U8", "[1]", 0, 1), "x"), "not valid UTF-8 JSON"},
      {with("\"__metadata__\":{\"a\":1}", ""), "metadata value of 'a' is not a string"},
      {with("\"__metadata__\":{\"a\":{}}", ""), "metadata value of 'a' is not a string"},
      {with("\"__metadata__\":{\"a\":\"x\",\"a\":\"y\"}", ""), "'a' appears twice"},
      {with("\"__metadata__\":[]", ""), "an array where none belongs"},
      {with("\"__metadata__\":{},\"__metadata__\":{}", ""), "appears twice"},
      {with(Entry("a", "U8", "[1]", 0, 1) + "," + Entry("a", "U8", "[1]", 1, 2), "xy"),
       "tensor 'a': the name appears twice"},
      {with("\"a\":1", ""), "a number where none belongs"},
      {with("\"a\":null", ""), "null where none belongs"},
      {with("\"a\":{\"dtype\":\"U8\",\"shape\":[1]}", "x"), "lacks dtype, shape or data_offsets"},
      {with("\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\"}", "x"), "'dtype' appears twice"},
      {with("\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0]}", "x"), "two numbers"},
      {with("\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1,1]}", "x"), "two numbers"},
      {with("\"a\":{\"dtype\":\"U8\",\"shape\":[[1]],\"data_offsets\":[0,1]}", "x"), "an array"},
      {with("\"a\":{\"dtype\":\"U8\",\"shape\":{},\"data_offsets\":[0,1]}", "x"), "an object"},
      {with("\"a\":{\"dtype\":1,\"shape\":[1],\"data_offsets\":[0,1]}", "x"), "a number"},
      {with("\"a\":{\"strides\":[1]}", "x"), "unknown key 'strides'"},
      {with(Entry("a", "U8", "[-1]", 0, 1), "x"), "a negative number"},
      {with(Entry("a", "U8", "[1.0]", 0, 1), "x"), "not a whole number"},
      {with(Entry("a", "U8", "[18446744073709551616]", 0, 1), "x"), "not a whole number"},
      {with(Entry("a", "U8", "[" + many + "]", 0, 1), "x"), "more than 64 numbers"},
      {with(Entry("a", "F128", "[1]", 0, 16), "1234567890123456"), "unknown dtype 'F128'"},
      {with(Entry("a", "f32", "[1]", 0, 4), "1234"), "unknown dtype 'f32'"},
      {with(Entry("a", "F4", "[3]", 0, 2), "xy"), "not a whole number of bytes"},
      {with(Entry("a", "U8", "[" + max + ",2]", 0, 1), "x"), "shape overflows"},
      {with(Entry("a", "F64", "[" + max + "]", 0, 1), "x"), "its size overflows"},
      {with(Entry("a", "U8", "[1]", 1, 0), "x"), "before it begins"},
      {with(Entry("a", "F32", "[2]", 0, 7), "1234567"), "make 8 bytes, its data_offsets 7"},
      {with(Entry("a", "F32", "[4294967296,4294967296]", 0, 0), ""), "overflows"},
      {with(Entry("a", "U8", "[1]", UINT64_MAX - 1, UINT64_MAX), "x"), "overflows"},
      {with(Entry("a", "U8", "[" + max + "]", 0, UINT64_MAX), "x"), "overflows"},
      {with(Entry("a", "U8", "[1]", 1, 2), "xy"), "a hole after"},
      {with(Entry("a", "U8", "[1]", 0, 1) + "," + Entry("b", "U8", "[1]", 2, 3), "xyz"),
       "a hole after"},
      {with(Entry("a", "U8", "[2]", 0, 2) + "," + Entry("b", "U8", "[2]", 1, 3), "xyz"),
       "overlap with"},
      {with(Entry("a", "U8", "[2]", 0, 2) + "," + Entry("b", "U8", "[2]", 0, 2), "xy"),
       "overlap with"},
      {good.substr(0, good.size() - 1), "cut short"},
      {good + "x", "describes a file of"},
      {SafetensorsBytes(std::string(100000, '{'), ""), "does not end with"},
      {SafetensorsBytes("{\"a\":" + std::string(100000, '[') + "}", ""), "an array"},
      {SafetensorsBytes("{\"a\":{\"shape\":" + std::string(100000, '[') + "}", ""), "an array"},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.rule);
    ExpectError(OpenBytes(c.bytes), StatusCode::kDataLoss, {"m.safetensors", c.rule});
  }
}

TEST(SafetensorsFile, RefusesWhatIsNotAFile) {
  const ScratchDirectory scratch;
  EXPECT_EQ(SafetensorsFile::Open(scratch / "none").status().code(), StatusCode::kNotFound);
  ASSERT_EQ(mkfifo((scratch / "pipe").c_str(), 0600), 0);
  ExpectError(SafetensorsFile::Open(scratch / "pipe").status(), StatusCode::kInvalidArgument,
              {"not a plain file"});
  EXPECT_FALSE(SafetensorsFile::Open(testing::TempDir()).ok());
}

TEST(SafetensorsFile, ReadsPiecesOfEveryFloatExactly) {
  const float values[6] = {1.5f, -2.0f, 0x1p-24f, 65504.0f, 0.0f, -0.0f};
  std::string data(reinterpret_cast<const char*>(values), sizeof(values));
  for (const float value : values) {
    const uint16_t half = Float16FromFloat(value);
    data.append(reinterpret_cast<const char*>(&half), 2);
  }
  for (const float value : values) {
    const uint16_t bits = BFloat16FromFloat(value);
    data.append(reinterpret_cast<const char*>(&bits), 2);
  }
  data += std::string(8, '\1');
  const ScratchDirectory scratch;
  const std::string path = scratch / "m.safetensors";
  WriteFile(path, SafetensorsBytes("{" + Entry("f", "F32", "[2,3]", 0, 24) + "," +
                                       Entry("h", "F16", "[6]", 24, 36) + "," +
                                       Entry("b", "BF16", "[6]", 36, 48) + "," +
                                       Entry("i", "I32", "[2]", 48, 56) + "}",
                                   data));
  const auto file = SafetensorsFile::Open(path);
  ASSERT_TRUE(file.ok()) << file.status();
  for (const char* name : {"f", "h"}) {
    for (uint64_t first = 0; first < 6; ++first) {
      float out[6] = {};
      ASSERT_TRUE((*file)->ReadFp32(name, first, 6 - first, out).ok());
      for (uint64_t i = first; i < 6; ++i) {
        EXPECT_EQ(std::signbit(out[i - first]), std::signbit(values[i]));
        EXPECT_EQ(out[i - first], values[i]) << name << i;
      }
    }
  }
  float out[6] = {};
  ASSERT_TRUE((*file)->ReadFp32("b", 0, 6, out).ok());
  EXPECT_EQ(out[3], 65536.0f) << "65504 rounded to bf16";

  ExpectError((*file)->ReadFp32("i", 0, 1, out), StatusCode::kInvalidArgument, {"'i' is I32"});
  ExpectError((*file)->ReadFp32("f", 5, 2, out), StatusCode::kOutOfRange, {"'f', which has 6"});
  ExpectError((*file)->ReadFp32("f", UINT64_MAX, 2, out), StatusCode::kOutOfRange, {"'f'"});
  ExpectError((*file)->ReadFp32("x", 0, 1, out), StatusCode::kNotFound, {"'x'"});

  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 20);
  ExpectError((*file)->ReadFp32("b", 0, 6, out), StatusCode::kDataLoss, {"become shorter"});
}

TEST(SafetensorsFile, FingerprintFollowsNamesAndValues) {
  const ScratchDirectory scratch;
  const auto fingerprint = [&](const std::string& name, const std::string& data) {
    WriteFile(scratch / "m", SafetensorsBytes("{" + Entry(name, "F32", "[2]", 0, 8) + "}", data));
    return *(*SafetensorsFile::Open(scratch / "m"))->Fingerprint();
  };
  EXPECT_EQ(fingerprint("a", "12345678"), fingerprint("a", "12345678"));
  EXPECT_NE(fingerprint("a", "12345678"), fingerprint("b", "12345678"));
  EXPECT_NE(fingerprint("a", "12345678"), fingerprint("a", "12345679"));
}

// tests/golden/make_safetensors.py wrote it with Python's safetensors.
TEST(SafetensorsFile, ReadsWhatPythonWrote) {
  const std::string path = SPILLWAY_SOURCE_DIR "/tests/golden/safetensors/python.safetensors";
  const auto file = SafetensorsFile::Open(path);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ((*file)->metadata().at("format"), "pt");
  ASSERT_EQ((*file)->tensors().size(), 5u);
  EXPECT_EQ((*file)->Find("matrix")->shape, (std::vector<uint64_t>{2, 3}));
  EXPECT_EQ((*file)->Find("half")->dtype, "F16");
  EXPECT_EQ((*file)->Find("scalar")->shape, std::vector<uint64_t>{});
  EXPECT_EQ((*file)->Find("empty")->elements, 0u);
  float out[6] = {};
  ASSERT_TRUE((*file)->ReadFp32("matrix", 0, 6, out).ok());
  EXPECT_THAT(out, testing::ElementsAre(0, 0.25f, 0.5f, 0.75f, 1, 1.25f));
  ASSERT_TRUE((*file)->ReadFp32("half", 1, 2, out).ok());
  EXPECT_EQ(out[0], -2.0f);
  EXPECT_EQ(out[1], 0x1p-24f);
  ASSERT_TRUE((*file)->ReadFp32("scalar", 0, 1, out).ok());
  EXPECT_EQ(out[0], 42.0f);
}

class SafetensorsModelTest : public testing::Test {
 protected:
  void Write(const std::string& name, const std::string& bytes) {
    WriteFile(scratch_ / name, bytes);
  }
  // One F32 scalar of this name.
  static std::string Shard(const std::string& name, float value) {
    return SafetensorsBytes("{" + Entry(name, "F32", "[]", 0, 4) + "}",
                            std::string(reinterpret_cast<const char*>(&value), 4));
  }
  absl::StatusOr<std::unique_ptr<SafetensorsModel>> Open() {
    return SafetensorsModel::Open(scratch_ / "");
  }
  void WriteIndex(const std::string& map) {
    Write("model.safetensors.index.json", "{\"metadata\":{},\"weight_map\":" + map + "}");
  }

  ScratchDirectory scratch_;
};

TEST_F(SafetensorsModelTest, ReadsOneFileThroughALink) {
  Write("blob", Shard("a", 3));
  ASSERT_EQ(symlink("blob", (scratch_ / "model.safetensors").c_str()), 0);
  const auto model = Open();
  ASSERT_TRUE(model.ok()) << model.status();
  float out = 0;
  ASSERT_TRUE((*model)->Read("a", 0, 1, &out).ok());
  EXPECT_EQ(out, 3);
}

TEST_F(SafetensorsModelTest, ReadsShards) {
  Write("1.safetensors", Shard("a", 1));
  Write("2.safetensors", Shard("b", 2));
  WriteIndex("{\"b\":\"2.safetensors\",\"a\":\"1.safetensors\"}");
  const auto model = Open();
  ASSERT_TRUE(model.ok()) << model.status();
  ASSERT_EQ((*model)->tensors().size(), 2u);
  EXPECT_EQ((*model)->tensors()[0]->name, "a");
  float out = 0;
  ASSERT_TRUE((*model)->Read("b", 0, 1, &out).ok());
  EXPECT_EQ(out, 2);
  EXPECT_EQ((*model)->Read("c", 0, 1, &out).code(), StatusCode::kNotFound);
  EXPECT_EQ((*model)->Fingerprint()->size(), 16u);
}

TEST_F(SafetensorsModelTest, NotFoundMeansNoWeightsAtAll) {
  EXPECT_EQ(Open().status().code(), StatusCode::kNotFound);
  Write("model.gguf", "x");
  ExpectError(Open().status(), StatusCode::kInvalidArgument, {"model.gguf", "GGUF"});
}

TEST_F(SafetensorsModelTest, NamesTheMissingShard) {
  Write("1.safetensors", Shard("a", 1));
  WriteIndex("{\"b\":\"2.safetensors\",\"a\":\"1.safetensors\"}");
  ExpectError(Open().status(), StatusCode::kInvalidArgument, {"2.safetensors is missing"});
}

TEST_F(SafetensorsModelTest, NamesALinkThatLeadsNowhere) {
  ASSERT_EQ(symlink("gone", (scratch_ / "model.safetensors").c_str()), 0);
  ExpectError(Open().status(), StatusCode::kInvalidArgument, {"leads nowhere"});
}

TEST_F(SafetensorsModelTest, IndexAndShardsMustAgree) {
  Write("1.safetensors", Shard("a", 1));
  Write("2.safetensors", Shard("b", 2));
  const struct {
    const char* map;
    const char* why;
  } cases[] = {
      {"{\"a\":\"1.safetensors\",\"b\":\"2.safetensors\",\"c\":\"2.safetensors\"}",
       "'c' is missing"},
      {"{\"a\":\"2.safetensors\",\"b\":\"2.safetensors\"}", "'a' is missing"},
      {"{\"a\":\"1.safetensors\",\"b\":\"1.safetensors\"}", "'b' is missing"},
      {"{\"c\":\"2.safetensors\"}", "does not name it"},
      {"{\"a\":\"2.safetensors\",\"b\":\"1.safetensors\"}", "puts it into"},
      {"{\"a\":\"../1.safetensors\"}", "not a file's name"},
      {"{\"a\":\"/etc/passwd\"}", "not a file's name"},
      {"{\"a\":\"..\"}", "not a file's name"},
      {"{\"a\":\"\"}", "not a file's name"},
      {"{\"a\":\"1\\u0000.safetensors\"}", "not a file's name"},
      {"{\"a\":1}", "not a string"},
      {"{}", "names no tensors"},
      {"[]", "no \"weight_map\""},
      {"{\"a\":\"1.safetensors\",\"a\":\"2.safetensors\"}", "appears twice"},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.map);
    WriteIndex(c.map);
    ExpectError(Open().status(), StatusCode::kDataLoss, {c.why});
  }
}

}  // namespace
}  // namespace spillway
