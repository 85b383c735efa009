#include "engine/data/question_samples.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "engine/measures/answers.h"
#include "gmock/gmock.h"
#include "io/file_system.h"
#include "tests/engine/data/tokenizer_testing.h"
#include "tests/engine/format_testing.h"
#include "tests/scratch_directory.h"
#include "tests/transformer_config.h"

namespace spillway {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

constexpr const char* kGolden = SPILLWAY_SOURCE_DIR "/tests/golden/";

const json& Golden() {
  static const auto& golden =
      *new json(json::parse(ReadFile(absl::StrCat(kGolden, "questions.json"))));
  return golden;
}

std::unique_ptr<Tokenizer> FamilyTokenizer(const std::string& name) {
  return TokenizerOf(
      json::parse(ReadFile(absl::StrCat(kGolden, "tokenizers/families/", name, ".json"))));
}

ModelConfig Encoder() {
  return ConfigOf({{"model_type", "bert"},
                   {"architectures", {"BertForQuestionAnswering"}},
                   {"vocab_size", 10000},
                   {"hidden_size", 8},
                   {"num_attention_heads", 2},
                   {"num_hidden_layers", 1}});
}

int64_t CharactersBefore(absl::string_view text, size_t byte) {
  int64_t characters = 0;
  while (*ByteOfCharacter(text, characters) < static_cast<int64_t>(byte)) ++characters;
  return characters;
}

// `score` of the script.
float Score(int64_t question, int64_t window, int64_t token, bool last) {
  const double wave =
      std::sin(static_cast<double>(question) * 12.9898 + static_cast<double>(window) * 78.233 +
               static_cast<double>(token) * (last ? 1.7 : 2.3));
  return static_cast<float>(6 * wave + (token == 0 && question % 3 == 2 ? 18 : 0));
}

// SQuAD's questions of the script.
std::vector<Question> GoldenQuestions(const ScratchDirectory& dir) {
  const std::string path = dir / "squad.json";
  EXPECT_TRUE(WriteFileAtomically(FileSystem::Real(), path, Golden()["squad"].dump()).ok());
  std::vector<Question> questions;
  EXPECT_TRUE(ReadQuestions(path, true, [&](const Question& question) {
                questions.push_back(question);
                return absl::OkStatus();
              }).ok());
  return questions;
}

WindowOptions GoldenWindows() { return {Golden()["seq_len"], Golden()["overlap"]}; }

TEST(EncodeSpans, PlacesAreThoseOfHuggingFacesTokenizers) {
  for (const auto& [name, texts] : Golden()["offsets"].items()) {
    const auto tokenizer = FamilyTokenizer(name);
    for (const json& one : texts) {
      SCOPED_TRACE(absl::StrCat(name, ": ", one["text"].dump()));
      const std::string text = one["text"];
      const auto spans = tokenizer->EncodeSpans(text);
      ASSERT_TRUE(spans.ok()) << spans.status();
      json ids = json::array(), offsets = json::array();
      for (const TokenSpan& span : *spans) {
        ids.push_back(span.token);
        offsets.push_back({CharactersBefore(text, span.begin), CharactersBefore(text, span.end)});
      }
      EXPECT_EQ(ids, one["ids"]);
      EXPECT_EQ(offsets, one["offsets"]);
    }
  }
}

TEST(EncodeSpans, TokensThatAreBytesHaveTheirCharacters) {
  const auto spans = NewByteTokenizer()->EncodeSpans("a\u00e9b");
  ASSERT_TRUE(spans.ok());
  ASSERT_EQ(spans->size(), 4u);
  EXPECT_EQ((*spans)[1].begin, 1u);
  EXPECT_EQ((*spans)[1].end, 3u);
  EXPECT_EQ((*spans)[2].begin, 1u);
  EXPECT_EQ((*spans)[2].end, 3u);
}

class QuestionWindows : public testing::TestWithParam<const char*> {
 protected:
  const std::unique_ptr<Tokenizer> tokenizer_ = FamilyTokenizer(GetParam());
  const json& golden_ = Golden()["windows"][GetParam()];
  const ScratchDirectory dir_;
  const std::vector<Question> questions_ = GoldenQuestions(dir_);
  const ModelConfig model_ = Encoder();
};

TEST_P(QuestionWindows, AreTransformers) {
  ASSERT_EQ(questions_.size(), golden_.size());
  int answered = 0;
  for (size_t i = 0; i < questions_.size(); ++i) {
    SCOPED_TRACE(questions_[i].question);
    const auto windows = WindowsOf(questions_[i], *tokenizer_, model_.transformer, GoldenWindows());
    ASSERT_TRUE(windows.ok()) << windows.status();
    ASSERT_EQ(windows->size(), golden_[i]["windows"].size());
    for (size_t w = 0; w < windows->size(); ++w) {
      const QuestionWindow& window = (*windows)[w];
      const json& expected = golden_[i]["windows"][w];
      EXPECT_EQ(json(window.text.tokens), expected["ids"]);
      if (GetParam() == std::string("bert_uncased")) {
        EXPECT_EQ(json(window.text.types), expected["types"]);
      }
      json places = json::array();
      for (const auto& place : window.places) {
        places.push_back(place ? json{CharactersBefore(questions_[i].context, place->first),
                                      CharactersBefore(questions_[i].context, place->second)}
                               : json());
      }
      EXPECT_EQ(places, expected["places"]);
      EXPECT_EQ(window.first, expected["start"].get<int64_t>());
      EXPECT_EQ(window.last, expected["end"].get<int64_t>());
      answered += window.first > 0 ? 1 : 0;
    }
  }
  EXPECT_GE(answered, 7);
}

TEST_P(QuestionWindows, AnswersAreTransformers) {
  int empty = 0;
  for (size_t i = 0; i < questions_.size(); ++i) {
    SCOPED_TRACE(questions_[i].question);
    const auto windows = WindowsOf(questions_[i], *tokenizer_, model_.transformer, GoldenWindows());
    ASSERT_TRUE(windows.ok()) << windows.status();
    std::vector<ScoredWindow> scored;
    for (size_t w = 0; w < windows->size(); ++w) {
      ScoredWindow& window = scored.emplace_back();
      window.places = (*windows)[w].places;
      for (size_t t = 0; t < window.places.size(); ++t) {
        const auto question = static_cast<int64_t>(i);
        window.first.push_back(Score(question, w, t, false));
        window.last.push_back(Score(question, w, t, true));
      }
    }
    AnswerOptions options{.most_tokens = Golden()["most_tokens"]};
    for (const char* key : {"answer", "answer_or_none"}) {
      SCOPED_TRACE(key);
      const FoundAnswer found = FindAnswer(scored, questions_[i].context, options);
      const json& expected = golden_[i][key];
      EXPECT_EQ(questions_[i].context.substr(found.begin, found.end - found.begin),
                expected["text"]);
      EXPECT_NEAR(found.score, expected["score"].get<double>(), 1e-5);
      EXPECT_NEAR(found.probability, expected["probability"].get<double>(), 1e-6);
      empty += found.end == 0 ? 1 : 0;
      options.null_threshold = 0.5;
    }
  }
  EXPECT_GE(empty, 1);
}

INSTANTIATE_TEST_SUITE_P(Tokenizers, QuestionWindows, testing::Values("bert_uncased", "roberta"),
                         [](const auto& info) { return info.param; });

TEST(QuestionSamples, KeepWindowsAndQuestions) {
  const ScratchDirectory dir;
  const std::vector<Question> questions = GoldenQuestions(dir);
  const auto tokenizer = FamilyTokenizer("bert_uncased");
  const ModelConfig model = Encoder();
  const auto samples = QuestionSamples::Read({dir / "squad.json"}, model.transformer,
                                             {tokenizer.get(), GoldenWindows(), true, dir / "."});
  ASSERT_TRUE(samples.ok()) << samples.status();
  EXPECT_EQ((*samples)->questions(), 8);
  EXPECT_EQ((*samples)->impossible(), 1);
  int64_t number = 0, tokens = 0;
  for (size_t i = 0; i < questions.size(); ++i) {
    const auto windows = *WindowsOf(questions[i], *tokenizer, model.transformer, GoldenWindows());
    for (const QuestionWindow& window : windows) {
      const auto sample = (*samples)->Get(number++);
      ASSERT_TRUE(sample.ok()) << sample.status();
      EXPECT_EQ(sample->question, static_cast<int64_t>(i));
      EXPECT_EQ(sample->window.text.tokens, window.text.tokens);
      EXPECT_EQ(sample->window.text.types, window.text.types);
      EXPECT_EQ(sample->window.places, window.places);
      EXPECT_EQ(sample->window.first, window.first);
      EXPECT_EQ(sample->window.last, window.last);
      tokens += static_cast<int64_t>(window.text.tokens.size());
    }
    const auto kept = (*samples)->QuestionOf(static_cast<int64_t>(i));
    ASSERT_TRUE(kept.ok()) << kept.status();
    EXPECT_EQ(kept->context, questions[i].context);
    EXPECT_EQ(kept->id, questions[i].id);
    ASSERT_EQ(kept->answers.size(), questions[i].answers.size());
    if (kept->answers.empty()) continue;
    EXPECT_EQ(kept->answers[0].text, questions[i].answers[0].text);
  }
  EXPECT_EQ((*samples)->size(), number);
  EXPECT_EQ((*samples)->tokens(), tokens);
  EXPECT_EQ((*samples)->longest(), 64);
}

TEST(QuestionSamples, WhatHasNoRoomOrLiesOutsideIsRefused) {
  const auto tokenizer = FamilyTokenizer("bert_uncased");
  const ModelConfig model = Encoder();
  Question question{"1", "Who?", "Paris is a city", {{"Paris", 0}}};
  const auto refusal = [&](const WindowOptions& options) {
    return std::string(
        WindowsOf(question, *tokenizer, model.transformer, options).status().message());
  };
  EXPECT_EQ(refusal({64, 16}), "");
  EXPECT_THAT(refusal({8, 4}), HasSubstr("--seq-len 8"));
  question.answers[0].start = 12;
  EXPECT_THAT(refusal({64, 16}), HasSubstr("behind the context"));
}

}  // namespace
}  // namespace spillway
