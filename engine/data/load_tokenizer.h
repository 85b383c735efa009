// Which tokenizer a run has: of a directory, or as --tokenizer says.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/tokenizers/tokenizer.h"

namespace spillway {

// What Save wrote: chars.json, bytes.json or a tokenizer.json. kNotFound when the directory
// has none; kUnimplemented for a tokenizer.json, or files instead of one, that are not
// supported, with what to do about it.
// `end_of_text`: which token of a tokenizer.json ends a text; "": as its files say.
// kInvalidArgument where it is no token, or the tokenizer is another one.
absl::StatusOr<std::unique_ptr<Tokenizer>> LoadTokenizer(absl::string_view directory,
                                                         const std::string& end_of_text = "");

// The directory of which MakeTokenizer would load a tokenizer.json, by the same `choice`; "": of
// none.
std::string TokenizerDirectory(absl::string_view choice, absl::string_view model_directory);

// OK where reading the directory's tokenizer.json, if it has one, takes no more than `memory_bytes`
// at any time. Otherwise what ends in exit code 3: the file, what it needs and what there is.
absl::Status CheckTokenizerMemory(const std::string& directory, uint64_t memory_bytes);

// `choice` is --tokenizer's: "model" (from `model_directory`), "chars" (from the
// texts among `data`), "bytes", a directory, or "": the model's where it has one, else
// chars where there is text (and kInvalidArgument where the model has weights), else nullptr (the
// data is tokens already).
// `end_of_text` as LoadTokenizer's.
absl::StatusOr<std::unique_ptr<Tokenizer>> MakeTokenizer(absl::string_view choice,
                                                         absl::string_view model_directory,
                                                         const std::vector<std::string>& data,
                                                         const std::string& end_of_text = "");

}  // namespace spillway
