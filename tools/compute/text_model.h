// A model directory or a run's last commit, opened to continue texts: generate and predict.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/adapters/adapter_file.h"
#include "engine/chat/chat_format.h"
#include "engine/chat/conversation.h"
#include "engine/families/model_config.h"
#include "engine/generation/generator.h"
#include "engine/media/sound_windows.h"
#include "engine/run/committed_run.h"
#include "engine/tokenizers/speech_tokens.h"
#include "engine/tokenizers/tokenizer.h"
#include "engine/torch/cuda_support.h"
#include "engine/weights/safetensors_model.h"
#include "tools/compute/encoded_sources.h"
#include "tools/compute_library.h"

namespace spillway {

struct Prompt {
  uint64_t number = 0;  // samples are keyed by it
  std::vector<int64_t> tokens;
  std::vector<int64_t> source;  // of a model with an encoder, what that reads...
  SoundWindow sound = {};       // ... or hears
  bool continues_text = false;  // what is written stands behind `tokens` in one text
};

struct TextModel {
  std::string files;  // the directory of config and tokenizer
  ModelConfig config;
  Model model;
  DType dtype = DType::kFloat32;  // what the weights are kept in
  std::string weights_name;       // which they are: a fingerprint, or a run's step
  std::set<std::string> grown;    // parameters with more rows than the files have
  std::unique_ptr<SafetensorsModel> safetensors;
  std::unique_ptr<CommittedRun> run;
  std::unique_ptr<AdapterFile> adapter;
  std::unique_ptr<WeightSource> base_weights;  // without an adapter's
  std::unique_ptr<WeightSource> weights;
  std::unique_ptr<Tokenizer> tokenizer;
  SamplingOptions sampling;  // with the tokens that end a text, none with --ignore-end
  int64_t new_tokens = 100;  // of a text, at most
  // Of a model that hears.
  SpeechTokens speech_tokens;
  SpeechTask speech;
  // It is asked what is spoken.
  bool finds_languages() const { return speech_tokens.multilingual() && speech.language.empty(); }

  std::unique_ptr<OpenedPlace> compute;
  std::unique_ptr<EncodedSources> sources;  // [prompt]; null: the model has no encoder
  std::unique_ptr<Generator> generator;
};

// All but what StartGenerator opens, and of a model of pictures what is of texts. `temperature`:
// where nobody says one, of a model without an encoder; others are not drawn from then.
absl::StatusOr<std::unique_ptr<TextModel>> OpenTextModel(const TextTask& task, double temperature);

// What to tell of prompts once all are encoded.
struct PromptCounts {
  int64_t cut = 0;      // sources that were too long and lost their end
  int64_t doubled = 0;  // prompts that begin with what is put before them anyway
};

// Texts end with a turn of the assistant, too, where the tokenizer has a token for that.
void AddTurnEnd(TextModel& model);

// How a model's prompts are encoded.
struct PromptForm {
  const Tokenizer& tokenizer;
  const TransformerConfig& model;
  std::string source_prefix = {};  // of a model with an encoder...
  int64_t longest_source = 0;      // ... and the tokens that a source has at most
  ChatClock chat_clock = ChatTimeNow();
};

// A prompt's tokens, with what the tokenizer puts before a text (Llama's <|begin_of_text|>), or a
// conversation up to where the assistant's turn begins. kInvalidArgument for one without tokens,
// with those of another model, or longer than the model's positions. With an encoder the prompt is
// its source, which loses its end where it is too long.
absl::StatusOr<Prompt> EncodePrompt(const PromptForm& form, const std::string& prompt,
                                    const Conversation& chat, PromptCounts* counts);
absl::StatusOr<Prompt> EncodePrompt(const TextTask& task, const TextModel& model,
                                    const std::string& prompt, const Conversation& chat,
                                    PromptCounts* counts);

// Tokens of a source at most; what is longer loses its end. REQUIRES: the model reads some.
int64_t LongestSource(const TextTask& task, const TransformerConfig& model);

// What a user says as a conversation.
Conversation UserMessage(const std::string& content);

// Where and in what to compute, as the task and this machine have it.
struct ComputeSettings {
  DType dtype = DType::kFloat32;
  bool fp32_products = false;
  uint64_t device_memory_bytes = 0, host_memory_bytes = 0;
};

// Opens model.compute for them.
absl::StatusOr<ComputeSettings> OpenComputeFor(const TextTask& task, TextModel& model);

// What a ForwardPass of the model needs of them. REQUIRES: OpenComputeFor.
ForwardOptions ForwardOptionsOf(const TextTask& task, const ComputeSettings& settings,
                                const TextModel& model);

// For these prompts, `rows` at a time. Of a model with an encoder it has read all sources then;
// kCancelled where a signal came meanwhile.
absl::Status StartGenerator(const TextTask& task, int rows, const std::vector<Prompt>& prompts,
                            TextModel& model);

}  // namespace spillway
