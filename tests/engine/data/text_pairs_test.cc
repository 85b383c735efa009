#include "engine/data/text_pairs.h"

#include <csignal>

#include "engine/base/stop_signal.h"
#include "engine/data/load_tokenizer.h"
#include "engine/data/paired_samples.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "io/file_system.h"
#include "tests/scratch_directory.h"

namespace spillway {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class TextPairsTest : public testing::Test {
 protected:
  std::string Write(const std::string& name, const std::string& content) {
    EXPECT_TRUE(WriteFileAtomically(FileSystem::Real(), dir_ / name, content).ok());
    return dir_ / name;
  }
  absl::Status Read(const std::string& name, const std::string& content, const PairKeys& keys,
                    bool needs_target = true) {
    found_.clear();
    return ReadTextPairs(Write(name, content), keys, needs_target, [&](const TextPairRow& pair) {
      found_.push_back(
          absl::StrCat(pair.line, " ", pair.source, " -> ", pair.target.value_or("none")));
      return absl::OkStatus();
    });
  }
  std::string Refusal(const std::string& name, const std::string& content, const PairKeys& keys) {
    const absl::Status status = Read(name, content, keys);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  }

  const ScratchDirectory dir_;
  std::vector<std::string> found_;
};

TEST_F(TextPairsTest, NamesReachInsideObjects) {
  ASSERT_TRUE(Read("a.jsonl", R"({"prompt": "a", "completion": "b", "more": 1})", {}).ok());
  EXPECT_THAT(found_, ElementsAre("1 a -> b"));
  const std::string nested = R"({"id": 1, "translation": {"en": "one", "de.at": "eins"}})"
                             "\n\n"
                             R"({"translation.en": "two", "translation": {"de": {"at": "zwei"}}})";
  ASSERT_TRUE(Read("b.jsonl", nested, {"translation.en", "translation.de.at", "say: "}).ok());
  EXPECT_THAT(found_, ElementsAre("1 say: one -> eins", "3 say: two -> zwei"));
  ASSERT_TRUE(Read("c.tsv", "en\tde\none\teins\n", {"en", "de"}).ok());
  EXPECT_THAT(found_, ElementsAre("2 one -> eins"));
}

TEST_F(TextPairsTest, AnswersNeedNoTargets) {
  const char* const rows =
      "{\"prompt\": \"a\"}\n{\"prompt\": \"b\", \"completion\": \"\"}\n"
      "{\"prompt\": \"c\", \"completion\": 3}\n{\"prompt\": \"d\", \"completion\": \"e\"}";
  ASSERT_TRUE(Read("a.jsonl", rows, {}, /*needs_target=*/false).ok());
  EXPECT_THAT(found_, ElementsAre("1 a -> none", "2 b -> ", "3 c -> none", "4 d -> e"));
}

TEST_F(TextPairsTest, WhatIsWrongIsNamed) {
  EXPECT_THAT(Refusal("a.jsonl", R"({"en": "a"})", {}),
              AllOf(HasSubstr("a.jsonl:1: it has no \"prompt\""), HasSubstr("--source-key"),
                    HasSubstr("its keys: en")));
  EXPECT_THAT(Refusal("a.jsonl", R"({"prompt": "a"})", {}), HasSubstr("--target-key"));
  EXPECT_THAT(Refusal("a.jsonl", R"({"prompt": "a", "completion": " "})", {}),
              HasSubstr("a.jsonl:1: \"completion\" is empty: there is nothing to learn"));
  EXPECT_THAT(Refusal("a.jsonl", R"({"prompt": {"a": 1}, "completion": "b"})", {}),
              HasSubstr("\"prompt\" is a JSON object, not a string"));
  EXPECT_THAT(Refusal("a.txt", "a", {}), HasSubstr(".jsonl, .csv or .tsv"));
  EXPECT_THAT(Refusal("a.jsonl", "\n", {}), HasSubstr("there are no texts in it"));
}

class PairedSamplesTest : public TextPairsTest {
 protected:
  PairedSamplesOptions Options() {
    PairedSamplesOptions options;
    options.tokenizer = tokenizer_.get();
    options.max_source_length = 4;
    options.max_target_length = 3;
    options.vocabulary = 256;
    options.scratch_directory = dir_ / "";
    return options;
  }
  absl::StatusOr<std::unique_ptr<PairedSamples>> Open(const PairedSamplesOptions& options,
                                                      const char* target = "xyz") {
    const std::string rows = absl::StrCat(R"({"prompt": "abcdef", "completion": ")", target,
                                          R"("})"
                                          "\n"
                                          R"({"prompt": "g", "completion": "h"})"
                                          "\n");
    return PairedSamples::Read({Write("rows.jsonl", rows)}, options);
  }

  const std::unique_ptr<Tokenizer> tokenizer_ = *MakeTokenizer("bytes", "", {});
};

TEST_F(PairedSamplesTest, LongTextsLoseTheirEnd) {
  const auto samples = Open(Options());
  ASSERT_TRUE(samples.ok()) << samples.status();
  EXPECT_EQ((*samples)->size(), 2);
  EXPECT_THAT((*samples)->Get(0)->source, ElementsAre('a', 'b', 'c', 'd'));
  EXPECT_THAT((*samples)->Get(0)->target, ElementsAre('x', 'y', 'z'));
  EXPECT_THAT((*samples)->Get(1)->source, ElementsAre('g'));
  EXPECT_THAT((*samples)->Get(1)->target, ElementsAre('h'));
  EXPECT_EQ((*samples)->longest_source(), 4);
  EXPECT_EQ((*samples)->longest_target(), 3);
  EXPECT_NE((*samples)->fingerprint(), (*Open(Options(), "xyq"))->fingerprint());
}

TEST_F(PairedSamplesTest, TargetsEndWhereTheTokenizerEndsNone) {
  PairedSamplesOptions options = Options();
  options.end_token = 7;
  const auto samples = Open(options);
  ASSERT_TRUE(samples.ok()) << samples.status();
  EXPECT_THAT((*samples)->Get(0)->source, ElementsAre('a', 'b', 'c', 'd'));
  EXPECT_THAT((*samples)->Get(0)->target, ElementsAre('x', 'y', 7));
  EXPECT_THAT((*samples)->Get(1)->target, ElementsAre('h', 7));
}

TEST_F(PairedSamplesTest, TokensOfAnotherModelAreRefused) {
  PairedSamplesOptions options = Options();
  options.vocabulary = 'c';
  EXPECT_THAT(std::string(Open(options).status().message()),
              AllOf(HasSubstr("rows.jsonl:1"), HasSubstr("the text has token 99"),
                    HasSubstr("is not the model's")));
}

TEST_F(PairedSamplesTest, ASignalEndsTheReadingOfPairs) {
  const StopSignal signals;
  StopSignal::Receive(SIGTERM);
  EXPECT_TRUE(absl::IsCancelled(Open(Options()).status()));
}

}  // namespace
}  // namespace spillway
