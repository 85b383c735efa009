// A model directory or a run's last commit, opened to continue texts: generate and predict.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/adapters/adapter_file.h"
#include "engine/data/tokenizer.h"
#include "engine/families/model_config.h"
#include "engine/run/committed_run.h"
#include "engine/torch/cuda_support.h"
#include "engine/torch/generator.h"
#include "engine/weights/safetensors_model.h"
#include "tools/compute_library.h"

namespace spillway {

struct TextModel {
  std::string files;  // the directory of config and tokenizer
  ModelConfig config;
  Model model;
  DType dtype = DType::kFloat32;  // what the weights are kept in
  std::string weights_name;       // which they are: a fingerprint, or a run's step
  std::unique_ptr<SafetensorsModel> safetensors;
  std::unique_ptr<CommittedRun> run;
  std::unique_ptr<AdapterFile> adapter;
  std::unique_ptr<WeightSource> base_weights;  // without an adapter's
  std::unique_ptr<WeightSource> weights;
  std::unique_ptr<Tokenizer> tokenizer;
  SamplingOptions sampling;  // with the tokens that end a text, none with --ignore-end
  int64_t new_tokens = 100;  // of a text, at most

  std::unique_ptr<OpenedPlace> compute;
  std::unique_ptr<Generator> generator;
};

// All but the generator. `temperature`: where nobody says one.
absl::StatusOr<std::unique_ptr<TextModel>> OpenTextModel(const TextTask& task, double temperature);

// A prompt's tokens, with what the tokenizer puts around a text (Llama's <|begin_of_text|>), or a
// conversation up to where the assistant's turn begins. kInvalidArgument for one without tokens,
// with those of another model, or longer than the model's positions.
absl::StatusOr<std::vector<int64_t>> EncodePrompt(const TextModel& model, const std::string& prompt,
                                                  const JinjaValue& messages);

// What a user says as a conversation.
JinjaValue UserMessage(const std::string& content);

// Where and in what to compute, as the task and this machine have it.
struct ComputeSettings {
  DType dtype = DType::kFloat32;
  bool fp32_products = false;
  uint64_t device_memory_bytes = 0, host_memory_bytes = 0;
};

// Opens model.compute for them.
absl::StatusOr<ComputeSettings> OpenComputeFor(const TextTask& task, TextModel& model);

// For `rows` texts at a time, whose longest prompt has `prompt_tokens`.
absl::Status StartGenerator(const TextTask& task, int rows, int64_t prompt_tokens,
                            TextModel& model);

}  // namespace spillway
