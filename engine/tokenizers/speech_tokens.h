// The control tokens of a speech model: Whisper's <|en|>, <|transcribe|> and <|notimestamps|>, as
// its tokenizer has them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/tokenizers/tokenizer.h"

namespace spillway {

// The kind of text to generate from audio.
struct SpeechMode {
  std::string language;     // a code or a name, "de" or "german"; "": unspecified
  bool translates = false;  // into English, instead of transcribing in its own language
  bool timestamps = false;  // writes the start and end times of speech
};

// Immutable: any thread.
class SpeechTokens {
 public:
  // A tokenizer without such tokens (bytes, chars) gives an object without any. So does that of an
  // English-only model, which has the tokens but does not use them: `multilingual` tells, or, if
  // unknown, the size of the vocabulary.
  static SpeechTokens Of(const Tokenizer& tokenizer, std::optional<bool> multilingual = {});

  // Whether it has languages; otherwise the model is English-only, if it is one of speech.
  bool multilingual() const { return !languages_.empty(); }

  // The tokens after a text's start token: language, task and timestamps, as far as the model has
  // such tokens. kInvalidArgument for an unknown language, for none if there are several, and for
  // features of multilingual models only.
  absl::StatusOr<std::vector<int64_t>> Prefix(const SpeechMode& task) const;

  // [language] code and token.
  const std::vector<std::pair<std::string, int64_t>>& languages() const { return languages_; }
  std::optional<int64_t> no_timestamps() const { return no_timestamps_; }
  std::optional<int64_t> translate() const { return translate_; }

 private:
  std::vector<std::pair<std::string, int64_t>> languages_;
  std::optional<int64_t> transcribe_, translate_, no_timestamps_;
};

// The most tokens of a prefix.
inline constexpr int64_t kMostSpeechPrefix = 3;

// Seconds per step of timestamp tokens; <|0.00|> follows <|notimestamps|>.
inline constexpr double kSecondsPerTimestamp = 0.02;

}  // namespace spillway
