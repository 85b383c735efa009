#include "engine/data/questions.h"

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "io/file_system.h"
#include "tests/scratch_directory.h"

namespace spillway {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class QuestionsTest : public testing::Test {
 protected:
  absl::Status Read(const std::string& name, const std::string& content, bool needs = true) {
    found_.clear();
    const std::string path = dir_ / name;
    EXPECT_TRUE(WriteFileAtomically(FileSystem::Real(), path, content).ok());
    return ReadQuestions(path, needs, [&](const Question& question) {
      found_.push_back(question);
      return absl::OkStatus();
    });
  }
  std::string Refusal(const std::string& name, const std::string& content) {
    const absl::Status status = Read(name, content);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return std::string(status.message());
  }

  const ScratchDirectory dir_;
  std::vector<Question> found_;
};

constexpr const char* kSquad = R"({"version": "v2.0", "data": [{"title": "T", "paragraphs": [
  {"qas": [{"id": "x", "question": "Who?", "answers": [{"text": "B", "answer_start": 2},
                                                       {"text": "C", "answer_start": 4}],
            "is_impossible": false},
           {"id": "y", "question": "Why?", "answers": [], "is_impossible": true,
            "plausible_answers": [{"text": "A", "answer_start": 0}]}],
   "context": "A B C"}]},
  {"paragraphs": [{"context": "D", "qas": [{"id": 7, "question": "What?",
                                             "answers": [{"text": "D", "answer_start": 0}]}]}]}]})";

TEST_F(QuestionsTest, SquadsNestingAndRowsSayTheSame) {
  const std::string first = R"({"id": "x", "question": "Who?", "context": "A B C",)"
                            R"( "answers": {"text": ["B", "C"], "answer_start": [2, 4]}})";
  const std::string second = R"({"id": "y", "question": "Why?", "context": "A B C",)"
                             R"( "answers": {"text": [], "answer_start": []}})";
  const std::string third = R"({"id": 7, "question": "What?", "context": "D",)"
                            R"( "answers": [{"text": "D", "answer_start": 0}], "title": [1]})";
  const std::pair<const char*, std::string> files[] = {
      {"a.json", kSquad},
      {"a.jsonl", absl::StrCat(first, "\n", second, "\n\n", third)},
      {"b.json", absl::StrCat("[", first, ",", second, ",", third, "]")},
      {"c.json", absl::StrCat("{\"data\": [", first, ",", second, ",", third, "]}")}};
  for (const auto& [name, content] : files) {
    SCOPED_TRACE(name);
    const absl::Status status = Read(name, content);
    ASSERT_TRUE(status.ok()) << status;
    ASSERT_EQ(found_.size(), 3u);
    EXPECT_EQ(found_[0].id, "x");
    EXPECT_EQ(found_[0].question, "Who?");
    EXPECT_EQ(found_[0].context, "A B C");
    ASSERT_EQ(found_[0].answers.size(), 2u);
    EXPECT_EQ(found_[0].answers[1].text, "C");
    EXPECT_EQ(found_[0].answers[1].start, 4);
    EXPECT_EQ(found_[1].id, "y");
    EXPECT_TRUE(found_[1].answers.empty());
    EXPECT_EQ(found_[2].id, "7");
    EXPECT_EQ(found_[2].context, "D");
  }
}

TEST_F(QuestionsTest, QuestionsToBeAnsweredNeedNoAnswers) {
  const std::string row = R"({"question": "Who?", "context": "A"})";
  ASSERT_TRUE(Read("a.jsonl", row, /*needs=*/false).ok());
  EXPECT_EQ(found_[0].id, "0");
  EXPECT_THAT(Refusal("a.jsonl", row), AllOf(HasSubstr("a.jsonl:1"), HasSubstr("\"answers\"")));
  EXPECT_THAT(Refusal("a.json", absl::StrCat("[", row, "]")),
              AllOf(HasSubstr("a.json: question 1"), HasSubstr("\"answers\"")));
}

TEST_F(QuestionsTest, WhatIsNoQuestionIsRefusedByName) {
  EXPECT_THAT(Refusal("a.txt", "Who?"), HasSubstr(".jsonl"));
  EXPECT_THAT(Refusal("a.json", "{\"data\": ["), HasSubstr("no JSON"));
  EXPECT_THAT(Refusal("a.json", "{\"data\": []}"), HasSubstr("no questions"));
  EXPECT_THAT(Refusal("a.json", R"([{"context": "A", "qas": 3}])"), HasSubstr("\"qas\""));
  EXPECT_THAT(Refusal("a.json", R"([{"context": "A"}])"), HasSubstr("\"question\""));
  EXPECT_THAT(Refusal("a.json", R"([{"context": " ", "question": "?"}])"), HasSubstr("empty"));
  const auto answered = [](const std::string& answers) {
    return absl::StrCat(R"({"question": "Who?", "context": "A", "answers": )", answers, "}");
  };
  EXPECT_THAT(Refusal("a.jsonl", answered("3")), HasSubstr("an object or a list"));
  EXPECT_THAT(Refusal("a.jsonl", answered("[3]")), HasSubstr("no objects"));
  EXPECT_THAT(Refusal("a.jsonl", answered(R"([{"text": "A", "answer_start": -1}])")),
              HasSubstr("answer_start"));
  EXPECT_THAT(Refusal("a.jsonl", answered(R"({"text": ["A"], "answer_start": []})")),
              HasSubstr("one length"));
}

TEST_F(QuestionsTest, AnErrorEndsTheReading) {
  const std::string path = dir_ / "a.json";
  ASSERT_TRUE(WriteFileAtomically(FileSystem::Real(), path, kSquad).ok());
  int taken = 0;
  const absl::Status status = ReadQuestions(path, true, [&](const Question&) {
    return ++taken == 2 ? absl::InvalidArgumentError("enough") : absl::OkStatus();
  });
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("question 2"), HasSubstr("enough")));
  EXPECT_EQ(taken, 2);
}

}  // namespace
}  // namespace spillway
