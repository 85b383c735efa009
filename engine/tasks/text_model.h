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
#include "engine/tasks/encoded_sources.h"
#include "engine/tasks/requests.h"
#include "engine/tasks/task.h"
#include "engine/tokenizers/speech_tokens.h"
#include "engine/tokenizers/tokenizer.h"
#include "engine/torch/cuda_support.h"
#include "engine/weights/safetensors_model.h"

namespace spillway {

struct Prompt {
  uint64_t number = 0;  // samples are keyed by it
  std::vector<int64_t> tokens;
  std::vector<int64_t> source;  // of a model with an encoder, what that reads...
  SoundWindow sound = {};       // ... or hears
  bool continues_text = false;  // what is written stands behind `tokens` in one text
};

struct TextModel {
  const Task* task = nullptr;
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
  // Where neither a flag nor generation_config.json names one.
  double usual_temperature = 0;
  int64_t new_tokens = 100;  // of a text, at most
  // Of a model that hears.
  SpeechTokens speech_tokens;
  SpeechMode speech;
  // It is asked what is spoken.
  bool finds_languages() const { return speech_tokens.multilingual() && speech.language.empty(); }

  std::unique_ptr<OpenedPlace> compute;
  std::unique_ptr<EncodedSources> sources;  // [prompt]; null: the model has no encoder
  std::unique_ptr<Generator> generator;
};

// Opens the model and prepares it for the request (Task::Prepare); StartGenerator opens the rest.
// `temperature`: where neither a flag nor generation_config.json names one, for a model without an
// encoder; others take the likeliest token then.
absl::StatusOr<std::unique_ptr<TextModel>> OpenTextModel(const TextRequest& request,
                                                         double temperature);

// Opens model.tokenizer, if it is not there yet.
absl::Status OpenTokenizer(const TextRequest& request, TextModel& model);

// Task::Prepare of models that generate texts: sampling, tokenizer, and the tokens that end a text.
absl::Status PrepareToGenerate(const TextRequest& request, TextModel& model);

// kInvalidArgument where flags are given that are for models of other tasks.
absl::Status RefuseRequest(bool given, absl::string_view flags, absl::string_view models,
                           const TextRequest& request, const TextModel& model);
absl::Status RefuseSpeechFlags(const TextRequest& request, const TextModel& model);
absl::Status RefuseSourceFlags(const TextRequest& request, const TextModel& model);
// Those two, and all other flags of texts that are generated.
absl::Status RefuseGenerationFlags(const TextRequest& request, const TextModel& model);

// kInvalidArgument where predict was given several files.
absl::Status CheckOneFile(const PredictRequest& request);

// What to tell of prompts once all are encoded.
struct PromptCounts {
  int64_t cut = 0;      // sources that were too long and lost their end
  int64_t doubled = 0;  // prompts that begin with what is put before them anyway
};

// Texts end with a turn of the assistant, too, where the tokenizer has a token for that.
void AddTurnEnd(TextModel& model);

// What a user says as a conversation.
Conversation UserMessage(const std::string& content);

// Where and in what to compute, as the task and this machine have it.
struct ComputeSettings {
  DType dtype = DType::kFloat32;
  bool fp32_products = false;
  uint64_t device_memory_bytes = 0, host_memory_bytes = 0;
};

// Opens model.compute for them.
absl::StatusOr<ComputeSettings> OpenComputeFor(const TextRequest& request, TextModel& model);

// What a ForwardPass of the model needs of them. REQUIRES: OpenComputeFor.
ForwardOptions ForwardOptionsOf(const TextRequest& request, const ComputeSettings& settings,
                                const TextModel& model);

// Starts model.generator for these prompts, `rows` at a time. `sources`: what the encoder of the
// model reads for each prompt, all of which is computed here; null where it has none. kCancelled
// where a signal came meanwhile.
absl::Status StartGenerator(const TextRequest& request, int rows,
                            const std::vector<Prompt>& prompts, const SourceList* sources,
                            TextModel& model);

}  // namespace spillway
