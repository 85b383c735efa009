#include "engine/data/masked_texts.h"

#include <csignal>

#include "engine/base/stop_signal.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "io/file_system.h"
#include "tests/engine/data/masking_testing.h"
#include "tests/scratch_directory.h"

namespace spillway {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class MaskedTextsTest : public testing::Test {
 protected:
  MaskedTextsTest() { config_.vocabulary = 259; }

  absl::StatusOr<std::unique_ptr<MaskedTexts>> Lay(const std::string& name,
                                                   const std::string& content, int64_t seq_len,
                                                   bool lines) {
    const std::string path = dir_ / name;
    EXPECT_TRUE(WriteFileAtomically(FileSystem::Real(), path, content).ok());
    TokenSourceOptions options;
    options.files = {path};
    options.tokenizer = tokenizer_.get();
    options.begins_lines = false;
    options.ends_lines = !lines;
    options.scratch_directory = dir_ / "";
    options.vocabulary = config_.vocabulary;
    auto source = TokenSource::Open(options);
    EXPECT_TRUE(source.ok()) << source.status();
    source_ = *std::move(source);
    return MaskedTexts::Lay(source_.get(), {.tokenizer = tokenizer_.get(),
                                            .seq_len = seq_len,
                                            .config = &config_,
                                            .lines = lines,
                                            .scratch_directory = dir_ / ""});
  }

  const ScratchDirectory dir_;
  TransformerConfig config_;
  std::unique_ptr<Tokenizer> tokenizer_ = MaskingTokenizer();
  std::unique_ptr<TokenSource> source_;
};

TEST_F(MaskedTextsTest, WindowsAreWholeTextsEach) {
  const auto texts = *Lay("a.txt", "abcdefgh", 5, false);
  EXPECT_EQ(texts->size(), 2);  // "gh" is left
  EXPECT_EQ(texts->longest(), 5);
  const MaskedTexts::Text second = *texts->Get(1);
  EXPECT_THAT(second.encoded.tokens, ElementsAre(kTestBegin, 'd', 'e', 'f', kTestEnd));
  EXPECT_THAT(second.encoded.types, ElementsAre(0, 0, 0, 0, 0));
  EXPECT_THAT(second.may, ElementsAre(false, true, true, true, false));
}

TEST_F(MaskedTextsTest, LinesAreTextsAndLoseTheirEnd) {
  testing::internal::CaptureStderr();
  const auto texts = *Lay("a.jsonl",
                          "{\"text\": \"ab\"}\n{\"text\": \"c\"}\n"
                          "{\"prompt\": \"x\", \"completion\": \"yzabc\"}\n",
                          6, true);
  EXPECT_EQ(texts->size(), 3);
  EXPECT_EQ(texts->longest(), 6);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("a.jsonl: 1 of 3 lines are longer than --seq-len 6 and lose their end"));
  EXPECT_THAT(texts->Get(1)->encoded.tokens, ElementsAre(kTestBegin, 'c', kTestEnd));
  const MaskedTexts::Text last = *texts->Get(2);
  EXPECT_THAT(last.encoded.tokens, ElementsAre(kTestBegin, 'x', 'y', 'z', 'a', kTestEnd));
  // A prompt carries no loss.
  EXPECT_THAT(last.may, ElementsAre(false, false, true, true, true, false));
}

TEST_F(MaskedTextsTest, SpecialTokensInTheTextAreNeverChosen) {
  const auto texts = *Lay("a.txt", "a[MASK]b[SEP]", 6, false);
  const MaskedTexts::Text text = *texts->Get(0);
  EXPECT_THAT(text.encoded.tokens,
              ElementsAre(kTestBegin, 'a', kTestMask, 'b', kTestEnd, kTestEnd));
  EXPECT_THAT(text.may, ElementsAre(false, true, false, true, false, false));
}

TEST_F(MaskedTextsTest, WhatCantBeIsRefused) {
  EXPECT_THAT(Lay("a.txt", "abc", 2, false).status().message(), HasSubstr("--seq-len 2"));
  EXPECT_THAT(Lay("a.txt", "abc", 50, false).status().message(), HasSubstr("smaller --seq-len"));
  config_.vocabulary = 257;
  tokenizer_ = NewByteTokenizer();
  const absl::Status status = Lay("a.txt", "abc", 3, false).status();
  EXPECT_THAT(status.message(), HasSubstr("bytes"));
  EXPECT_THAT(status.message(), HasSubstr("[MASK]"));
}

TEST_F(MaskedTextsTest, ASignalEndsTheLookForLines) {
  ASSERT_TRUE(Lay("a.jsonl", "{\"text\": \"ab\"}\n", 6, true).ok());
  const StopSignal signals;
  StopSignal::Receive(SIGTERM);
  const MaskedTextsOptions options = {.tokenizer = tokenizer_.get(),
                                      .seq_len = 6,
                                      .config = &config_,
                                      .lines = true,
                                      .scratch_directory = dir_ / ""};
  EXPECT_TRUE(absl::IsCancelled(MaskedTexts::Lay(source_.get(), options).status()));
}

}  // namespace
}  // namespace spillway
