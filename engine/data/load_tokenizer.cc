#include "engine/data/load_tokenizer.h"

#include "absl/strings/str_cat.h"
#include "engine/data/char_tokenizer.h"
#include "engine/data/data_encoder.h"
#include "engine/machine/memory_limits.h"
#include "engine/tokenizers/pipeline_tokenizer.h"
#include "io/base/format_bytes.h"
#include "io/base/log.h"
#include "io/base/status.h"
#include "io/file_system.h"

namespace spillway {
namespace {

// Measured: the file's text, tokens and merges while they are read, and the final tables
// (docs/DATA.md).
constexpr uint64_t kTokenizerBytesPerByte = 10;

absl::Status NoEndError(const std::string& end_of_text, absl::string_view kind) {
  return absl::InvalidArgumentError(absl::StrCat(
      "--eos-token ", end_of_text, ": the tokenizer ", kind,
      " has no token that ends texts; it names one of a tokenizer.json (--tokenizer DIR)"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> LoadTokenizer(absl::string_view directory,
                                                         const std::string& end_of_text) {
  const std::string chars = absl::StrCat(directory, "/", kCharsFile);
  const bool has_chars = Exists(chars);
  if (has_chars || Exists(absl::StrCat(directory, "/", kBytesFile))) {
    if (!end_of_text.empty()) return NoEndError(end_of_text, has_chars ? "chars" : "bytes");
    return has_chars ? LoadCharTokenizer(chars) : NewByteTokenizer();
  }
  if (Exists(absl::StrCat(directory, "/tokenizer.json"))) {
    return LoadPipelineTokenizer(directory, end_of_text);
  }
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

std::string TokenizerDirectory(absl::string_view choice, absl::string_view model_directory) {
  if (choice == "bytes" || choice == "chars") return "";
  return std::string(choice.empty() || choice == "model" ? model_directory : choice);
}

absl::Status CheckTokenizerMemory(const std::string& directory, uint64_t memory_bytes) {
  const std::string path = absl::StrCat(directory, "/tokenizer.json");
  const auto found = FileSystem::Real().Stat(path, SymbolicLink::kFollow);
  if (directory.empty() || Exists(absl::StrCat(directory, "/", kCharsFile)) ||
      Exists(absl::StrCat(directory, "/", kBytesFile)) || !found.ok()) {
    return absl::OkStatus();
  }
  const uint64_t file_bytes = found->size_bytes;
  const uint64_t needed = file_bytes * kTokenizerBytesPerByte;
  if (needed <= memory_bytes) return absl::OkStatus();
  return DoesNotFitError(absl::StrCat(
      path, " does not fit the budgets: reading its ", FormatBytes(file_bytes), " takes about ",
      FormatBytes(needed), " of memory, and --device-memory and --host-memory leave ",
      FormatBytes(memory_bytes), " for it: raise --host-memory by ",
      FormatBytes(needed - memory_bytes), ", or give the data as tokens (spillway tokenize)"));
}

absl::StatusOr<std::unique_ptr<Tokenizer>> MakeTokenizer(absl::string_view choice,
                                                         absl::string_view model_directory,
                                                         const std::vector<std::string>& data,
                                                         const std::string& end_of_text) {
  std::vector<std::string> texts;
  for (const std::string& file : data) {
    if (IsText(file)) texts.push_back(file);
  }
  if (!end_of_text.empty() && (choice == "bytes" || choice == "chars")) {
    return NoEndError(end_of_text, choice);
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
  if (choice == "model") return LoadTokenizer(model_directory, end_of_text);
  if (!choice.empty()) {
    absl::StatusOr<std::unique_ptr<Tokenizer>> loaded = LoadTokenizer(choice, end_of_text);
    if (absl::IsNotFound(loaded.status())) {
      return absl::InvalidArgumentError(
          absl::StrCat("--tokenizer ", choice,
                       ": neither 'model', 'chars' or 'bytes' nor a directory with a "
                       "tokenizer"));
    }
    return loaded;
  }
  // Unspecified: data that are tokens need no tokenizer.
  if (texts.empty()) return std::unique_ptr<Tokenizer>();
  absl::StatusOr<std::unique_ptr<Tokenizer>> loaded = LoadTokenizer(model_directory, end_of_text);
  if (!absl::IsNotFound(loaded.status())) return loaded;
  for (const char* weights : {"model.safetensors", "model.safetensors.index.json",
                              "pytorch_model.bin", "pytorch_model.bin.index.json"}) {
    if (!Exists(absl::StrCat(model_directory, "/", weights))) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        loaded.status().message(),
        ", but weights, which have learnt the tokens of one: put its "
        "tokenizer.json there, or give --tokenizer DIR. --tokenizer chars (or bytes) insists: then "
        "texts become other tokens than those the weights know"));
  }
  if (!end_of_text.empty()) return NoEndError(end_of_text, "chars");
  ASSIGN_OR_RETURN(auto chars, NewCharTokenizer(texts));
  LogInfo(absl::StrCat(
      loaded.status().message(), ": texts are taken by their ", chars->vocabulary_size(),
      " characters, as with --tokenizer chars; --tokenizer DIR names another one"));
  return chars;
}

}  // namespace spillway
