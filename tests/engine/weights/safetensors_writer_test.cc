#include "engine/weights/safetensors_writer.h"

#include <dirent.h>
#include <sys/stat.h>

#include <cmath>
#include <set>

#include "engine/weights/safetensors.h"
#include "engine/weights/safetensors_model.h"
#include "engine/weights/safetensors_model_writer.h"
#include "tests/engine/format_testing.h"

namespace spillway {
namespace {

std::set<std::string> Names(const std::string& directory) {
  std::set<std::string> names;
  DIR* stream = opendir(directory.c_str());
  while (const dirent* entry = readdir(stream)) {
    if (entry->d_name[0] != '.') names.insert(entry->d_name);
  }
  closedir(stream);
  return names;
}

const std::vector<ExportTensor> kTensors = {{"w", DType::kFloat32, {2, 2}},
                                            {"none", DType::kFloat16, {0}},
                                            {"b\"\u00e9", DType::kBFloat16, {3}},
                                            {"h", DType::kFloat16, {}}};

TEST(SafetensorsWriter, WritesWhatTheReaderReads) {
  const ScratchDirectory scratch;
  const std::string path = scratch / "m.safetensors";
  auto writer = SafetensorsWriter::Create(path, kTensors, {{"made_by", "a test"}});
  ASSERT_TRUE(writer.ok()) << writer.status();
  const float w[] = {1, 2, 3, 4};
  const float b[] = {1.00390625f, -3.0f, 1e38f};
  const float h = 0.333333f;
  ASSERT_TRUE((*writer)->AppendFp32(w, 1).ok());
  ASSERT_TRUE((*writer)->AppendFp32(w + 1, 3).ok());
  ASSERT_TRUE((*writer)->AppendFp32(b, 3).ok());
  EXPECT_FALSE((*writer)->complete());
  ASSERT_TRUE((*writer)->AppendFp32(&h, 1).ok());
  EXPECT_TRUE((*writer)->complete());
  EXPECT_EQ(Names(scratch / "").count("m.safetensors"), 0u) << "before Finish";
  ASSERT_TRUE((*writer)->Finish().ok());
  EXPECT_EQ(Names(scratch / ""), std::set<std::string>{"m.safetensors"});

  const auto file = SafetensorsFile::Open(path);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ((*file)->metadata().at("format"), "pt");
  EXPECT_EQ((*file)->metadata().at("made_by"), "a test");
  EXPECT_EQ((*file)->tensors()[0].offset_bytes % 8, 0u);
  float out[4];
  ASSERT_TRUE((*file)->ReadFp32("w", 0, 4, out).ok());
  EXPECT_THAT(out, testing::ElementsAre(1, 2, 3, 4));
  ASSERT_TRUE((*file)->ReadFp32("b\"\u00e9", 0, 3, out).ok());
  EXPECT_EQ(out[0], 1.0f) << "the tie goes to even";
  ASSERT_TRUE((*file)->ReadFp32("h", 0, 1, out).ok());
  EXPECT_EQ(out[0], FloatFromFloat16(Float16FromFloat(h)));
}

TEST(SafetensorsWriter, WholeNumbersAreInt64) {
  const ScratchDirectory scratch;
  const std::string path = scratch / "m.safetensors";
  ExportTensor count{"count", DType::kBFloat16, {2}};
  count.whole = true;
  const std::vector<ExportTensor> tensors = {count, {"w", DType::kBFloat16, {1}}};
  const float counts[] = {257, -3}, w = 257;
  auto writer = *SafetensorsWriter::Create(path, tensors);
  ASSERT_TRUE(writer->AppendFp32(counts, 2).ok());
  ASSERT_TRUE(writer->AppendFp32(&w, 1).ok());
  ASSERT_TRUE(writer->Finish().ok());
  const auto file = *SafetensorsFile::Open(path);
  EXPECT_EQ(file->Find("count")->dtype, "I64");
  float out[2];
  ASSERT_TRUE(file->ReadFp32("count", 0, 2, out).ok());
  EXPECT_THAT(out, testing::ElementsAre(257, -3));
  ASSERT_TRUE(file->ReadFp32("count", 1, 1, out).ok());
  EXPECT_EQ(out[0], -3);
  int64_t raw[2];
  ASSERT_TRUE(file->ReadBytes("count", 0, 16, raw).ok());
  EXPECT_THAT(raw, testing::ElementsAre(257, -3));
  ASSERT_TRUE(file->ReadFp32("w", 0, 1, out).ok());
  EXPECT_EQ(out[0], 256) << "rounded to bf16";

  writer = *SafetensorsWriter::Create(path, tensors);
  const float half[] = {1, 0.5f};
  const absl::Status status = writer->AppendFp32(half, 2);
  EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange);
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("'count' has 0.5"));
}

