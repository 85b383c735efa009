// Options for choosing the next token of a text from a model's scores. Plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace spillway {

// End of a beam search, besides the point at which no running beam can beat the worst finished one.
enum class EarlyStopping : uint8_t {
  kNo,     // running beams are scored at their current length
  kYes,    // as kNo; also ends once there are as many finished texts as beams
  kNever,  // running beams are scored at the maximum length
};

// Applied in this order, as in transformers' generate.
struct SamplingOptions {
  double temperature = 0.8;  // 0: the likeliest token; top_k and top_p then have no effect
  int64_t top_k = 50;        // samples from the k likeliest; 0: all
  double top_p = 1;          // samples from the fewest of those with this total probability
  uint64_t seed = 42;

  // These apply before the temperature, also at temperature 0.
  double repetition_penalty = 1;  // divides scores of tokens in the text, prompt included; 1: none
  int64_t no_repeat_ngram = 0;    // no sequence of this many tokens repeats; 0: no limit
  int64_t source_no_repeat_ngram = 0;    // none of this many tokens of the encoder's source appears
  int64_t min_tokens = 0;                // minimum of new tokens before one of `ends`
  int64_t min_length = 0;                // minimum of tokens before one of `ends`, with the prompt
  std::vector<int64_t> ends = {};        // tokens that end a text
  std::vector<std::string> stops = {};   // texts that end the text and are not part of it
  int64_t forced_first = -1;             // the first new token; -1: any
  std::vector<int64_t> suppressed = {};  // tokens that are never chosen
  std::vector<int64_t> suppressed_first = {};  // tokens that are never chosen first
  int64_t max_tokens = 0;                      // maximum of new tokens
  int64_t forced_last = -1;                    // the last token of a text of max_tokens; -1: any

  // Speech with timestamps, as Whisper's: the token of time 0, which those of later times follow,
  // and the last one that may come first; -1: no timestamps; any.
  int64_t first_timestamp = -1, last_first_timestamp = -1;
  // Tokens from this id on (times) are not part of a text; -1: all are.
  int64_t unwritten_from = -1;

  // Number of beams of a search for the likeliest whole text, with temperature 0; 1: no search.
  int64_t beams = 1;
  double length_penalty = 1;  // scores are log probability / length to the power of this
  EarlyStopping early_stopping = EarlyStopping::kNo;
};

// Values given by a command's flags; others come from the model's generation_config.json.
struct SamplingFlags {
  std::optional<double> temperature, top_p, repetition_penalty;
  std::optional<int64_t> top_k, no_repeat_ngram, min_tokens, beams;
  std::optional<double> length_penalty;
  std::optional<EarlyStopping> early_stopping;
  std::optional<int64_t> tokens;  // maximum of new tokens
  uint64_t seed = 42;
};

}  // namespace spillway
