#include "engine/weights/model_files.h"

#include <filesystem>
#include <fstream>

#include "engine/run/committed_weights.h"
#include "engine/weights/safetensors_model.h"
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

TEST(ModelFiles, SpecialTokensOfTheConfigMakeAGenerationConfig) {
  const std::string model = NewFolder("model"), to = NewFolder("to") + "/source";
  ASSERT_TRUE(SaveModelFiles(kConfig, model, nullptr, to).ok());
  EXPECT_EQ(ReadJson(to + "/generation_config.json"),
            json({{"_from_model_config", true}, {"eos_token_id", 7}}));
  EXPECT_EQ(ReadJson(to + "/config.json"), kConfig);
}

TEST(ModelFiles, TheModelsOwnGenerationConfigStays) {
  const std::string model = NewFolder("model"), to = NewFolder("to");
  Write(model + "/generation_config.json", "{\"temperature\": 0.3}");
  ASSERT_TRUE(SaveModelFiles(kConfig, model, NewByteTokenizer().get(), to).ok());
  EXPECT_EQ(ReadJson(to + "/generation_config.json"), json({{"temperature", 0.3}}));
  EXPECT_TRUE(fs::exists(to + "/bytes.json"));
}

TEST(ModelFiles, AnExportHasEveryFileAndSaysItsDType) {
  const std::string source = NewFolder("source"), to = NewFolder("to");
  ASSERT_TRUE(SaveModelFiles(kConfig, source, NewByteTokenizer().get(), source).ok());
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
    EXPECT_TRUE(fs::exists(to + "/generation_config.json"));
  }
}

TEST(ModelFiles, AnExportThatFailsLeavesNoConfig) {
  const std::string source = NewFolder("source"), to = NewFolder("to");
  ASSERT_TRUE(SaveModelFiles(kConfig, source, nullptr, source).ok());
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
