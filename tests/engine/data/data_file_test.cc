#include "engine/data/data_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "tests/engine/format_testing.h"
#include "tests/scratch_directory.h"

namespace spillway {
namespace {

using absl::StatusCode;
using Texts = std::vector<std::string>;

constexpr StatusCode kNone = StatusCode::kNotFound, kInput = StatusCode::kInvalidArgument;

class DataFileTest : public testing::Test {
 protected:
  std::string Put(const std::string& name, const std::string& bytes) {
    std::filesystem::create_directories(std::filesystem::path(scratch_ / name).parent_path());
    WriteFile(scratch_ / name, bytes);
    return scratch_ / name;
  }
  absl::Status Check(const std::string& path, DataUse use = DataUse::kTokens) {
    return CheckDataFile("--data", path, use);
  }
  void Refused(const std::string& path, const Texts& parts, DataUse use = DataUse::kTokens,
               StatusCode code = kInput) {
    SCOPED_TRACE(path);
    ExpectError(Check(path, use), code, parts);
  }

  ScratchDirectory scratch_;
};

TEST_F(DataFileTest, FilesOfEachFormatAreTaken) {
  for (const char* name : {"a.txt", "a.jsonl", "a.bin", "a.npy"}) {
    EXPECT_TRUE(Check(Put(name, "{}")).ok()) << name;
  }
  for (const char* name : {"a.jsonl", "a.csv", "a.tsv"}) {
    EXPECT_TRUE(Check(Put(name, "text,label"), DataUse::kRows).ok()) << name;
  }
  EXPECT_TRUE(Check(Put("prompts", "a\nb"), DataUse::kPrompts).ok());
  EXPECT_TRUE(Check(Put("empty.txt", "")).ok());  // who reads it says so
  std::filesystem::create_symlink(scratch_ / "a.txt", scratch_ / "link.txt");
  EXPECT_TRUE(Check(scratch_ / "link.txt").ok());
}

TEST_F(DataFileTest, WhatIsMissingIsNamedWithWhatIsThere) {
  Put("corpus.txt", "a");
  Put("many/b.jsonl", "{}");
  Refused(scratch_ / "corpsu.txt",
          {"--data ", "there is no such file", "did you mean", "corpus.txt?"}, DataUse::kTokens,
          kNone);
  Refused(scratch_ / "other", {"there is no such file", "holds", "corpus.txt, many/"},
          DataUse::kTokens, kNone);
  Refused(scratch_ / "no/where/x.txt", {"there is no such file", scratch_ / "no", "does not exist"},
          DataUse::kTokens, kNone);
  std::filesystem::create_symlink(scratch_ / "gone", scratch_ / "dangling.txt");
  Refused(scratch_ / "dangling.txt", {"a symbolic link to", "/gone, which is not there"},
          DataUse::kTokens, kNone);
  Refused("", {"the name is empty"}, DataUse::kTokens, kNone);
  Refused("~/x.txt", {"a shell replaces ~"}, DataUse::kTokens, kNone);
  Refused("0.1", {"a part of other data cannot be named by a number", "head -n 100"},
          DataUse::kTokens, kNone);
  Refused("no-such-org/gsm8k",
          {"data set of Hugging Face's hub", "load_dataset('no-such-org/gsm8k'"}, DataUse::kTokens,
          kNone);
  Refused(scratch_ / "corpus.txt/x", {"corpus.txt/x"}, DataUse::kTokens,
          StatusCode::kFailedPrecondition);
}

TEST_F(DataFileTest, APatternThatNoShellHasExpandedSaysWhatItMatches) {
  Put("a.txt", "a");
  Put("b.txt", "b");
  Refused(scratch_ / "*.txt",
          {"there is no file of this name", "where it is not quoted: --data", "a.txt", "b.txt"},
          DataUse::kTokens, kNone);
  Refused(scratch_ / "[x-z].jsonl", {"no file's name matches this pattern"}, DataUse::kTokens,
          kNone);
  Put("really[1].txt", "a");
  EXPECT_TRUE(Check(scratch_ / "really[1].txt").ok());
}

TEST_F(DataFileTest, StandardInputAndPipesAreNoFiles) {
  for (const char* name : {"-", "/dev/fd/63", "/proc/self/fd/77"}) {
    Refused(name, {"standard input is not read", "cat > data.jsonl", "--data data.jsonl"});
  }
  ASSERT_EQ(::mkfifo((scratch_ / "pipe.txt").c_str(), 0600), 0);
  Refused(scratch_ / "pipe.txt", {"a pipe", "read more than once"});
  Refused("/dev/null", {"a device"});
}

TEST_F(DataFileTest, FoldersSayWhatTheyHold) {
  std::filesystem::create_directories(scratch_ / "empty");
  Refused(scratch_ / "empty", {"a folder, and files are read", "it holds nothing"});
  Put("texts/a.txt", "a");
  Refused(scratch_ / "texts", {"a folder", "texts/*.txt", "it holds a.txt"});
  Put("parquets/train-00000.parquet", "PAR1");
  Refused(scratch_ / "parquets", {"a folder of parquet files", "read_parquet(", "parquets.jsonl"});
  Put("saved/state.json", "{}");
  Put("saved/data-00000-of-00001.arrow", "ARROW1");
  Refused(scratch_ / "saved", {"save_to_disk", "load_from_disk(", ").to_json('saved.jsonl')"});
  Put("splits/dataset_dict.json", "{}");
  Refused(scratch_ / "splits", {"load_from_disk(", "['train'].to_json('splits.jsonl')"});
  Put("pictures/cats/1.jpg", "x");
  Refused(scratch_ / "pictures", {"a folder", "it holds cats/"});
  Refused(".", {"a folder"});
}

TEST_F(DataFileTest, OtherFormatsComeWithTheCommandThatMakesOneThatIsRead) {
  const std::string zeros(64, '\0');
  const struct {
    const char* name;
    std::string bytes;
    Texts parts;
  } cases[] = {
      {"a.parquet", "PAR1", {"a parquet file", "read_parquet(", "a.jsonl'", "--data "}},
      {"A.PARQUET", "PAR1", {"a parquet file"}},
      {"a.arrow", "ARROW1", {"an Arrow file", "Dataset.from_file("}},
      {"a.jsonl.gz", "\x1f\x8b", {"gzip", "gunzip -c ", "a.jsonl.gz > ", "a.jsonl`"}},
      {"a.txt.zst", "\x28\xb5\x2f\xfd", {"zstd -dc "}},
      {"a.xz", "", {"xz -dc "}},
      {"a.bz2", "BZh9", {"bunzip2 -c "}},
      {"a.zip", "PK\x03\x04", {"a zip archive", "unzip "}},
      {"a.tar.gz", "\x1f\x8b", {"gunzip -c "}},
      {"a.tar", "", {"tar xf "}},
      {"a.xlsx", "PK\x03\x04", {"Excel", "read_excel("}},
      {"a.npz", "PK\x03\x04", {"numpy.save("}},
      {"a.pkl", "", {"a Python pickle"}},
      {"a.safetensors", "", {"weights, and no data"}},
      // By the content, whatever the name is.
      {"zipped.txt", "\x1f\x8b\x08", {"gzip", "zipped.plain.txt"}},
      {"zipped.jsonl", "\x28\xb5\x2f\xfd\x01", {"zstd"}},
      {"columns.jsonl", "PAR1" + zeros, {"a parquet file", "columns.jsonl"}},
      {"archive.csv", "PK\x03\x04" + zeros, {"a zip archive"}},
  };
  for (const auto& c : cases) Refused(Put(c.name, c.bytes), c.parts);
  // Letters that begin a text are a text.
  EXPECT_TRUE(Check(Put("story.txt", "PAR1 was the first of the partitions.")).ok());
  EXPECT_TRUE(Check(Put("story.txt", "BZh is no word.")).ok());
}

TEST_F(DataFileTest, JsonIsNamedByItsShape) {
  const std::string file = scratch_ / "a";
  Refused(Put("a.json", "[{\"text\": \"a\"}]"),
          {"a JSON array", "jq -c '.[]' " + file + ".json > " + file + ".jsonl", "--data "});
  Refused(Put("a.json", " {\"data\" : [{}]}"), {"whose \"data\" is an array", "jq -c '.data[]' "});
  Refused(Put("a.json", "{\"text\": \"a\"}\n{\"text\": \"b\"}\n"), {"an object a line", "cp "});
  Refused(Put("a.json", "{\n  \"text\": \"a\"\n}\n"), {"one JSON value", "jq -c . "});
  Refused(Put("a.jsonl", "[\n  {\"text\": \"a\"},\n"),
          {"a JSON array", "jq -c '.[]' ", "a.lines.jsonl"});
  Refused(Put("a.jsonl", "[{\"text\": \"a\"}, {\"text\": \"b\"}]\n"), {"a JSON array"});
  Refused(Put("a.jsonl", "\xef\xbb\xbf{\n  \"text\": \"a\"\n}\n"),
          {"over several lines", "jq -c . "});
  // A wrong line among others is named with its number when it is read.
  EXPECT_TRUE(Check(Put("a.jsonl", "[1]\n{\"text\": \"a\"}\n")).ok());
}

TEST_F(DataFileTest, OtherEncodingsThanUtf8AreNamed) {
  using namespace std::string_literals;
  Refused(Put("a.txt", "\xff\xfe"s + "a\0b\0"s),
          {"its text is UTF-16", "iconv -f utf-16 -t utf-8 ", "a.utf8.txt"});
  Refused(Put("a.txt", "\xfe\xff"s + "\0a\0b"s), {"its text is UTF-16"});
  Refused(Put("a.txt", "\xff\xfe\0\0a\0\0\0"s), {"its text is UTF-32", "iconv -f utf-32"});
  Refused(Put("a.txt", "\0\0\xfe\xff\0\0\0a"s), {"its text is UTF-32"});
  Refused(Put("a.jsonl", "\xff\xfe{\0}\0"s), {"UTF-16", "a.utf8.jsonl"});
  for (const char* name : {"a.csv", "a.tsv"}) {
    Refused(Put(name,
                "\xff\xfe"
                "a\0"s),
            {"UTF-16"}, DataUse::kRows);
  }
  Refused(Put("a.jsonl", "{\0}\0\n\0"s), {"3 of its first 6 bytes are 0", "iconv -f utf-16le"});
  testing::internal::CaptureStderr();
  EXPECT_TRUE(Check(Put("a.txt", "\0a\0b\0c"s)).ok());
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              testing::AllOf(testing::HasSubstr("without a byte order mark"),
                             testing::HasSubstr("iconv -f utf-16be")));
  EXPECT_TRUE(Check(Put("a.txt", "\xef\xbb\xbfhello")).ok());
  EXPECT_TRUE(Check(Put("a.bin", "\xff\xfe\0\0"s)).ok());  // tokens
}

TEST_F(DataFileTest, NamesThatSayNothing) {
  Refused(Put("notes.md", "# A heading"),
          {"none of those that are read", ".jsonl", "It looks like text: `cp ", "notes.md.txt"});
  Refused(Put("noise.dat", std::string("\0\1\2\3", 4)), {"none of those that are read"});
  Refused(Put("a.csv", "text,label\na,b\n"),
          {"a table", "csv.DictReader(open(", "a.jsonl", "--task classify"});
  Refused(Put("a.tsv", "text\tlabel\n"), {"delimiter="}, DataUse::kText);
  Refused(Put("a.txt", "a"), {".jsonl, .csv or .tsv"}, DataUse::kRows);
  Refused(Put("a.bin", "ab"), {".bin and .npy hold tokens already"}, DataUse::kText);
}

TEST_F(DataFileTest, CommandsQuoteWhatAShellWouldChange) {
  Refused(Put("a b'c.json", "[]"), {"a b'\\''c.json' > '"});
  Refused(Put("a b'c.parquet", "PAR1"), {"a b\\\\'c.parquet'"});
}

}  // namespace
}  // namespace spillway
