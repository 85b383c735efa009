#include "engine/data/load_tokenizer.h"

#include <sys/stat.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/data/char_tokenizer.h"
#include "engine/data/pipeline_tokenizer.h"
#include "io/base/log.h"
#include "io/base/status.h"

namespace spillway {
namespace {

bool Exists(const std::string& path) {
  struct stat info;
  return ::stat(path.c_str(), &info) == 0;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> LoadTokenizer(absl::string_view directory) {
  const std::string chars = absl::StrCat(directory, "/", kCharsFile);
  if (Exists(chars)) return LoadCharTokenizer(chars);
  if (Exists(absl::StrCat(directory, "/", kBytesFile))) return NewByteTokenizer();
  if (Exists(absl::StrCat(directory, "/tokenizer.json"))) return LoadPipelineTokenizer(directory);
  for (const char* other : {"vocab.json", "merges.txt", "tokenizer.model", "vocab.txt"}) {
    if (!Exists(absl::StrCat(directory, "/", other))) continue;
    return absl::UnimplementedError(
        absl::StrCat(directory, " has a ", other,
                     " but no tokenizer.json, which is what is read; transformers makes one: "
                     "AutoTokenizer.from_pretrained(DIR).save_pretrained(DIR)"));
  }
  return absl::NotFoundError(absl::StrCat(directory, " has no tokenizer (tokenizer.json, ",
                                          kCharsFile, " or ", kBytesFile, ")"));
}

absl::StatusOr<std::unique_ptr<Tokenizer>> MakeTokenizer(absl::string_view choice,
                                                         absl::string_view model_directory,
                                                         const std::vector<std::string>& data) {
  std::vector<std::string> texts;
  for (const std::string& file : data) {
    if (absl::EndsWith(file, ".txt") || absl::EndsWith(file, ".jsonl")) texts.push_back(file);
  }
  if (choice == "bytes") return NewByteTokenizer();
  if (choice == "chars") {
    if (texts.empty()) {
      return absl::InvalidArgumentError(
          "--tokenizer chars takes its vocabulary from the .txt and .jsonl files of --data, and "
          "there are none");
    }
    return NewCharTokenizer(texts);
  }
  if (choice == "model") return LoadTokenizer(model_directory);
  if (!choice.empty()) {
    absl::StatusOr<std::unique_ptr<Tokenizer>> loaded = LoadTokenizer(choice);
    if (absl::IsNotFound(loaded.status())) {
      return absl::InvalidArgumentError(
          absl::StrCat("--tokenizer ", choice,
                       ": neither 'model', 'chars' or 'bytes' nor a directory with a "
                       "tokenizer"));
    }
    return loaded;
  }
  // Not said: nothing is needed for tokens.
  if (texts.empty()) return std::unique_ptr<Tokenizer>();
  absl::StatusOr<std::unique_ptr<Tokenizer>> loaded = LoadTokenizer(model_directory);
  if (!absl::IsNotFound(loaded.status())) return loaded;
  ASSIGN_OR_RETURN(auto chars, NewCharTokenizer(texts));
  LogInfo(absl::StrCat(
      loaded.status().message(), ": texts are taken by their ", chars->vocabulary_size(),
      " characters, as with --tokenizer chars; --tokenizer DIR names another one"));
  return chars;
}

}  // namespace spillway
