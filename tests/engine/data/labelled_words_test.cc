#include "engine/data/labelled_words.h"

#include <csignal>

#include "engine/base/stop_signal.h"
#include "engine/data/labelled_samples.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "io/file_system.h"
#include "tests/engine/data/masking_testing.h"
#include "tests/scratch_directory.h"

namespace spillway {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class LabelledWordsTest : public testing::Test {
 protected:
  LabelledWordsTest() {
    config_.vocabulary = 259;
    config_.classifier.emplace();
    config_.classifier->labels = {"O", "B-X"};
    config_.classifier->of_tokens = true;
    config_.classifier->problem = ClassifierProblem::kSingleLabel;
  }

  absl::StatusOr<std::unique_ptr<LabelledSamples>> Read(const std::string& content,
                                                        TextKeys keys = {},
                                                        const std::string& name = "a.jsonl") {
    const std::string path = dir_ / name;
    EXPECT_TRUE(WriteFileAtomically(FileSystem::Real(), path, content).ok());
    return LabelledSamples::ReadWords({path}, config_,
                                      {.tokenizer = tokenizer_.get(),
                                       .keys = std::move(keys),
                                       .seq_len = seq_len_,
                                       .scratch_directory = dir_ / ""});
  }
  std::string Refusal(const std::string& content, TextKeys keys = {},
                      const std::string& name = "a.jsonl") {
    const auto read = Read(content, std::move(keys), name);
    EXPECT_EQ(read.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(read.status().message());
  }

  const ScratchDirectory dir_;
  TransformerConfig config_;
  int64_t seq_len_ = 10;
  const std::unique_ptr<Tokenizer> tokenizer_ = MaskingTokenizer();
};

TEST_F(LabelledWordsTest, AWordsLabelIsItsFirstTokens) {
  constexpr float kNo = LabelledSamples::kWithoutLabel;
  testing::internal::CaptureStderr();
  const auto samples = *Read(
      "{\"words\": [\"ab\", \"c\"], \"tags\": [\"B-X\", 0], \"id\": 7}\n"
      "{\"words\": [\"d\", \"efghij\", \"k\"], \"tags\": [0, 1, 1]}\n");
  EXPECT_EQ(samples->size(), 2);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr(": 1 of 2 texts are longer than --seq-len 10 and lose their end"));
  const LabelledSamples::Sample first = *samples->Get(0);
  EXPECT_THAT(first.text.tokens, ElementsAre(kTestBegin, ' ', 'a', 'b', ' ', 'c', kTestEnd));
  EXPECT_THAT(first.labels, ElementsAre(kNo, 1, kNo, kNo, 0, kNo, kNo));
  const LabelledSamples::Sample second = *samples->Get(1);
  EXPECT_THAT(second.text.tokens,
              ElementsAre(kTestBegin, ' ', 'd', ' ', 'e', 'f', 'g', 'h', 'i', kTestEnd));
  EXPECT_THAT(second.labels, ElementsAre(kNo, 0, kNo, 1, kNo, kNo, kNo, kNo, kNo, kNo));
}

TEST_F(LabelledWordsTest, WhatIsWrongIsNamedWithItsLine) {
  const std::string good = "{\"tokens\": [\"a\"], \"ner_tags\": [0]}\n";
  EXPECT_THAT(Refusal(good + "{\"tokens\": [\"a\", \"b\"], \"ner_tags\": [0]}"),
              HasSubstr("a.jsonl:2: \"tokens\" has 2 words, and \"ner_tags\" 1"));
  EXPECT_THAT(Refusal(good + "{\"tokens\": [\"a\"], \"ner_tags\": [\"I-X\"]}"),
              HasSubstr("a.jsonl:2: the label \"I-X\" is none of the 2"));
  EXPECT_THAT(Refusal(good + "{\"tokens\": \"a\", \"ner_tags\": [0]}"), HasSubstr("a list"));
  EXPECT_THAT(Refusal(good + "{\"tokens\": [\"a\", 3], \"ner_tags\": [0, 0]}"),
              HasSubstr("in the place of word 2"));
  EXPECT_THAT(Refusal(good + "{\"tokens\": [], \"ner_tags\": []}"), HasSubstr("no words"));
  EXPECT_THAT(Refusal("{\"tokens\": [\"a\"]}"), HasSubstr("--label-key"));
  EXPECT_THAT(Refusal("{\"text\": \"a\", \"ner_tags\": [0]}"), HasSubstr("--text-keys"));
  EXPECT_THAT(Refusal(good, {{"tokens", "words"}, ""}), HasSubstr("one name"));
  EXPECT_THAT(Refusal("tokens,ner_tags\na,0\n", {}, "a.csv"), HasSubstr(".jsonl"));
  seq_len_ = 2;
  EXPECT_THAT(Refusal(good), HasSubstr("--seq-len 2"));
}

TEST_F(LabelledWordsTest, ASignalEndsTheReadingOfLabels) {
  const StopSignal signals;
  StopSignal::Receive(SIGTERM);
  const auto read = Read("{\"tokens\": [\"a\"], \"ner_tags\": [0]}\n");
  EXPECT_TRUE(absl::IsCancelled(read.status()));
}

}  // namespace
}  // namespace spillway
