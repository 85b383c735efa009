#include "engine/data/labelled_text.h"

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "io/file_system.h"
#include "tests/scratch_directory.h"

namespace spillway {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Problem = ClassifierProblem;

const std::vector<std::string> kNames = {"no", "maybe", "yes"};

absl::StatusOr<std::vector<float>> Label(const nlohmann::json& label,
                                         const std::vector<std::string>& names, Problem problem) {
  return ReadLabel(label, ClassifierConfig{.labels = names, .problem = problem});
}

class LabelledTextTest : public testing::Test {
 protected:
  absl::Status Read(const std::string& name, const std::string& content, TextKeys keys = {}) {
    found_.clear();
    const std::string path = dir_ / name;
    EXPECT_TRUE(WriteFileAtomically(FileSystem::Real(), path, content).ok());
    return ReadLabelledTexts(path, keys, /*needs_label=*/true, [&](const LabelledText& text) {
      found_.push_back(text);
      return absl::OkStatus();
    });
  }
  std::string Refusal(const std::string& name, const std::string& content, TextKeys keys = {}) {
    const absl::Status status = Read(name, content, std::move(keys));
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  }

  const ScratchDirectory dir_;
  std::vector<LabelledText> found_;
};

TEST_F(LabelledTextTest, ObjectsAndTablesSayTheSame) {
  const std::pair<const char*, const char*> files[] = {
      {"a.jsonl",
       "\xef\xbb\xbf{\"sentence1\": \"a, b\", \"sentence2\": \"c \\\"d\\\"\", \"label\": "
       "\"yes\"}\n\n"
       "{\"sentence1\": \"x\", \"sentence2\": \"y\", \"label\": \"no\", \"idx\": 3}"},
      {"a.csv", "sentence1,label,sentence2\r\n\"a, b\",yes,\"c \"\"d\"\"\"\r\n\r\nx,no,y\r\n"},
      {"a.tsv", "label\tsentence1\tsentence2\nyes\ta, b\tc \"d\"\n\nno\tx\ty\n"}};
  for (const auto& [name, content] : files) {
    ASSERT_TRUE(Read(name, content).ok()) << name;
    ASSERT_EQ(found_.size(), 2u) << name;
    EXPECT_EQ(found_[0].first, "a, b");
    EXPECT_EQ(*found_[0].second, "c \"d\"");
    EXPECT_EQ(found_[0].label, "yes");
    EXPECT_EQ(found_[1].first, "x");
  }
}

TEST_F(LabelledTextTest, AQuotedCellGoesOnInTheNextLine) {
  ASSERT_TRUE(Read("a.csv", "text,label\r\n\"one\r\n\ntwo\",1\r\nthree,0\r\n").ok());
  EXPECT_EQ(found_[0].first, "one\r\n\ntwo");
  EXPECT_EQ(found_[0].label, "1");
  EXPECT_EQ(found_[0].line, 2);
  EXPECT_EQ(found_[1].line, 5);
}

TEST_F(LabelledTextTest, KeysAreTheUsualOnesOrThoseThatAreNamed) {
  ASSERT_TRUE(Read("a.csv", "review,stars\ngood,1\n", {{"review"}, "stars"}).ok());
  EXPECT_EQ(found_[0].first, "good");
  EXPECT_FALSE(found_[0].second);
  EXPECT_EQ(found_[0].label, "1");
  EXPECT_THAT(Refusal("a.csv", "review,stars\ngood,1\n"),
              testing::AllOf(HasSubstr("a.csv:2"), HasSubstr("--text-keys"), HasSubstr("review")));
  EXPECT_THAT(Refusal("a.csv", "text,stars\ngood,1\n"), HasSubstr("--label-key"));
  EXPECT_THAT(ParseTextKeys("--text-keys", "a,b").value(), ElementsAre("a", "b"));
  EXPECT_FALSE(ParseTextKeys("--text-keys", "a,").ok());
  EXPECT_FALSE(ParseTextKeys("--text-keys", "a,b,c").ok());
}

TEST_F(LabelledTextTest, BadRowsAreNamedWithTheirLine) {
  const std::string good = "{\"text\": \"a\", \"label\": 0}\n";
  EXPECT_THAT(Refusal("a.jsonl", good + "{\"text\": \" \", \"label\": 0}\n"),
              testing::AllOf(HasSubstr("a.jsonl:2"), HasSubstr("\"text\" is empty")));
  EXPECT_THAT(Refusal("a.jsonl", good + "\n{\"text\": 3, \"label\": 0}\n"), HasSubstr("a.jsonl:3"));
  EXPECT_THAT(Refusal("a.jsonl", good + "[]"), HasSubstr("a.jsonl:2"));
  EXPECT_THAT(Refusal("a.jsonl", good + "{\"text\": \"a\"}"), HasSubstr("no \"label\""));
  EXPECT_THAT(Refusal("a.jsonl", "\n"), HasSubstr("no texts"));
  EXPECT_THAT(Refusal("a.csv", "text,label\na\n"),
              testing::AllOf(HasSubstr("a.csv:2"), HasSubstr("1 cells")));
  EXPECT_THAT(Refusal("a.csv", "text,label\n\"a,0\nb,1\n"), HasSubstr("does not end"));
  EXPECT_THAT(Refusal("a.csv", "text,label\n\"a\"b,0\n"), HasSubstr("beside its quotes"));
  EXPECT_THAT(Refusal("a.csv", "text,text\na,0\n"), HasSubstr("one name"));
  EXPECT_THAT(Refusal("a.csv", ""), HasSubstr("empty"));
  for (const char* bad : {"caf\xe9", "\xff", "\xe2\x82", "\xed\xa0\x80", "\xc0\xaf"}) {
    EXPECT_THAT(Refusal("a.csv", absl::StrCat("text,label\na,0\n\"x\n", bad, "\",1\n")),
                testing::AllOf(HasSubstr("a.csv:4: byte"), HasSubstr("not UTF-8: `iconv -f")));
    EXPECT_THAT(Refusal("a.tsv", absl::StrCat("text\tlabel\n", bad, "\t1\n")),
                HasSubstr("a.tsv:2: byte"));
  }
  EXPECT_THAT(Refusal("a.tsv", "text\tlabel\na\t0\n\t\nb\t1\n"), HasSubstr("a.tsv:3"));
  EXPECT_THAT(Refusal("a.txt", "a"), HasSubstr(".jsonl, .csv or .tsv"));
}

TEST(LabelledText, ASingleLabelIsANameOrANumber) {
  const auto read = [](const nlohmann::json& label) {
    return Label(label, kNames, Problem::kSingleLabel);
  };
  for (const nlohmann::json& label : {nlohmann::json("yes"), nlohmann::json(2), {"2"}}) {
    EXPECT_THAT(*read(label.is_array() ? label[0] : label), ElementsAre(2)) << label;
  }
  for (const char* label : {"3", "-1", "1.5", "\"Yes\"", "true", "[1]", "1e300"}) {
    EXPECT_THAT(read(nlohmann::json::parse(label)).status().message(),
                HasSubstr("none of the 3 of config.json (id2label): no, maybe, yes"))
        << label;
  }
}

TEST(LabelledText, ALabelThatIsANumberMayBeAName) {
  const std::vector<std::string> stars = {"1", "2", "5"};
  EXPECT_THAT(*Label(5, stars, Problem::kSingleLabel), ElementsAre(2));
  EXPECT_THAT(*Label(1.0, stars, Problem::kSingleLabel), ElementsAre(0));
  EXPECT_THAT(*Label("2", stars, Problem::kSingleLabel), ElementsAre(1));
  EXPECT_THAT(*Label(0, stars, Problem::kSingleLabel), ElementsAre(0));  // by its number
  ClassifierConfig of_data = {
      .labels = stars, .labels_from_data = true, .problem = Problem::kSingleLabel};
  EXPECT_THAT(ReadLabel(0, of_data).status().message(),
              HasSubstr("none of the 3 of --data: 1, 2, 5"));
  of_data.labels = {"LABEL_0", "LABEL_1"};
  EXPECT_THAT(*ReadLabel(1, of_data), ElementsAre(1));
}

TEST(LabelledText, ManyLabelsAreNamesOrZerosAndOnes) {
  const auto read = [](const char* label) {
    return Label(nlohmann::json::parse(label), kNames, Problem::kMultiLabel);
  };
  EXPECT_THAT(*read("[0, 1, 1.0]"), ElementsAre(0, 1, 1));
  EXPECT_THAT(*read("[\"yes\", \"no\"]"), ElementsAre(1, 0, 1));
  EXPECT_THAT(*read("[]"), ElementsAre(0, 0, 0));
  EXPECT_THAT(*read("\"[1, 0, 0]\""), ElementsAre(1, 0, 0));  // of a table
  for (const char* label : {"[0, 1]", "[0, 1, 2]", "1", "\"yes\"", "[\"other\"]"}) {
    EXPECT_FALSE(read(label).ok()) << label;
  }
}

TEST(LabelledText, NumbersAreNumbers) {
  EXPECT_THAT(*Label("2.5", {"score"}, Problem::kRegression), ElementsAre(2.5f));
  EXPECT_THAT(*Label(-1, {"score"}, Problem::kRegression), ElementsAre(-1));
  EXPECT_THAT(*Label({1, 2.5, 0}, kNames, Problem::kRegression), ElementsAre(1, 2.5, 0));
  EXPECT_FALSE(Label("much", {"score"}, Problem::kRegression).ok());
  EXPECT_FALSE(Label("nan", {"score"}, Problem::kRegression).ok());
  EXPECT_FALSE(Label(1, kNames, Problem::kRegression).ok());
}

TEST_F(LabelledTextTest, AListInTheFirstRowIsManyLabels) {
  const auto find = [&](const std::string& name, const std::string& content) {
    EXPECT_TRUE(WriteFileAtomically(FileSystem::Real(), dir_ / name, content).ok());
    return FindProblem(dir_ / name, {});
  };
  EXPECT_EQ(*find("a.jsonl", R"({"text": "a", "label": [1, 0, 0]})"), Problem::kMultiLabel);
  EXPECT_EQ(*find("a.csv", "text,label\na,yes\n"), Problem::kSingleLabel);
  EXPECT_FALSE(find("a.csv", "text,label\n").ok());
}

}  // namespace
}  // namespace spillway
