#include "engine/weights/model_directory.h"

#include <filesystem>

#include "tests/engine/format_testing.h"
#include "tests/scratch_directory.h"

namespace spillway {
namespace {

using absl::StatusCode;

class ModelDirectoryTest : public testing::Test {
 protected:
  void Put(const std::string& name, const std::string& text = "{}") {
    std::filesystem::create_directories(std::filesystem::path(scratch_ / name).parent_path());
    WriteFile(scratch_ / name, text);
  }
  void Described(const std::string& name, const std::vector<std::string>& parts) {
    SCOPED_TRACE(name);
    ExpectError(CheckModelDirectory(scratch_ / name), StatusCode::kNotFound, parts);
  }

  ScratchDirectory scratch_;
};

TEST_F(ModelDirectoryTest, WithAConfigItIsOne) {
  Put("m/config.json");
  EXPECT_TRUE(CheckModelDirectory(scratch_ / "m").ok());
  EXPECT_TRUE(CheckIsDirectory(scratch_.path()).ok());
}

TEST_F(ModelDirectoryTest, WithoutAConfigItSaysWhatItIs) {
  std::filesystem::create_directories(scratch_ / "empty");
  Described("empty", {"--model ", "no config.json in it", "it holds: nothing"});
  Put("notes/readme.md");
  Described("notes", {"no config.json in it", "it holds: readme.md"});
  Put("weights/model.safetensors");
  Described("weights", {"only weights", "copy config.json"});
  Put("lora/adapter_config.json", R"({"base_model_name_or_path": "org/base"})");
  Described("lora", {"it is an adapter for org/base: give --model org/base --adapter "});
  Put("lora2/adapter_config.json", "[]");
  Described("lora2", {"it is an adapter: give --model MODEL --adapter "});
  Put("run/config.resolved.json");
  Described("run", {"OUTPUT of a run that has neither a commit nor an exported model"});
  Put("run/adapter/adapter_config.json");
  Described("run", {"OUTPUT of a run, which has its trained adapter in ", "/run/adapter"});
  Put("run/model/config.json");
  Described("run", {"its trained model in ", "/run/model"});
  Put("trainer/checkpoint-500/config.json");
  Put("trainer/checkpoint-1000/config.json");
  Described("trainer", {"no config.json in it, but in ", "give --model ", "checkpoint-1000"});
  Put("gguf/m.Q4_K_M.gguf");
  Described("gguf", {"m.Q4_K_M.gguf", "GGUF is not read"});
  Described("missing", {"there is no such directory"});
}

}  // namespace
}  // namespace spillway
