#include "engine/families/generation_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "absl/strings/str_cat.h"

namespace spillway {
namespace {

using nlohmann::json;

using testing::ElementsAre;
using testing::HasSubstr;

absl::StatusOr<GenerationConfig> ParseGeneration(const std::string& text) {
  absl::StatusOr<JsonDocument> document = ParseStrictJson(text, "generation_config.json");
  if (!document.ok()) return document.status();
  return ParseGenerationConfig(*document);
}

TEST(GenerationConfig, ReadsEveryKey) {
  const GenerationConfig config = *ParseGeneration(R"({
      "do_sample": true, "temperature": 0.6, "top_p": 0.9, "top_k": 20, "repetition_penalty": 1.05,
      "no_repeat_ngram_size": 3, "min_new_tokens": 2, "min_length": 9, "max_new_tokens": 77,
      "eos_token_id": [5, 7], "bos_token_id": 1, "pad_token_id": null, "num_beams": 1,
      "typical_p": 1.0, "suppress_tokens": null, "bad_words_ids": [], "max_length": 4096,
      "transformers_version": "5.23.0", "_from_model_config": true})");
  EXPECT_TRUE(config.warnings.empty()) << config.warnings.front();
  SamplingFlags flags;
  SamplingOptions options = SamplingOf(flags, config, 0.8);
  EXPECT_EQ(options.temperature, 0.6);
  EXPECT_EQ(options.top_p, 0.9);
  EXPECT_EQ(options.top_k, 20);
  EXPECT_EQ(options.repetition_penalty, 1.05);
  EXPECT_EQ(options.no_repeat_ngram, 3);
  EXPECT_EQ(options.min_tokens, 2);
  EXPECT_EQ(options.min_length, 0) << "min_new_tokens takes its place";
  EXPECT_THAT(options.ends, ElementsAre(5, 7));
  EXPECT_EQ(config.max_new_tokens, 77);
  // Flags win.
  flags.temperature = flags.top_p = flags.repetition_penalty = 0.5;
  flags.top_k = flags.no_repeat_ngram = flags.min_tokens = 0;
  options = SamplingOf(flags, config, 0.8);
  EXPECT_EQ(options.temperature + options.top_p + options.repetition_penalty, 1.5);
  EXPECT_EQ(options.top_k + options.no_repeat_ngram + options.min_tokens, 0);
}

TEST(GenerationConfig, SaysWhetherToSample) {
  const auto temperature = [](const std::string& text) {
    return SamplingOf({}, *ParseGeneration(text), 0.8).temperature;
  };
  EXPECT_EQ(temperature("{}"), 0.8);
  EXPECT_EQ(temperature(R"({"temperature": 0.5})"), 0.5);
  EXPECT_EQ(temperature(R"({"do_sample": true})"), 1);
  EXPECT_EQ(temperature(R"({"do_sample": false, "temperature": 0.5})"), 0);
  const GenerationConfig config = *ParseGeneration(R"({"min_length": 9, "eos_token_id": 3})");
  EXPECT_EQ(SamplingOf({}, config, 0).min_length, 9);
  EXPECT_THAT(config.ends, ElementsAre(3));
}

// As transformers' align_special_tokens has it.
TEST(GenerationConfig, GetsTheEndsThatItLacks) {
  const json config = {{"eos_token_id", 7},
                       {"bos_token_id", 6},
                       {"do_sample", true},
                       {"hidden_size", 64},
                       {"top_k", nullptr}};
  const auto ends = [&](const json& given, const std::vector<int64_t>& learnt) {
    const std::optional<json> changed = GenerationConfigWithEnds(given, config, learnt);
    return changed ? *changed : json();
  };
  EXPECT_EQ(ends({{"eos_token_id", 1}, {"top_p", 0.5}}, {3}),
            (json{{"eos_token_id", {3, 1}}, {"top_p", 0.5}}));
  EXPECT_EQ(ends({{"eos_token_id", {5, 3}}}, {3, 4}), (json{{"eos_token_id", {3, 4, 5}}}));
  EXPECT_EQ(ends(json::object(), {3}), (json{{"eos_token_id", 3}}));
  EXPECT_EQ(ends({{"eos_token_id", nullptr}}, {3, 4}), (json{{"eos_token_id", {3, 4}}}));
  for (const json& given : {json{{"eos_token_id", 3}}, json{{"eos_token_id", {1, 3, 1}}}}) {
    EXPECT_TRUE(ends(given, {3}).is_null()) << given;
    EXPECT_TRUE(ends(given, {}).is_null()) << given;
  }
  // Where there is none it is made of the model's config.
  EXPECT_EQ(ends(json(), {3}),
            (json{{"eos_token_id", {3, 7}}, {"bos_token_id", 6}, {"do_sample", true}}));
  EXPECT_TRUE(ends(json(), {7}).is_null());
}

TEST(GenerationConfig, SaysHowBeamsAreSearched) {
  const GenerationConfig config = *ParseGeneration(
      R"({"num_beams": 4, "length_penalty": 2, "early_stopping": true, "max_length": 142,
          "forced_bos_token_id": 0, "forced_eos_token_id": [2], "encoder_no_repeat_ngram_size": 3})");
  SamplingOptions options = SamplingOf({}, config, 0.8);
  EXPECT_EQ(options.temperature, 0);
  EXPECT_EQ(options.beams, 4);
  EXPECT_EQ(options.length_penalty, 2);
  EXPECT_EQ(options.early_stopping, EarlyStopping::kYes);
  EXPECT_EQ(options.forced_first, 0);
  EXPECT_EQ(options.forced_last, 2);
  EXPECT_EQ(options.source_no_repeat_ngram, 3);
  EXPECT_EQ(config.max_length, 142);
  EXPECT_EQ(SamplingOf({}, *ParseGeneration(R"({"early_stopping": "never"})"), 0).early_stopping,
            EarlyStopping::kNever);
  SamplingFlags flags;
  flags.beams = 1;
  flags.length_penalty = 0.5;
  flags.early_stopping = EarlyStopping::kNo;
  options = SamplingOf(flags, config, 0.8);
  EXPECT_EQ(options.temperature, 0.8);
  EXPECT_EQ(options.beams, 1);
  EXPECT_EQ(options.length_penalty, 0.5);
  EXPECT_EQ(options.early_stopping, EarlyStopping::kNo);
}