TEST(SafetensorsWriter, LeavesNothingWithoutFinish) {
  const ScratchDirectory scratch;
  {
    auto writer = SafetensorsWriter::Create(scratch / "m.safetensors", kTensors);
    ASSERT_TRUE(writer.ok());
    EXPECT_EQ(Names(scratch / ""), std::set<std::string>{"m.safetensors.partial"});
  }
  EXPECT_TRUE(Names(scratch / "").empty());
}

TEST(SafetensorsWriter, ReplacesWhatAKilledOneLeft) {
  const ScratchDirectory scratch;
  WriteFile(scratch / "m.partial", "half");
  auto writer = SafetensorsWriter::Create(scratch / "m", {});
  ASSERT_TRUE(writer.ok()) << writer.status();
  ASSERT_TRUE((*writer)->Finish().ok());
  EXPECT_TRUE(SafetensorsFile::Open(scratch / "m").ok());
}

TEST(SafetensorsWriter, RefusesToTurnFiniteIntoInfinite) {
  const ScratchDirectory scratch;
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16}) {
    const std::vector<ExportTensor> tensors = {{"big", dtype, {2}}};
    const float values[2] = {1.0f, 3.4e38f};
    auto writer = SafetensorsWriter::Create(scratch / "m", tensors);
    ExpectError((*writer)->AppendFp32(values, 2), absl::StatusCode::kOutOfRange,
                {"'big'", "--export-dtype fp32", "export: --dtype fp32"});
    const float infinite[2] = {INFINITY, NAN};  // the weights' own affair
    writer = SafetensorsWriter::Create(scratch / "m", tensors);
    EXPECT_TRUE((*writer)->AppendFp32(infinite, 2).ok());
  }
}

TEST(SafetensorsWriter, NamesTheDirectoryThatIsMissing) {
  const ScratchDirectory scratch;
  ExpectError(SafetensorsWriter::Create(scratch / "missing/m", {}).status(),
              absl::StatusCode::kNotFound, {scratch / "missing/m"});
}

TEST(PlanShards, FillsFilesInOrder) {
  const std::vector<ExportTensor> tensors = {{"a", DType::kFloat32, {10}},
                                             {"b", DType::kFloat32, {10}},
                                             {"c", DType::kFloat32, {100}},
                                             {"d", DType::kFloat32, {1}}};
  const auto shards = PlanShards(tensors, 80);
  ASSERT_EQ(shards.size(), 3u);
  EXPECT_EQ(shards[0].file_name, "model-00001-of-00003.safetensors");
  EXPECT_EQ(shards[0].tensors.size(), 2u);
  EXPECT_EQ(shards[1].tensors[0].name, "c") << "larger than a shard: alone";
  EXPECT_EQ(shards[2].tensors[0].name, "d");
  EXPECT_EQ(PlanShards(tensors).size(), 1u);
  EXPECT_EQ(PlanShards(tensors)[0].file_name, "model.safetensors");
  EXPECT_EQ(PlanShards({}).size(), 1u);
}

class SafetensorsModelWriterTest : public testing::Test {
 protected:
  void Export(uint64_t max_shard_bytes, float value) {
    auto writer = SafetensorsModelWriter::Create(scratch_ / "", tensors_, max_shard_bytes);
    ASSERT_TRUE(writer.ok()) << writer.status();
    const std::vector<float> values(4, value);
    ASSERT_TRUE((*writer)->AppendFp32(values.data(), 4).ok());
    ASSERT_TRUE((*writer)->AppendFp32(values.data(), 1).ok());
    ASSERT_TRUE((*writer)->AppendFp32(values.data(), 3).ok());
    ASSERT_TRUE((*writer)->Finish().ok());
  }
  void ExpectValue(float value) {
    const auto model = SafetensorsModel::Open(scratch_ / "");
    ASSERT_TRUE(model.ok()) << model.status();
    float out[4];
    for (const char* name : {"a", "b"}) {
      ASSERT_TRUE((*model)->Read(name, 0, 4, out).ok());
      EXPECT_THAT(out, testing::Each(value));
    }
    EXPECT_NE((*model)->Find("e"), nullptr);
  }

  ScratchDirectory scratch_;
  const std::vector<ExportTensor> tensors_ = {
      {"a", DType::kFloat32, {4}}, {"b", DType::kFloat32, {2, 2}}, {"e", DType::kFloat32, {0}}};
};

