#include "engine/data/data_labels.h"

#include "tests/engine/format_testing.h"
#include "tests/scratch_directory.h"

namespace spillway {
namespace {

using Labels = std::vector<std::string>;
using absl::StatusCode;
using testing::ElementsAre;

class DataLabelsTest : public testing::Test {
 protected:
  absl::StatusOr<Labels> Find(const std::string& name, const std::string& content) {
    WriteFile(scratch_ / name, content);
    return FindLabels({scratch_ / name}, {}, classifier_, may_replace_);
  }
  absl::StatusOr<Labels> OfTable(const Labels& labels) {
    std::string table = "text,label\n";
    for (const std::string& label : labels) table += "a," + label + "\n";
    return Find("a.csv", table);
  }

  ScratchDirectory scratch_;
  ClassifierConfig classifier_ = {.labels = {"LABEL_0", "LABEL_1"},
                                  .problem = ClassifierProblem::kSingleLabel};
  bool may_replace_ = false;
};

TEST_F(DataLabelsTest, NamesAreSortedByTheirBytes) {
  EXPECT_THAT(*OfTable({"good", "bad", "good"}), ElementsAre("bad", "good"));
  EXPECT_THAT(*OfTable({"b", "B", "\xc3\xa4", "a"}), ElementsAre("B", "a", "b", "\xc3\xa4"));
  EXPECT_THAT(*OfTable({"1", "good"}), ElementsAre("1", "good"));
  EXPECT_THAT(*Find("a.jsonl",
                    "{\"text\": \"a\", \"label\": true}\n"
                    "{\"text\": \"a\", \"label\": false}\n"),
              ElementsAre("false", "true"));
}

TEST_F(DataLabelsTest, NumbersFromZeroOnKeepTheirDefaultNames) {
  EXPECT_THAT(*OfTable({"1", "0"}), ElementsAre("LABEL_0", "LABEL_1"));
  EXPECT_THAT(*OfTable({"0", "2", "1"}), ElementsAre("LABEL_0", "LABEL_1", "LABEL_2"));
  EXPECT_THAT(*OfTable({"LABEL_1", "LABEL_0"}), ElementsAre("LABEL_0", "LABEL_1"));
  classifier_.labels = {"LABEL_0", "LABEL_1", "LABEL_2"};
  EXPECT_THAT(*OfTable({"0", "1"}), ElementsAre("LABEL_0", "LABEL_1", "LABEL_2"));
}

TEST_F(DataLabelsTest, OtherNumbersAreNamesInTheirOrder) {
  EXPECT_THAT(*OfTable({"10", "2", "-1"}), ElementsAre("-1", "2", "10"));
  EXPECT_THAT(
      *Find("a.jsonl", "{\"text\": \"a\", \"label\": 5}\n{\"text\": \"a\", \"label\": 1.0}\n"),
      ElementsAre("1", "5"));
}

TEST_F(DataLabelsTest, OfListsAllNamesCount) {
  classifier_.problem = ClassifierProblem::kMultiLabel;
  EXPECT_THAT(*Find("a.jsonl",
                    "{\"text\": \"a\", \"label\": [\"x\", \"z\"]}\n"
                    "{\"text\": \"a\", \"label\": []}\n"
                    "{\"text\": \"a\", \"label\": [\"y\"]}\n"),
              ElementsAre("x", "y", "z"));
  EXPECT_THAT(*Find("a.jsonl", "{\"text\": \"a\", \"label\": [0, 1, 1]}\n"),
              ElementsAre("LABEL_0", "LABEL_1", "LABEL_2"));
  ExpectError(Find("a.jsonl", "{\"text\": \"a\", \"label\": \"x\"}\n").status(),
              StatusCode::kInvalidArgument, {"a.jsonl:1", "is no list"});
}

TEST_F(DataLabelsTest, WordsHaveLabelsToo) {
  classifier_.of_tokens = true;
  EXPECT_THAT(*Find("a.jsonl", "{\"tokens\": [\"a\", \"b\"], \"ner_tags\": [\"O\", \"B-PER\"]}\n"),
              ElementsAre("B-PER", "O"));
  EXPECT_THAT(*Find("a.jsonl", "{\"tokens\": [\"a\", \"b\", \"c\"], \"ner_tags\": [2, 1, 0]}\n"),
              ElementsAre("LABEL_0", "LABEL_1", "LABEL_2"));
}

TEST_F(DataLabelsTest, LabelsThatAreNoClassesAreRefused) {
  ExpectError(OfTable({"good", "good"}).status(), StatusCode::kInvalidArgument,
              {"a.csv:2", "every row has the label \"good\""});
  ExpectError(Find("a.jsonl", "{\"text\": \"a\", \"label\": 0.5}\n").status(),
              StatusCode::kInvalidArgument,
              {"a.jsonl:1", "0.5", "\"problem_type\": \"regression\""});
  ExpectError(Find("a.jsonl", "{\"text\": \"a\", \"label\": {}}\n").status(),
              StatusCode::kInvalidArgument, {"a.jsonl:1", "no name and no whole number"});
  Labels many;
  for (size_t i = 0; i <= kMostDataLabels; ++i) many.push_back("n" + std::to_string(i));
  ExpectError(OfTable(many).status(), StatusCode::kInvalidArgument, {"a.csv:10002", "--label-key"});
}

TEST_F(DataLabelsTest, NamesOfTheConfigStayAndTheErrorNamesTheFlagForOthers) {
  classifier_.labels = {"neg", "pos"};
  EXPECT_THAT(*OfTable({"pos"}), ElementsAre("neg", "pos"));
  EXPECT_THAT(*OfTable({"1", "0"}), ElementsAre("neg", "pos"));
  ExpectError(OfTable({"pos", "good", "bad"}).status(), StatusCode::kInvalidArgument,
              {"a.csv:4: the label \"bad\" is none of the 2 of config.json (id2label): neg, pos",
               "--ignore-mismatched-sizes trains a new head"});
}

TEST_F(DataLabelsTest, OthersThanTheConfigsReplaceThemWhereTheHeadMayBeNew) {
  may_replace_ = true;
  classifier_.labels = {"neg", "pos"};
  EXPECT_THAT(*OfTable({"pos"}), ElementsAre("neg", "pos")) << "all are known";
  EXPECT_THAT(*OfTable({"1", "neg"}), ElementsAre("neg", "pos")) << "by number, too";
  EXPECT_THAT(*OfTable({"pos", "good", "bad"}), ElementsAre("bad", "good", "pos"));
  EXPECT_THAT(*OfTable({"0", "1", "2"}), ElementsAre("LABEL_0", "LABEL_1", "LABEL_2"));
  classifier_.of_tokens = true;
  EXPECT_THAT(*Find("a.jsonl", "{\"tokens\": [\"a\", \"b\"], \"ner_tags\": [\"O\", \"B\"]}\n"),
              ElementsAre("B", "O"));
  classifier_.of_tokens = false;
  classifier_.problem = ClassifierProblem::kMultiLabel;
  EXPECT_THAT(*Find("a.jsonl", "{\"text\": \"a\", \"label\": [\"x\", \"neg\"]}\n"),
              ElementsAre("neg", "x"));
  EXPECT_THAT(*Find("a.jsonl", "{\"text\": \"a\", \"label\": [0, 1, 1]}\n"),
              ElementsAre("LABEL_0", "LABEL_1", "LABEL_2"));
  EXPECT_THAT(*Find("a.jsonl", "{\"text\": \"a\", \"label\": [0, 1]}\n"),
              ElementsAre("neg", "pos"));
}

TEST_F(DataLabelsTest, AConfigGetsThemAndItsCount) {
  const nlohmann::json config = {{"num_labels", 2}, {"hidden_size", 4}};
  const nlohmann::json with = WithLabels(config, {"a", "b", "c"});
  EXPECT_EQ(with["num_labels"], 3);
  EXPECT_EQ(with["id2label"]["2"], "c");
  EXPECT_EQ(with["label2id"]["b"], 1);
  EXPECT_EQ(with["hidden_size"], 4);
}

}  // namespace
}  // namespace spillway
