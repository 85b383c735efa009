// How the next token of a text is chosen from the scores that a model gives.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace spillway {

// When a beam search is over, beside when nothing that runs can be better than its worst text.
enum class EarlyStopping : uint8_t {
  kNo,     // the best that runs is taken as long as it is
  kYes,    // ... or as soon as there are as many texts as beams
  kNever,  // the best that runs may be as long as any text
};

// In the order in which they are applied, as transformers' generate does.
struct SamplingOptions {
  double temperature = 0.8;  // 0: the likeliest; neither of the next two matters then
  int64_t top_k = 50;        // only the k likeliest; 0: all
  double top_p = 1;          // of those the fewest that have this much of the chances together
  uint64_t seed = 42;

  // These come before the temperature, and count at temperature 0, too.
  double repetition_penalty = 1;  // of tokens that the text has, the prompt's included; 1: none
  int64_t no_repeat_ngram = 0;    // so many tokens in a row never come twice; 0: they may
  int64_t source_no_repeat_ngram = 0;   // ... nor as the source of a model with an encoder has them
  int64_t min_tokens = 0;               // new ones before one of `ends` may come...
  int64_t min_length = 0;               // ... or so many with the prompt's
  std::vector<int64_t> ends = {};       // tokens that end a text
  std::vector<std::string> stops = {};  // texts that end it, and are no part of it
  int64_t forced_first = -1;            // the first new token; -1: any
  std::vector<int64_t> suppressed = {};        // tokens that never come...
  std::vector<int64_t> suppressed_first = {};  // ... or not as the first new one
  int64_t max_tokens = 0;                      // new ones at most...
  int64_t forced_last = -1;                    // ... the last of which is this; -1: any

  // Of speech: the token of the time 0, behind which are all later ones, and the last one that may
  // come first; -1: any. Then a text has times around what is said, in their order, as Whisper's.
  int64_t first_timestamp = -1, last_first_timestamp = -1;
  // Tokens from this one on (times) are no part of a text; -1: all are.
  int64_t unwritten_from = -1;

  // The likeliest whole text is looked for, among so many at a time; 1: token by token. Temperature
  // 0.
  int64_t beams = 1;
  double length_penalty = 1;  // a text's logarithmic chance is over its length to the power of this
  EarlyStopping early_stopping = EarlyStopping::kNo;
};

// What a command's flags say of it; the rest is the model's generation_config.json's to say.
struct SamplingFlags {
  std::optional<double> temperature, top_p, repetition_penalty;
  std::optional<int64_t> top_k, no_repeat_ngram, min_tokens, beams;
  std::optional<double> length_penalty;
  std::optional<EarlyStopping> early_stopping;
  std::optional<int64_t> tokens;  // new ones, at most
  uint64_t seed = 42;
};

}  // namespace spillway
