// A tokenizer with tokens around a text and one that masks others, for tests.
#pragma once

#include <memory>

#include "tests/engine/data/tokenizer_testing.h"

namespace spillway {

inline constexpr int64_t kTestBegin = 256, kTestEnd = 257, kTestMask = 258;

// Bytes, between [CLS] and [SEP]; [MASK] masks one.
inline std::unique_ptr<Tokenizer> MaskingTokenizer() {
  nlohmann::json json = SmallTokenizerJson();
  int id = 256;
  for (const char* name : {"[CLS]", "[SEP]", "[MASK]"}) {
    json["added_tokens"].push_back(AddedTokenJson(id++, name, {{"special", true}}));
  }
  json["post_processor"] = {
      {"type", "BertProcessing"}, {"sep", {"[SEP]", kTestEnd}}, {"cls", {"[CLS]", kTestBegin}}};
  auto parts = ParseTokenizerJson(json.dump(), "tokenizer.json");
  EXPECT_TRUE(parts.ok()) << parts.status();
  parts->mask = kTestMask;
  return NewPipelineTokenizer(*std::move(parts), std::nullopt, {});
}

}  // namespace spillway
