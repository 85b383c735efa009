// How generation chooses the next token from the model's logits.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace spillway {

// When a beam search ends, besides when no running beam can beat its worst finished text.
enum class EarlyStopping : uint8_t {
  kNo,     // a running beam is scored at its current length
  kYes,    // ... or as soon as there are as many finished texts as beams
  kNever,  // a running beam is scored at its best possible length
};

// The members are in the order of application, as in transformers' generate.
struct SamplingOptions {
  double temperature = 0.8;  // 0: greedy, which ignores the next two
  int64_t top_k = 50;        // only the k likeliest; 0: all
  double top_p = 1;          // the fewest of those with this cumulative probability
  uint64_t seed = 42;

  // The next ones apply before the temperature, and at temperature 0, too.
  double repetition_penalty = 1;               // for tokens in the text or prompt; 1: none
  int64_t no_repeat_ngram = 0;                 // n-grams of this length never repeat; 0: off
  int64_t source_no_repeat_ngram = 0;          // ... nor occur in the encoder's input
  int64_t min_tokens = 0;                      // minimum of new tokens before one of `ends`...
  int64_t min_length = 0;                      // ... or minimum with the prompt
  std::vector<int64_t> ends = {};              // tokens that end a text
  std::vector<std::string> stops = {};         // texts that end it and are removed
  int64_t forced_first = -1;                   // the first new token; -1: any
  std::vector<int64_t> suppressed = {};        // tokens that are never chosen...
  std::vector<int64_t> suppressed_first = {};  // ... or not as the first new token
  int64_t max_tokens = 0;                      // maximum of new tokens...
  int64_t forced_last = -1;                    // ... the last of which is this; -1: any

  // Speech: the token of timestamp 0, after which all others follow, and the latest first one; -1:
  // any. Timestamps then enclose speech in ascending order, as in Whisper.
  int64_t first_timestamp = -1, last_first_timestamp = -1;
  // Tokens from this one on (timestamps) are not written to the text; -1: all are.
  int64_t unwritten_from = -1;

  // The width of a beam search for the likeliest whole text; 1: token by token. Temperature 0.
  int64_t beams = 1;
  double length_penalty = 1;  // log probability is divided by length to the power of this
  EarlyStopping early_stopping = EarlyStopping::kNo;
};

// Sampling settings from flags; generation_config.json has the rest.
struct SamplingFlags {
  std::optional<double> temperature, top_p, repetition_penalty;
  std::optional<int64_t> top_k, no_repeat_ngram, min_tokens, beams;
  std::optional<double> length_penalty;
  std::optional<EarlyStopping> early_stopping;
  std::optional<int64_t> tokens;  // maximum of new tokens
  uint64_t seed = 42;
};

}  // namespace spillway
