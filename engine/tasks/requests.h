// Requests of generate and predict, from their flags.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/data/labelled_text.h"
#include "engine/numeric/dtype.h"
#include "engine/options/question_options.h"
#include "engine/options/sampling_options.h"
#include "engine/tokenizers/speech_tokens.h"

namespace spillway {

// The model, and how it generates texts.
struct TextRequest {
  std::string model, device = "auto";
  std::string adapter;  // a directory in PEFT's format; "": none
  std::string tokenizer = "model";
  std::string generation_config;                            // a file; "none"; "": the model's
  std::optional<DType> dtype;                               // none: the weights'
  std::optional<DType> compute;                             // none: auto
  uint64_t device_memory_bytes = 0, host_memory_bytes = 0;  // 0: chosen
  std::vector<std::string> swap_paths;
  int threads = 1;
  SamplingFlags sampling;
  bool chat = false;  // a prompt is a user's message to the model
  // Tokens that end a text in addition to the model's, as text; and stop texts.
  std::vector<std::string> ends, stops;
  // For models with an encoder: the text before each prompt, and the largest number of tokens of
  // both (1024).
  std::string source_prefix;
  std::optional<int64_t> max_source_length;
  SpeechMode speech;        // for models of speech
  std::string speech_task;  // "transcribe", "translate"; "": not said
  bool ignore_end = false, as_json = false;
};

struct GenerateRequest : TextRequest {
  std::string prompt;
  std::string audio;  // a file with sound instead of a prompt
};

struct PredictRequest : TextRequest {
  std::string data, out, prompt_key;
  std::string target_key;             // key of the references; "": completion, if it exists
  std::vector<std::string> files;     // all of --data; `data` is the first
  TextKeys text_keys;                 // keys of texts to classify
  std::optional<int64_t> max_length;  // largest number of an encoder's tokens; none: its positions
  QuestionOptions questions;          // for models that answer questions
  int batch = 8;
};

}  // namespace spillway