TEST_F(SafetensorsModelWriterTest, WritesOneFileOrShardsAndReplacesTheOther) {
  Export(1000, 1);
  EXPECT_EQ(Names(scratch_ / ""), std::set<std::string>{"model.safetensors"});
  ExpectValue(1);
  Export(16, 2);
  EXPECT_EQ(Names(scratch_ / ""), (std::set<std::string>{"model-00001-of-00002.safetensors",
                                                         "model-00002-of-00002.safetensors",
                                                         "model.safetensors.index.json"}));
  ExpectValue(2);
  Export(1000, 3);
  EXPECT_EQ(Names(scratch_ / ""), std::set<std::string>{"model.safetensors"});
  ExpectValue(3);
}

TEST_F(SafetensorsModelWriterTest, TensorsThatNameTheirFilesComeInAnyOrder) {
  const std::vector<ExportTensor> tensors = {
      {"a", DType::kFloat32, {4}, "model-2-of-2.safetensors"},
      {"b", DType::kBFloat16, {4}, "model-1-of-2.safetensors"},
      {"c", DType::kFloat16, {4}, "model-2-of-2.safetensors"},
      {"e", DType::kFloat32, {0}, "model-1-of-2.safetensors"}};
  auto writer = SafetensorsModelWriter::Create(scratch_ / "", tensors, 1);
  ASSERT_TRUE(writer.ok()) << writer.status();
  const std::vector<float> values = {1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3};
  ASSERT_TRUE((*writer)->AppendFp32(values.data(), 7).ok());
  ASSERT_TRUE((*writer)->AppendFp32(values.data() + 7, 5).ok());
  ASSERT_TRUE((*writer)->Finish().ok());
  const auto model = *SafetensorsModel::Open(scratch_ / "");
  for (size_t i = 0; i < 4; ++i) {
    const SafetensorsTensor* const found = model->Find(tensors[i].name);
    ASSERT_NE(found, nullptr);
    EXPECT_EQ(SafetensorsDType(found->dtype), tensors[i].dtype);
    float out[4];
    ASSERT_TRUE(model->Read(tensors[i].name, 0, found->elements, out).ok());
    for (uint64_t j = 0; j < found->elements; ++j) EXPECT_EQ(out[j], i + 1.0f);
  }
  for (const SafetensorsFile* file : model->files()) EXPECT_EQ(file->tensors().size(), 2u);
}

// The model was in one shard with an index, or what is kept of it was in one of several.
TEST_F(SafetensorsModelWriterTest, ALoneNamedShardIsTheSingleFile) {
  Export(16, 1);  // two shards and an index, which are replaced
  for (const char* file : {"model-00001-of-00001.safetensors", "model-00002-of-00002.safetensors",
                           "model.safetensors"}) {
    std::vector<ExportTensor> tensors = tensors_;
    for (ExportTensor& tensor : tensors) tensor.file = file;
    const SafetensorsMetadata metadata = {.files = {{file, {{"made_by", file}}}}};
    auto writer = SafetensorsModelWriter::Create(scratch_ / "", tensors, 16, metadata);
    ASSERT_TRUE(writer.ok()) << writer.status();
    const std::vector<float> values(8, 5.0f);
    ASSERT_TRUE((*writer)->AppendFp32(values.data(), 8).ok());
    ASSERT_TRUE((*writer)->Finish().ok());
    EXPECT_EQ(Names(scratch_ / ""), std::set<std::string>{"model.safetensors"}) << file;
    ExpectValue(5);
    EXPECT_EQ((*SafetensorsFile::Open(scratch_ / "model.safetensors"))->metadata().at("made_by"),
              file);
    Export(16, 1);
  }
}

TEST_F(SafetensorsModelWriterTest, AnUnfinishedExportLeavesTheOldOneOrNone) {
  Export(1000, 1);
  {
    auto writer = SafetensorsModelWriter::Create(scratch_ / "", tensors_, 16);
    const std::vector<float> values(4, 2.0f);
    ASSERT_TRUE((*writer)->AppendFp32(values.data(), 4).ok());
    ASSERT_TRUE((*writer)->AppendFp32(values.data(), 2).ok());
  }
  ExpectValue(1);
  Export(16, 2);
  {
    auto writer = SafetensorsModelWriter::Create(scratch_ / "", tensors_, 16);
    const std::vector<float> values(4, 4.0f);
    ASSERT_TRUE((*writer)->AppendFp32(values.data(), 4).ok());
    ASSERT_TRUE((*writer)->AppendFp32(values.data(), 2).ok());
  }
  const absl::Status unfinished = SafetensorsModel::Open(scratch_ / "").status();
  EXPECT_EQ(unfinished.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(unfinished.message(), testing::HasSubstr("and no model.safetensors"));
}

}  // namespace
}  // namespace spillway
