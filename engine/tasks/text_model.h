// A model directory or a run's last commit, opened for generate and predict.
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
#include "engine/tasks/encoded_sources.h"
#include "engine/tasks/requests.h"
#include "engine/tasks/task.h"
#include "engine/tokenizers/speech_tokens.h"
#include "engine/tokenizers/tokenizer.h"
#include "engine/torch/cuda_support.h"
#include "engine/weights/safetensors_model.h"

namespace spillway {

struct Prompt {
  uint64_t number = 0;  // key of its random numbers
  std::vector<int64_t> tokens;
  std::vector<int64_t> source;  // for a model with an encoder, its tokens...
  SoundWindow sound = {};       // ... or its sound
  bool continues_text = false;  // generated text continues that of `tokens`
};

struct TextModel {
  const Task* task = nullptr;
  std::string files;  // directory of config and tokenizer
  ModelConfig config;
  Model model;
  DType dtype = DType::kFloat32;  // dtype of the weights
  std::string weights_name;       // identifies the weights: a fingerprint, or a run's step
  std::set<std::string> grown;    // parameters with more rows than in the files
  std::unique_ptr<SafetensorsModel> safetensors;
  std::unique_ptr<CommittedRun> run;
  std::unique_ptr<AdapterFile> adapter;
  std::unique_ptr<WeightSource> base_weights;  // without an adapter's
  std::unique_ptr<WeightSource> weights;
  std::unique_ptr<Tokenizer> tokenizer;
  SamplingOptions sampling;  // with the tokens that end a text; none with --ignore-end
  // Default if neither a flag nor generation_config.json sets it.
  double usual_temperature = 0;
  int64_t new_tokens = 100;  // limit per text
  // Special tokens of a model of speech.
  SpeechTokens speech_tokens;
  SpeechMode speech;
  // Whether the model detects the language.
  bool finds_languages() const { return speech_tokens.multilingual() && speech.language.empty(); }

  std::unique_ptr<OpenedPlace> compute;
  std::unique_ptr<EncodedSources> sources;  // [prompt]; null: the model has no encoder
  std::unique_ptr<Generator> generator;
};

// Opens the model and prepares it for the request (Task::Prepare); StartGenerator opens the rest.
// `temperature`: default for a model without an encoder if neither a flag nor
// generation_config.json sets it; other models then use the likeliest token.
absl::StatusOr<std::unique_ptr<TextModel>> OpenTextModel(const TextRequest& request,
                                                         double temperature);

// Opens model.tokenizer, if it is not open yet.
absl::Status OpenTokenizer(const TextRequest& request, TextModel& model);

// Task::Prepare for models that generate texts: sampling, tokenizer, and the tokens that end a
// text.
absl::Status PrepareToGenerate(const TextRequest& request, TextModel& model);

// kInvalidArgument if flags are given that are for models of other tasks.
absl::Status RefuseRequest(bool given, absl::string_view flags, absl::string_view models,
                           const TextRequest& request, const TextModel& model);
absl::Status RefuseSpeechFlags(const TextRequest& request, const TextModel& model);
absl::Status RefuseSourceFlags(const TextRequest& request, const TextModel& model);
// Refuses these two, and all other flags about generated texts.
absl::Status RefuseGenerationFlags(const TextRequest& request, const TextModel& model);

// kInvalidArgument if predict was given several files.
absl::Status CheckOneFile(const PredictRequest& request);

// Counts for warnings after all prompts are encoded.
struct PromptCounts {
  int64_t cut = 0;      // truncated sources
  int64_t doubled = 0;  // prompts that begin with the prefix that is added
};

// Texts also end with a turn of the assistant, if the tokenizer has a token for that.
void AddTurnEnd(TextModel& model);

// A conversation with this message of a user.
Conversation UserMessage(const std::string& content);

// Device and dtype of the computation, from the request and this machine.
struct ComputeSettings {
  DType dtype = DType::kFloat32;
  bool fp32_products = false;
  uint64_t device_memory_bytes = 0, host_memory_bytes = 0;
};

// Opens model.compute for the request.
absl::StatusOr<ComputeSettings> OpenComputeFor(const TextRequest& request, TextModel& model);

// The options of the model's ForwardPass. REQUIRES: OpenComputeFor.
ForwardOptions ForwardOptionsOf(const TextRequest& request, const ComputeSettings& settings,
                                const TextModel& model);

// Starts model.generator for these prompts, `rows` at a time. `sources`: the encoder's input for
// each prompt, all encoded here; null if the model has no encoder. kCancelled after a signal.
absl::Status StartGenerator(const TextRequest& request, int rows,
                            const std::vector<Prompt>& prompts, const SourceList* sources,
                            TextModel& model);

}  // namespace spillway