TEST(GenerationConfig, OldFilesForceLanguageAndTask) {
  const GenerationConfig config = *ParseGeneration(
      R"({"forced_decoder_ids": [[1, null], [2, 9]], "decoder_start_token_id": 4,
          "is_multilingual": false, "no_timestamps_token_id": 7})");
  EXPECT_EQ(config.forced_decoder, (std::map<int64_t, int64_t>{{1, -1}, {2, 9}}));
  EXPECT_EQ(config.start_token, 4);
  EXPECT_EQ(config.no_timestamps, 7);
  EXPECT_EQ(config.multilingual, false);
}

TEST(GenerationConfig, AnOldModelsConfigSaysTheSame) {
  const auto parse = [](const std::string& text) {
    return ParseOldGenerationConfig(*ParseStrictJson(text, "config.json"));
  };
  const GenerationConfig config = *parse(
      R"({"model_type": "bart", "d_model": 64, "max_length": 9, "no_repeat_ngram_size": 1})");
  EXPECT_EQ(config.max_length, 9);
  EXPECT_EQ(config.no_repeat_ngram, 1);
  EXPECT_TRUE(config.warnings.empty());
  EXPECT_THAT(parse("{\"d_model\": 64,\n\"num_beam_groups\": 2}").status().message(),
              HasSubstr("config.json:2: num_beam_groups would change the tokens"));
}

TEST(GenerationConfig, WhatWouldChangeTokensIsNamedWithItsLine) {
  for (const char* entry : {R"("num_beams": 0)",
                            R"("bad_words_ids": [[1]])",
                            R"("typical_p": 0.9)",
                            R"("renormalize_logits": true)",
                            R"("forced_eos_token_id": [1, 2])",
                            R"("early_stopping": "no")",
                            R"("min_p": 0.1)",
                            R"("stop_strings": ["a"])",
                            R"("temperature": -1)",
                            R"("top_p": 1.5)",
                            R"("top_k": -1)",
                            R"("top_k": 2.5)",
                            R"("repetition_penalty": 0)",
                            R"("max_new_tokens": 0)",
                            R"("do_sample": 1)",
                            R"("eos_token_id": "a")",
                            R"("eos_token_id": [-1])",
                            R"("task": "listen")",
                            R"("is_multilingual": 1)",
                            R"("forced_decoder_ids": [[1]])",
                            R"("forced_decoder_ids": {"1": 2})"}) {
    SCOPED_TRACE(entry);
    const auto config = ParseGeneration(absl::StrCat("{\"use_cache\": true,\n", entry, "}"));
    EXPECT_EQ(config.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(config.status().message(), HasSubstr("generation_config.json:2: "));
  }
  EXPECT_FALSE(ParseGeneration("[]").ok());
  const GenerationConfig config = *ParseGeneration(R"({"top_kk": 3, "top_kkk": null})");
  EXPECT_THAT(config.warnings, ElementsAre(HasSubstr("generation_config.json:1: key \"top_kk\"")));
}

}  // namespace
}  // namespace spillway
