// Files changed at random: whatever they become, reading them ends in a value or in a
// status, and never reads beyond what is there (the sanitizers watch).
#include <random>

#include "engine/base/strict_json.h"
#include "engine/config/deepspeed_config.h"
#include "engine/data/jsonl.h"
#include "engine/data/token_file.h"
#include "engine/weights/safetensors_header.h"
#include "tests/engine/data/tokenizer_testing.h"
#include "tests/engine/weights/safetensors_testing.h"

namespace spillway {
namespace {

constexpr uint64_t kSeed = 20240607;
constexpr int kMutations = 4000;

// A few random edits: bytes replaced, removed, doubled; pieces copied elsewhere.
std::string Mutated(std::string text, std::mt19937_64& random) {
  static constexpr char kSharp[] = "{}[]\",:0123456789-+.eE\\u\xff\x80\x00 tfn";
  const int edits = 1 + static_cast<int>(random() % 4);
  for (int i = 0; i < edits && !text.empty(); ++i) {
    const size_t at = random() % text.size();
    switch (random() % 6) {
      case 0:
        text[at] = static_cast<char>(random());
        break;
      case 1:
        text[at] = kSharp[random() % (sizeof(kSharp) - 1)];
        break;
      case 2:
        text.erase(at, 1 + random() % 8);
        break;
      case 3:
        text.insert(at, text.substr(random() % text.size(), random() % 40));
        break;
      case 4:
        text.insert(at, std::to_string(random() >> (random() % 64)));
        break;
      default:
        text.resize(at);
        break;
    }
  }
  return text;
}

template <typename Read>
void MutateAndRead(const std::string& good, Read read) {
  std::mt19937_64 random(kSeed);
  int accepted = 0;
  for (int i = 0; i < kMutations; ++i) accepted += read(Mutated(good, random)) ? 1 : 0;
  // Both outcomes must occur, or the mutations test nothing.
  EXPECT_GT(accepted, 0) << "seed " << kSeed;
  EXPECT_LT(accepted, kMutations) << "seed " << kSeed;
}

TEST(FormatMutation, SafetensorsHeader) {
  const std::string good = "{\"__metadata__\":{\"format\":\"pt\",\"note\":\"\\u00e9\"}," +
                           Entry("a", "F32", "[2,3]", 0, 24) + "," +
                           Entry("b", "BF16", "[4]", 24, 32) + "," +
                           Entry("c", "F4", "[2]", 32, 33) + "}  ";
  MutateAndRead(good, [](const std::string& header) {
    const auto parsed = ParseSafetensorsHeader(header, 8 + header.size() + 33);
    if (!parsed.ok()) {
      EXPECT_EQ(parsed.status().code(), absl::StatusCode::kDataLoss);
      return false;
    }
    for (const SafetensorsTensor& tensor : parsed->tensors) {  // what is accepted lies inside
      EXPECT_LE(tensor.offset_bytes + tensor.size_bytes, 8 + header.size() + 33);
    }
    return true;
  });
}

TEST(FormatMutation, StrictJson) {
  const std::string good =
      "{\n\"a\": [1, 2.5e3, -7, true, null, {\"x\\n\": \"\\ud83d\\ude00\"}],\n\"b\": {}}\n";
  MutateAndRead(good, [](const std::string& text) { return ParseStrictJson(text, "f").ok(); });
}

TEST(FormatMutation, DeepSpeedConfig) {
  const std::string good = R"({
  "train_batch_size": 8, "gradient_clipping": 1.0, // comment
  "optimizer": {"type": "AdamW", "params": {"lr": 1e-4, "betas": [0.9, 0.95], "eps": "auto"}},
  "zero_optimization": {"stage": 3, "offload_param": {"device": "nvme", "nvme_path": "/x"}},
  "fp16": {"enabled": "true", "loss_scale_window": 5e2}, "aio": {"block_size": 1048576}
})";
  MutateAndRead(good, [](const std::string& text) {
    const auto config = ParseDeepSpeedConfig(text, "f");
    EXPECT_TRUE(config.ok() || absl::IsInvalidArgument(config.status())) << config.status();
    return config.ok();
  });
}

TEST(FormatMutation, TokenizerJson) {
  nlohmann::json good = SmallTokenizerJson({{"a", "b"}, {"ab", "c"}});
  good["added_tokens"] = nlohmann::json::array({AddedTokenJson(258, "<s>", {{"lstrip", true}})});
  good["pre_tokenizer"] =
      SplitBy("(?i:'s|'t)|[^\\r\\n\\p{L}]?\\p{L}+|\\p{N}{1,3}|\\s+(?!\\S)|\\s+");
  MutateAndRead(good.dump(), [](const std::string& text) {
    auto spec = ParseTokenizerJson(text, "f");
    if (!spec.ok()) return false;
    const auto tokenizer = NewPipelineTokenizer(*std::move(spec), std::nullopt, {});
    const auto tokens = tokenizer->Encode("abc <s> 1234's\n");
    EXPECT_TRUE(!tokens.ok() || tokenizer->Decode(*tokens).ok());
    return true;
  });
}

TEST(FormatMutation, Jsonl) {
  const std::string good =
      "{\"text\": \"a\\u00e9\\ud83d\\ude00\"}\n\n{\"prompt\": \"a\", \"completion\": \"b\"}\n";
  MutateAndRead(good, [](const std::string& text) {
    LineReader reader("f", TakeRecords("f", [](const JsonlRecord&) { return absl::OkStatus(); }));
    return reader.Next(text).ok() && reader.Finish().ok();
  });
}

TEST(FormatMutation, NpyHeader) {
  std::string good("\x93NUMPY\x01\x00\x40\x00", 10);
  std::string dictionary = "{'descr': '<u2', 'fortran_order': False, 'shape': (100,), }";
  dictionary.resize(0x40, ' ');
  good += dictionary + std::string(200, 'x');
  MutateAndRead(good, [](const std::string& file) {
    const auto format = ParseNpyHeader(file, file.size());
    if (!format.ok()) return false;
    EXPECT_EQ(
        format->data_offset_bytes + static_cast<uint64_t>(format->tokens) * format->width_bytes,
        file.size());
    return true;
  });
}

}  // namespace
}  // namespace spillway
