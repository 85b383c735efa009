// Small tokenizers for tests, as tokenizer.json would have them.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/utf8.h"
#include "engine/tokenizers/pipeline_tokenizer.h"
#include "engine/tokenizers/tokenizer_json.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace spillway {

// The 256 bytes have their own numbers as tokens, merges follow from 256 on. ByteLevel
// splits as GPT-2 does.
inline nlohmann::json SmallTokenizerJson(
    const std::vector<std::pair<std::string, std::string>>& merges = {}) {
  nlohmann::json vocabulary = nlohmann::json::object();
  uint32_t next = 0x100;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte != 0xad);
    std::string token;
    AppendUtf8(printable ? byte : next++, &token);
    vocabulary[token] = byte;
  }
  nlohmann::json pairs = nlohmann::json::array();
  for (const auto& [left, right] : merges) {
    pairs.push_back({left, right});
    if (!vocabulary.contains(left + right)) vocabulary[left + right] = vocabulary.size();
  }
  return {{"version", "1.0"},
          {"added_tokens", nlohmann::json::array()},
          {"normalizer", nullptr},
          {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}}},
          {"decoder", {{"type", "ByteLevel"}}},
          {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", pairs}}}};
}

// The Llama 3 kind, with this pattern.
inline nlohmann::json SplitBy(const std::string& pattern) {
  return {{"type", "Sequence"},
          {"pretokenizers",
           {{{"type", "Split"},
             {"pattern", {{"Regex", pattern}}},
             {"behavior", "Isolated"},
             {"invert", false}},
            {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}}}};
}

inline nlohmann::json AddedTokenJson(int id, const std::string& content,
                                     nlohmann::json flags = nlohmann::json::object()) {
  nlohmann::json token = {{"id", id}, {"content", content}, {"normalized", false}};
  token.update(flags);
  return token;
}

inline std::unique_ptr<Tokenizer> TokenizerOf(const nlohmann::json& json) {
  auto parts = ParseTokenizerJson(json.dump(), "tokenizer.json");
  EXPECT_TRUE(parts.ok()) << parts.status();
  return parts.ok() ? NewPipelineTokenizer(*std::move(parts), std::nullopt, {}) : nullptr;
}

// The tokens of a text given in pieces that end at `cuts`.
inline std::vector<uint32_t> EncodeCut(const Tokenizer& tokenizer, absl::string_view text,
                                       const std::vector<size_t>& cuts) {
  const auto encoder = tokenizer.NewEncoder("t");
  std::vector<uint32_t> tokens;
  size_t begin = 0;
  for (const size_t cut : cuts) {
    EXPECT_TRUE(encoder->Encode(text.substr(begin, cut - begin), &tokens).ok());
    begin = cut;
  }
  EXPECT_TRUE(encoder->Encode(text.substr(begin), &tokens).ok());
  EXPECT_TRUE(encoder->Finish(&tokens).ok());
  return tokens;
}

}  // namespace spillway
