// Decoder models of tests, by the keys of a config.json.
#pragma once

#include "engine/families/model_config.h"
#include "gtest/gtest.h"

namespace spillway {

inline ModelConfig ConfigOf(const nlohmann::json& keys) {
  const auto document = ParseStrictJson(keys.dump(2), "config.json");
  auto config = ParseModelConfig(*document);
  EXPECT_TRUE(config.ok()) << config.status();
  return *std::move(config);
}

// GPT-2 with these sizes and no dropout, but for what `more` says.
inline ModelConfig SmallGpt2Config(int64_t vocabulary, int64_t positions, int64_t width,
                                   int64_t inner, int64_t layers, int64_t heads,
                                   const nlohmann::json& more = {}) {
  nlohmann::json keys = {{"model_type", "gpt2"},     {"vocab_size", vocabulary},
                         {"n_positions", positions}, {"n_embd", width},
                         {"n_inner", inner},         {"n_layer", layers},
                         {"n_head", heads},          {"resid_pdrop", 0.0},
                         {"embd_pdrop", 0.0},        {"attn_pdrop", 0.0}};
  if (!more.is_null()) keys.update(more);
  return ConfigOf(keys);
}

// For SmallGpt2Config.
inline nlohmann::json Dropouts(double p) {
  return {{"resid_pdrop", p}, {"embd_pdrop", p}, {"attn_pdrop", p}};
}

}  // namespace spillway
