// The tokens by which a speech model is told what to do: Whisper's <|en|>, <|transcribe|> and
// <|notimestamps|>, as its tokenizer knows them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/tokenizers/tokenizer.h"

namespace spillway {

// What is to be made of a sound.
struct SpeechMode {
  std::string language;     // a code or a name, "de" or "german"; "": not said
  bool translates = false;  // into English, and not written down in its own language
  bool timestamps = false;  // says when what is said begins and ends
};

// Immutable: any thread.
class SpeechTokens {
 public:
  // One without such tokens (bytes, chars) gives a value that knows none; so does the tokenizer of
  // an English model, which has them and never uses them: `multilingual` says whether it is one,
  // or, where nobody does, the size of its vocabulary.
  static SpeechTokens Of(const Tokenizer& tokenizer, std::optional<bool> multilingual = {});

  // Whether it knows languages; otherwise the model's is English, if any.
  bool multilingual() const { return !languages_.empty(); }

  // What a text begins with behind the start token: language, task and whether there are times, as
  // far as the model knows such tokens. kInvalidArgument for a language that it does not know, none
  // where it knows several, and for what only those that know several can do.
  absl::StatusOr<std::vector<int64_t>> Prefix(const SpeechMode& task) const;

  // [language] its code and token.
  const std::vector<std::pair<std::string, int64_t>>& languages() const { return languages_; }
  std::optional<int64_t> no_timestamps() const { return no_timestamps_; }
  std::optional<int64_t> translate() const { return translate_; }

 private:
  std::vector<std::pair<std::string, int64_t>> languages_;
  std::optional<int64_t> transcribe_, translate_, no_timestamps_;
};

// Tokens of a prefix.
inline constexpr int64_t kMostSpeechPrefix = 3;

// Of a time token, seconds from one to the next; <|0.00|> follows <|notimestamps|>.
inline constexpr double kSecondsPerTimestamp = 0.02;

}  // namespace spillway
