#include "engine/weights/weight_files.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "engine/weights/model_directory.h"
#include "engine/weights/safetensors_model.h"
#include "io/file_system.h"
#include "tests/engine/format_testing.h"

namespace spillway {
namespace {

using absl::StatusCode;

class WeightFilesTest : public testing::Test {
 protected:
  void SetUp() override { Write("config.json", "{}"); }

  void Write(const std::string& name, const std::string& bytes) {
    const std::filesystem::path path(scratch_ / name);
    std::filesystem::create_directories(path.parent_path());
    WriteFile(path.string(), bytes);
  }
  void Remove(const std::string& name) { std::filesystem::remove_all(scratch_ / name); }
  std::string Torch(const std::string& name = "zip.bin") {
    return ReadFile(SPILLWAY_SOURCE_DIR "/tests/golden/torch_files/" + name);
  }
  absl::Status Find() { return FindWeightFiles(scratch_ / "").status(); }

  ScratchDirectory scratch_;
};

TEST_F(WeightFilesTest, WhatLiesBesideWeightsIsNone) {
  for (const char* name : {"tokenizer.json", "tokenizer.model", "spiece.model", "README.md",
                           "LICENSE", ".gitattributes", "training_args.bin", "chat_template.jinja",
                           "modeling_x.py", "merges.txt", "train.bin", "data.npy", "picture.png",
                           "additional_chat_templates/tool.jinja", "data/archive.zip"}) {
    Write(name, std::string(100, 'x'));
  }
  Write("tokens.jsonl", std::string(2 << 20, 'x'));
  EXPECT_EQ(Find().code(), StatusCode::kNotFound) << Find();
}

TEST_F(WeightFilesTest, EveryKindOfWeightsThatIsNotReadIsNamed) {
  const struct {
    const char* name;
    const char* what;
  } cases[] = {
      {"model.bin", "CTranslate2"},
      {"model.pt", "no file of torch.save"},
      {"weights.pt", "no file of torch.save"},
      {"pytorch_model.bin", "no file of torch.save"},
      {"pytorch_model-00001-of-00002.bin", "no file of torch.save"},
      {"adapter_model.bin", "--adapter"},
      {"adapter_model.safetensors", "--adapter"},
      {"rust_model.ot", "rust-bert"},
      {"model.ckpt.index", "TensorFlow"},
      {"model.ckpt.data-00000-of-00001", "framework"},
      {"tf_model.h5", "from_tf"},
      {"flax_model.msgpack", "from_flax"},
      {"saved_model.pb", "TensorFlow"},
      {"model.onnx", "ONNX"},
      {"onnx/model.onnx", "a folder below"},
      {"onnx/decoder_model_quantized.onnx", "a folder below"},
      {"original/consolidated.00.pth", "a folder below"},
      {"model.gguf", "GGUF"},
      {"Model-Q4_K_M.GGUF", "GGUF"},
      {"model.npz", "NumPy"},
      {"model.nemo", "NeMo"},
      {"coreml/model.mlmodel", "a folder below"},
      {"model.tflite", "Lite"},
      {"openvino_model.bin", "framework"},
      {"model_state.pdparams", "Paddle"},
      {"model.pkl", "pickle"},
      {"llama.tar.gz", "archive"},
      {"model.safetensors.incomplete", "not finished"},
      {"model-00001-of-00002.safetensors", "fetch the model again"},
      {"diffusion_pytorch_model.safetensors", "fetch the model again"},
      {"optimizer.pt", "state of a training"},
      {"rng_state_0.pth", "state of a training"},
      {"epoch=3.ckpt", "no file of torch.save"},
      {"consolidated.00.pth", "no file of torch.save"},
  };
  for (const auto& c : cases) {
    Write(c.name, "x");
    ExpectError(Find(), StatusCode::kInvalidArgument,
                {std::string(" has ") + c.name, c.what, "weights drawn at random, move "});
    Remove(std::filesystem::path(c.name).begin()->string());
  }
  EXPECT_EQ(Find().code(), StatusCode::kNotFound) << Find();
}

TEST_F(WeightFilesTest, ALargeFileOfAnUnknownKindMayHoldWeights) {
  Write("state.dump", std::string(1000, 'x'));
  EXPECT_EQ(Find().code(), StatusCode::kNotFound);
  Write("state.dump", std::string(1 << 20, 'x'));
  ExpectError(Find(), StatusCode::kInvalidArgument, {"state.dump", "unknown kind", "1 MiB"});
}

TEST_F(WeightFilesTest, AGitLfsPointerIsNamed) {
  Write("pytorch_model.bin", "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n");
  ExpectError(Find(), StatusCode::kInvalidArgument, {"git lfs pull"});
}

TEST_F(WeightFilesTest, FilesOfTorchAreReadUnderAnyName) {
  for (const char* name : {"model.pt", "weights.pth", "pytorch_model.bin", "consolidated.00.pth"}) {
    Write(name, Torch());
    const auto model = SafetensorsModel::Open(scratch_.path());
    ASSERT_TRUE(model.ok()) << model.status();
    EXPECT_NE((*model)->Find("table"), nullptr);
    EXPECT_EQ(FileName((*model)->Stored("table")->file), name);
    Remove(name);
  }
  // Beside it what a Trainer writes is passed over.
  Write("model.pt", Torch());
  Write("optimizer.pt", Torch("training.pt"));
  Write("training_args.bin", Torch());
  EXPECT_TRUE(Find().ok()) << Find();
  Write("other.pt", Torch());
  ExpectError(Find(), StatusCode::kInvalidArgument, {"several files", "model.pt, other.pt"});
  // A name that is known needs no guess.
  Write("pytorch_model.bin", Torch());
  EXPECT_EQ(FileName(FindWeightFiles(scratch_ / "")->file), "pytorch_model.bin");
}

TEST_F(WeightFilesTest, ShardsOfTorchAreReadByTheirIndex) {
  Write("pytorch_model-00001-of-00002.bin", Torch());
  Write("pytorch_model-00002-of-00002.bin", Torch("lightning.ckpt"));
  const char* const names[] = {"table", "tied", "rows",      "half",  "brain",
                               "count", "mask", "parameter", "empty", "one_row"};
  std::string map;
  for (const char* name : names) {
    map += std::string("\"") + name + "\":\"pytorch_model-00001-of-00002.bin\",";
  }
  for (const char* name : {"layer.weight", "layer.bias"}) {
    map += std::string("\"") + name + "\":\"pytorch_model-00002-of-00002.bin\",";
  }
  map.pop_back();
  Write("pytorch_model.bin.index.json", "{\"weight_map\":{" + map + "}}");
  const auto model = SafetensorsModel::Open(scratch_ / "");
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ((*model)->tensors().size(), 12u);
  std::vector<float> bias(3);
  ASSERT_TRUE((*model)->Read("layer.bias", 0, 3, bias.data()).ok());
  // A step of AdamW has moved it from -1.
  for (const float value : bias) EXPECT_NEAR(value, -1.00099, 1e-6);
  Remove("pytorch_model-00002-of-00002.bin");
  ExpectError(SafetensorsModel::Open(scratch_ / "").status(), StatusCode::kInvalidArgument,
              {"00002-of-00002.bin is missing", "pytorch_model.bin.index.json names it"});
}

TEST_F(WeightFilesTest, ShardedCheckpointsAreNamedWithTheCommandThatMergesThem) {
  const std::string& root = scratch_ / "";
  const auto expect = [&](const std::string& directory, const std::vector<std::string>& parts) {
    ExpectError(FindWeightFiles(directory).status(), StatusCode::kInvalidArgument, parts);
  };
  Write("latest", "global_step10");
  Write("global_step10/mp_rank_00_model_states.pt", "x");
  Write("global_step10/zero_pp_rank_0_mp_rank_00_optim_states.pt", "x");
  expect(root, {"DeepSpeed", "python3 -m deepspeed.utils.zero_to_fp32", "--safe_serialization"});
  Write("zero_to_fp32.py", "");
  expect(root, {"DeepSpeed", "/zero_to_fp32.py "});
  // The folder of one step, given as the model.
  ExpectError(DescribeNoModel(scratch_ / "global_step10"), StatusCode::kNotFound,
              {"DeepSpeed", "/zero_to_fp32.py "});
  Remove("zero_to_fp32.py");
  Remove("global_step10");
  Remove("latest");

  Write("pytorch_model_fsdp_0/__0_0.distcp", "x");
  Write("pytorch_model_fsdp_0/.metadata", "x");
  expect(root, {"FSDP", "torch.distributed.checkpoint.format_utils dcp_to_torch",
                "/pytorch_model_fsdp_0", "/pytorch_model.bin"});
  ExpectError(DescribeNoModel(scratch_ / "pytorch_model_fsdp_0"), StatusCode::kNotFound,
              {"FSDP", "dcp_to_torch"});
}

TEST_F(WeightFilesTest, CommandsQuotePathsThatNeedIt) {
  Write("oa'b $(x)/config.json", "{}");
  Write("oa'b $(x)/tf_model.h5", "x");
  ExpectError(FindWeightFiles(scratch_ / "oa'b $(x)").status(), StatusCode::kInvalidArgument,
              {"/oa'\\''b $(x)'", "sys.argv[1]"});
}

TEST_F(WeightFilesTest, WhatIsNoFileIsNoWait) {
  ASSERT_EQ(mkfifo((scratch_ / "model.pt").c_str(), 0600), 0);
  ExpectError(Find(), StatusCode::kInvalidArgument, {"model.pt"});
  Remove("model.pt");
  ASSERT_EQ(symlink("nowhere", (scratch_ / "weights.bin").c_str()), 0);
  ExpectError(Find(), StatusCode::kInvalidArgument, {"weights.bin"});
}

}  // namespace
}  // namespace spillway
