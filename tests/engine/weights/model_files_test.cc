#include "engine/weights/model_files.h"

#include <filesystem>
#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/run/committed_weights.h"
#include "engine/weights/safetensors_model.h"
#include "engine/weights/safetensors_writer.h"
#include "engine/weights/state_source.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "io/file.h"
#include "nlohmann/json.hpp"

namespace spillway {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

std::string NewFolder(const std::string& name) {
  const std::string path = testing::TempDir() + "/" + name;
  fs::remove_all(path);
  fs::create_directory(path);
  return path;
}

void Write(const std::string& path, const std::string& text) { std::ofstream(path) << text; }

json ReadJson(const std::string& path) { return json::parse(*ReadSmallFile(path)); }

const json kConfig = {{"model_type", "gpt2"},
                      {"eos_token_id", 7},
                      {"bos_token_id", nullptr},
                      {"torch_dtype", "float16"},
                      {"dtype", "float16"}};

// One unit of one parameter [3, 2], its masters 0.5, 1.5, ...
StateSource OneParameter() {
  StateSource source;
  source.model.units = {{"unit", {{"w", {3, 2}}}, {}, 0}};
  EXPECT_TRUE(LayOutParameters(source.model).ok());
  source.dtype = DType::kFloat32;
  source.layout = DescribeState(source.model, OptimizerSpec(), DType::kFloat32, 0);
  source.read = [](int, int, const SwapManager::FillTile& visit) {
    float values[2048] = {0.5f, 1.5f, 2.5f, 3.5f, 4.5f, 5.5f};
    char* planes[] = {reinterpret_cast<char*>(values), nullptr, nullptr};
    TileView view;
    view.parameters = 2048;
    view.planes = planes;
    return visit(view);
  };
  return source;
}

// transformers takes what a generation_config.json does not say for its defaults, not
// config.json's.
TEST(ModelFiles, AModelWithoutAGenerationConfigGetsNone) {
  const std::string model = NewFolder("model"), to = NewFolder("to") + "/source";
  ASSERT_TRUE(SaveModelFiles({kConfig, model, nullptr}, to).ok());
  EXPECT_FALSE(fs::exists(to + "/generation_config.json"));
  EXPECT_EQ(ReadJson(to + "/config.json"), kConfig);
}

TEST(ModelFiles, TheModelsOwnGenerationConfigStays) {
  const std::string model = NewFolder("model"), to = NewFolder("to");
  Write(model + "/generation_config.json", "{\"temperature\": 0.3}");
  ASSERT_TRUE(SaveModelFiles({kConfig, model, NewByteTokenizer().get()}, to).ok());
  EXPECT_EQ(ReadJson(to + "/generation_config.json"), json({{"temperature", 0.3}}));
  EXPECT_TRUE(fs::exists(to + "/bytes.json"));
}

TEST(ModelFiles, WhatEndsTextsIsInTheGenerationConfig) {
  const std::string model = NewFolder("model"), to = NewFolder("to");
  ASSERT_TRUE(SaveModelFiles({.config = kConfig, .directory = model, .ends = {3}}, to).ok());
  EXPECT_EQ(ReadJson(to + "/generation_config.json"), json({{"eos_token_id", {3, 7}}}));
  EXPECT_EQ(ReadJson(to + "/config.json"), kConfig);
  Write(model + "/generation_config.json", "{\"temperature\": 0.3, \"eos_token_id\": 1}");
  ASSERT_TRUE(SaveModelFiles({.config = kConfig, .directory = model, .ends = {3, 1}}, to).ok());
  EXPECT_EQ(ReadJson(to + "/generation_config.json"),
            json({{"temperature", 0.3}, {"eos_token_id", {3, 1}}}));
  ASSERT_TRUE(SaveModelFiles({.config = kConfig, .directory = model, .ends = {1}}, to).ok());
  EXPECT_EQ(ReadJson(to + "/generation_config.json"),
            json({{"temperature", 0.3}, {"eos_token_id", 1}}));
}

TEST(ModelFiles, AnExportHasEveryFileAndSaysItsDType) {
  const std::string source = NewFolder("source"), to = NewFolder("to");
  ASSERT_TRUE(SaveModelFiles({kConfig, source, NewByteTokenizer().get()}, source).ok());
  // As the saved config says, and as told.
  for (const std::optional<DType> asked : {std::optional<DType>(), {DType::kBFloat16}}) {
    const auto written = ExportModel(OneParameter(), source, to, {.dtype = asked});
    ASSERT_TRUE(written.ok()) << written.status();
    EXPECT_EQ(*written, asked.value_or(DType::kFloat16));
    const std::string name = asked ? "bfloat16" : "float16";
    const json config = ReadJson(to + "/config.json");
    EXPECT_EQ(config["dtype"], name);
    EXPECT_EQ(config["torch_dtype"], name);
    EXPECT_EQ(config["eos_token_id"], 7);
    const auto weights = SafetensorsModel::Open(to);
    ASSERT_TRUE(weights.ok()) << weights.status();
    EXPECT_EQ((*weights)->dtype(), *written);
    std::vector<float> values(6);
    ASSERT_TRUE((*weights)->Read("w", 0, 6, values.data()).ok());
    EXPECT_THAT(values, testing::ElementsAre(0.5, 1.5, 2.5, 3.5, 4.5, 5.5));
    EXPECT_TRUE(fs::exists(to + "/bytes.json"));
  }
}

// As hub files are: without the base's prefix, a tied head beside its embedding, and that in
// another file; each says things of its own.
TEST(ModelFiles, AnExportIsLaidOutAsTheModelCame) {
  const std::string source = NewFolder("source"), to = NewFolder("to"), kept = NewFolder("kept");
  TensorNames names;
  names.shapes = {{"base.w", {3, 2}}};
  names.base_prefix = "base.";
  names.head = "head";
  names.tied_to = "base.w";
  names.zeros = {"nought"};
  const json index = {{"metadata", {{"total_size", 46}, {"note", "kept"}}},
                      {"weight_map",
                       {{"w", "model-00001-of-00002.safetensors"},
                        {"nought", "model-00002-of-00002.safetensors"},
                        {"head", "model-00002-of-00002.safetensors"}}}};
  Write(source + "/model.safetensors.index.json", index.dump());
  const auto write_shard = [&](int number, const std::vector<ExportTensor>& tensors) {
    const std::vector<float> values(10);
    auto writer = SafetensorsWriter::Create(
        absl::StrCat(source, "/model-0000", number, "-of-00002.safetensors"), tensors,
        {{"number", std::to_string(number)}});
    ASSERT_TRUE(writer.ok());
    for (const ExportTensor& tensor : tensors) {
      ASSERT_TRUE((*writer)->AppendFp32(values.data(), tensor.elements()).ok());
    }
    ASSERT_TRUE((*writer)->Finish().ok());
  };
  write_shard(1, {{"w", DType::kFloat32, {3, 2}}});
  write_shard(2, {{"head", DType::kBFloat16, {3, 2}}, {"nought", DType::kFloat16, {1, 5}}});
  Write(source + "/config.json", json({{"dtype", "float16"}}).dump());
  const json config = ReadJson(source + "/config.json");
  ASSERT_TRUE(SaveModelFiles({.config = config, .directory = source, .names = &names}, kept).ok());

  StateSource state = OneParameter();
  state.model.units[0].parameters[0].name = "base.w";
  ASSERT_TRUE(ExportModel(state, kept, to).ok());
  EXPECT_EQ(ReadJson(to + "/config.json"), config);  // it said another dtype than its files
  EXPECT_EQ(ReadJson(to + "/model.safetensors.index.json"), index);
  const auto exported = SafetensorsModel::Open(to);
  ASSERT_TRUE(exported.ok()) << exported.status();
  EXPECT_EQ((*exported)->tensors().size(), 3u);
  EXPECT_EQ((*exported)->Find("w")->dtype, "F32");
  EXPECT_EQ((*exported)->Find("head")->dtype, "BF16");
  EXPECT_EQ((*exported)->Find("nought")->dtype, "F16");
  EXPECT_EQ((*exported)->Find("nought")->shape, (std::vector<uint64_t>{1, 5}));
  for (const SafetensorsFile* file : (*exported)->files()) {
    EXPECT_TRUE(absl::StrContains(file->path(), "model-0000" + file->metadata().at("number")));
  }
  for (const char* name : {"w", "head"}) {
    std::vector<float> values(6);
    ASSERT_TRUE((*exported)->Read(name, 0, 6, values.data()).ok());
    EXPECT_THAT(values, testing::ElementsAre(0.5, 1.5, 2.5, 3.5, 4.5, 5.5));
  }

  // Of another dtype and size both still are what they were called.
  ASSERT_TRUE(
      ExportModel(state, kept, to, {.dtype = DType::kBFloat16, .max_shard_bytes = 1 << 20}).ok());
  EXPECT_EQ(ReadJson(to + "/config.json"), json({{"dtype", "bfloat16"}}));
  const auto single = SafetensorsModel::Open(to);
  ASSERT_TRUE(single.ok()) << single.status();
  EXPECT_EQ((*single)->files().size(), 1u);
  EXPECT_EQ((*single)->Find("w")->dtype, "BF16");
  EXPECT_NE((*single)->Find("head"), nullptr);
  EXPECT_EQ((*single)->Find("nought")->dtype, "BF16");
}

TEST(ModelFiles, AModelWithAPartThatTheFilesLackHasItsOwnNames) {
  const std::string source = NewFolder("source"), to = NewFolder("to"), kept = NewFolder("kept");
  auto writer =
      *SafetensorsWriter::Create(source + "/model.safetensors", {{"other", DType::kFloat32, {}}});
  const float value = 1;
  ASSERT_TRUE(writer->AppendFp32(&value, 1).ok() && writer->Finish().ok());
  TensorNames names;
  names.shapes = {{"base.other", {}}, {"base.w", {3, 2}}};
  names.base_prefix = "base.";
  ASSERT_TRUE(SaveModelFiles({.config = kConfig, .directory = source, .names = &names}, kept).ok());
  StateSource state = OneParameter();
  state.model.units[0].parameters[0].name = "base.w";
  ASSERT_TRUE(ExportModel(state, kept, to).ok());
  EXPECT_NE((*SafetensorsModel::Open(to))->Find("base.w"), nullptr);
}

TEST(ModelFiles, ALayoutThatIsNoneIsPassedOver) {
  for (const char* text :
       {"[]", "{", R"({"w": 1})", R"({"w": ["model.safetensors", 3, null, "x"]})",
        R"({"n": ["model.safetensors", "float32", null, [-1]], "__metadata__": {"files": [1]}})"}) {
    const std::string kept = NewFolder("kept"), to = NewFolder("to");
    Write(kept + "/config.json", kConfig.dump());
    Write(kept + "/weight_places.json", text);
    const auto written = ExportModel(OneParameter(), kept, to);
    ASSERT_TRUE(written.ok()) << text << written.status();
    EXPECT_EQ((*SafetensorsModel::Open(to))->tensors().size(), 1u) << text;
  }
}

TEST(ModelFiles, TemplatesOfOtherNamesComeBackInTheirFolder) {
  const std::string source = NewFolder("source"), to = NewFolder("to"), kept = NewFolder("kept");
  fs::create_directory(source + "/additional_chat_templates");
  Write(source + "/additional_chat_templates/tool_use.jinja", "{{ tools }}");
  const auto tokenizer = NewByteTokenizer();
  ASSERT_TRUE(SaveModelFiles({kConfig, source, tokenizer.get()}, kept).ok());
  ASSERT_TRUE(CopyModelFiles(kept, kept + "/copy").ok());  // where folders are none of a copy's
  ASSERT_TRUE(ExportModel(OneParameter(), kept + "/copy", to).ok());
  EXPECT_EQ(*ReadSmallFile(to + "/additional_chat_templates/tool_use.jinja"), "{{ tools }}");
}

// --overwrite leaves what it does not know by its name.
TEST(ModelFiles, AnotherModelsFilesAreNotKept) {
  const std::string first = NewFolder("first"), second = NewFolder("second");
  const std::string kept = NewFolder("kept"), to = NewFolder("to");
  Write(first + "/generation_config.json", "{}");
  fs::create_directory(first + "/additional_chat_templates");
  Write(first + "/additional_chat_templates/tool_use.jinja", "{{ tools }}");
  const auto tokenizer = NewByteTokenizer();
  ASSERT_TRUE(SaveModelFiles({kConfig, first, tokenizer.get()}, kept).ok());
  for (const char* name : {"/chat_template.jinja", "/tokenizer.model", "/notes.md"}) {
    Write(kept + name, "the first one's");
  }
  ASSERT_TRUE(ExportModel(OneParameter(), kept, to).ok());
  const std::string one_more = to + "/additional_chat_templates/tool_use.jinja";
  ASSERT_TRUE(fs::exists(one_more));

  Write(second + "/preprocessor_config.json", "{}");
  ASSERT_TRUE(SaveModelFiles({kConfig, second, tokenizer.get()}, kept).ok());
  ASSERT_TRUE(ExportModel(OneParameter(), kept, to).ok());
  for (const std::string& folder : {kept, to}) {
    for (const char* name : {"/chat_template.jinja", "/tokenizer.model", "/generation_config.json",
                             "/additional_chat_templates:tool_use.jinja"}) {
      EXPECT_FALSE(fs::exists(folder + name)) << folder << name;
    }
    for (const char* name :
         {"/bytes.json", "/preprocessor_config.json", "/notes.md", "/config.json"}) {
      EXPECT_TRUE(fs::exists(folder + name)) << folder << name;
    }
  }
  EXPECT_FALSE(fs::exists(one_more));
  // The directory that the model came from keeps what it has.
  Write(first + "/tokenizer.model", "unread");
  ASSERT_TRUE(SaveModelFiles({kConfig, first, nullptr}, first).ok());
  EXPECT_TRUE(fs::exists(first + "/tokenizer.model"));
}

// What a run was started from, in fp32.
class OriginalWeights final : public WeightSource {
 public:
  absl::Status Read(const std::string& name, uint64_t first, uint64_t count, float* out) override {
    if (name != "w") return absl::NotFoundError(name);
    for (uint64_t i = 0; i < count; ++i) out[i] = static_cast<float>(first + i) + 0x1.000002p-1f;
    return absl::OkStatus();
  }
};

TEST(ModelFiles, WhatIsFrozenIsWrittenAsItCame) {
  const std::string kept = NewFolder("kept"), to = NewFolder("to");
  OriginalWeights original;
  StateSource state = OneParameter();  // whose values are 0.5, 1.5, ... in fp32
  const auto written = [&](const ModelExportOptions& options) {
    EXPECT_TRUE(ExportModel(state, kept, to, options).ok());
    float value = 0;
    EXPECT_TRUE((*SafetensorsModel::Open(to))->Read("w", 1, 1, &value).ok());
    return value;
  };
  ModelExportOptions options = {.dtype = DType::kFloat32};
  options.original = &original;
  EXPECT_EQ(written(options), 1.5f) << "it is trained";
  state.model.units[0].frozen = true;
  EXPECT_EQ(written(options), 1.5f) << "the run holds fp32 as it is";
  state.dtype = DType::kBFloat16;
  state.layout = DescribeState(state.model, OptimizerSpec(), DType::kBFloat16, 0);
  state.read = [](int, int, const SwapManager::FillTile& visit) {
    uint16_t values[2048] = {0x3f00, 0x3fc0, 0x4020, 0x4060, 0x4090, 0x40b0};
    char* planes[] = {reinterpret_cast<char*>(values), nullptr, nullptr};
    TileView view;
    view.parameters = 2048;
    view.planes = planes;
    return visit(view);
  };
  EXPECT_EQ(written(options), 1 + 0x1.000002p-1f);
  options.as_held = {"w"};
  EXPECT_EQ(written(options), 1.5f);
  options.as_held = {};
  options.change = [](const std::string&, uint64_t, std::vector<float>& values) {
    for (float& value : values) value += 1;
    return absl::OkStatus();
  };
  EXPECT_EQ(written(options), 2 + 0x1.000002p-1f);
  state.model.units[0].parameters[0].name = "made by the run";
  EXPECT_TRUE(ExportModel(state, kept, to, options).ok());
}

TEST(ModelFiles, AnExportThatFailsLeavesNoConfig) {
  const std::string source = NewFolder("source"), to = NewFolder("to");
  ASSERT_TRUE(SaveModelFiles({kConfig, source, nullptr}, source).ok());
  ASSERT_TRUE(ExportModel(OneParameter(), source, to).ok());
  StateSource broken = OneParameter();
  broken.read = [](int, int, const SwapManager::FillTile&) { return absl::DataLossError("bad"); };
  EXPECT_EQ(ExportModel(broken, source, to).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_FALSE(fs::exists(to + "/config.json"));
}

TEST(ModelFiles, CopiesLeaveOutWhatIsHalfWritten) {
  const std::string from = NewFolder("from"), to = NewFolder("base") + "/to";
  Write(from + "/config.json", "{}");
  Write(from + "/tokenizer.json", "{1}");
  Write(from + "/tokenizer.json.tmp-0123456789abcdef", "{");
  ASSERT_TRUE(CopyModelFiles(from, to).ok());
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(to)) names.push_back(entry.path().filename());
  EXPECT_THAT(names, testing::UnorderedElementsAre("config.json", "tokenizer.json"));
  EXPECT_TRUE(CopyModelFiles(from + "/none", to).ok());
}

}  // namespace
}  // namespace spillway
