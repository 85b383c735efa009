// Loads a run's tokenizer from a directory, or as --tokenizer says.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/tokenizers/tokenizer.h"

namespace spillway {

// Loads the result of Save: chars.json, bytes.json or a tokenizer.json. kNotFound if the directory
// has none; kUnimplemented with the remedy for an unsupported tokenizer.json, or other files in its
// place. `end_of_text`: the token of a tokenizer.json that ends a text; "": from its files.
// kInvalidArgument if it is no token, or the tokenizer is of another kind.
absl::StatusOr<std::unique_ptr<Tokenizer>> LoadTokenizer(absl::string_view directory,
                                                         const std::string& end_of_text = "");

// The directory from which MakeTokenizer would load a tokenizer.json for the same `choice`; "":
// none.
std::string TokenizerDirectory(absl::string_view choice, absl::string_view model_directory);

// OK if reading the directory's tokenizer.json, if it has one, takes no more than `memory_bytes` at
// any time. Otherwise an error with exit code 3: the file, the memory it needs, and the limit.
absl::Status CheckTokenizerMemory(const std::string& directory, uint64_t memory_bytes);

// `choice` is --tokenizer's: "model" (from `model_directory`), "chars" (from the texts among
// `data`), "bytes", a directory, or "": the model's if it has one, else chars if there is text
// (kInvalidArgument if the model has weights), else nullptr (the data are tokens already).
// `end_of_text`: as in LoadTokenizer.
absl::StatusOr<std::unique_ptr<Tokenizer>> MakeTokenizer(absl::string_view choice,
                                                         absl::string_view model_directory,
                                                         const std::vector<std::string>& data,
                                                         const std::string& end_of_text = "");

}  // namespace spillway
