// Requests of generate and predict, as their flags say them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/data/labelled_text.h"
#include "engine/numeric/dtype.h"
#include "engine/options/sampling_options.h"
#include "engine/tokenizers/speech_tokens.h"

namespace spillway {

// The model, and how it writes texts.
struct TextRequest {
  std::string model, device = "auto";
  std::string adapter;  // a directory of PEFT's; "": none
  std::string tokenizer = "model";
  std::string generation_config;                            // a file; "none"; "": the model's
  std::optional<DType> dtype;                               // none: the weights'
  std::optional<DType> compute;                             // none: auto
  uint64_t device_memory_bytes = 0, host_memory_bytes = 0;  // 0: chosen
  std::vector<std::string> swap_paths;
  int threads = 1;
  SamplingFlags sampling;
  bool chat = false;  // a prompt is what a user says to the model
  // Tokens that end a text beside those of the model, as they are written; texts that end it.
  std::vector<std::string> ends, stops;
  // For models with an encoder: the text before each prompt, and the most tokens of both (1024).
  std::string source_prefix;
  std::optional<int64_t> max_source_length;
  SpeechMode speech;        // for models of speech
  std::string speech_task;  // "transcribe", "translate"; "": not said
  bool ignore_end = false, as_json = false;
};

struct GenerateRequest : TextRequest {
  std::string prompt;
  std::string audio;  // a sound's file in its place
};

struct PredictRequest : TextRequest {
  std::string data, out, prompt_key;
  std::string target_key;          // of what answers should be; "": completion, where there is one
  std::vector<std::string> files;  // all of --data, of which `data` is the first
  TextKeys text_keys;              // of texts that are classified
  std::optional<int64_t> max_length;  // tokens of one that an encoder reads; none: its positions
  int batch = 8;
};

}  // namespace spillway
