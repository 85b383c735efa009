// Checks a data file that a user names before anything reads it: whether it exists, and in a
// supported format. The message for any other format says which one it is, and which command
// converts it.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace spillway {

// The use of a data file, which determines its allowed formats.
enum class DataUse {
  kTokens,    // a language model: .txt, .jsonl, .bin, .npy
  kText,      // tokenize: .txt, .jsonl
  kRows,      // rows of texts: .jsonl, .csv, .tsv
  kWords,     // rows whose words have labels: .jsonl
  kPrompts,   // predict: .jsonl, or any text with a prompt a line
  kQuestions  // questions about texts: .jsonl, .json
};

// OK for a regular file of one of these formats. Otherwise kNotFound or kInvalidArgument: "FLAG
// PATH: ...", with what was found and the remedy. Checks the first bytes: text in UTF-16 or UTF-32,
// and compressed or columnar files, are refused regardless of name. Warns of text that looks like
// UTF-16 without a byte order mark.
absl::Status CheckDataFile(absl::string_view flag, const std::string& path, DataUse use);
absl::Status CheckDataFiles(absl::string_view flag, const std::vector<std::string>& paths,
                            DataUse use);

// Checks only that `path` exists; it may be a folder.
absl::Status CheckDataExists(absl::string_view flag, const std::string& path);

// "a.txt, b/, ...": the first names in a directory; "nothing" where it is empty.
std::string ShownEntries(const std::string& directory);

}  // namespace spillway
