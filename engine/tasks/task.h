// A task: what a run is for. train, estimate, predict and generate ask the task for everything that
// differs between models that continue texts, translate, transcribe, classify or fill in masks.
//
// A task is one object without state, in a file of its own, and one line in the table of tasks
// (task.cc).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/config/run_config.h"
#include "engine/families/model_config.h"
#include "engine/options/shape_options.h"
#include "engine/tasks/requests.h"
#include "engine/tasks/task_data.h"
#include "engine/tokenizers/tokenizer.h"
#include "engine/torch/model.h"
#include "engine/weights/safetensors_model.h"

namespace spillway {

struct TextModel;  // engine/tasks/text_model.h
struct Prompt;

// What a task opens the data of a run with. All of it outlives the data.
struct TaskInputs {
  const RunConfig& config;  // as Task::Resolve left it
  const ModelConfig& model;
  const Tokenizer* tokenizer;  // null: the data is tokens already, or has no texts
};

// Positions of the longest sample: of its one text, or of its source and its target.
struct SampleLengths {
  int64_t source = 0, target = 0;
};

class Task {
 public:
  virtual ~Task() = default;

  virtual ModelTask kind() const = 0;
  // What a model does, for messages that begin with its name: "is a language model".
  virtual const char* model_does() const = 0;
  virtual bool Fits(const ModelConfig& model) const = 0;

  // ---- Settings of train and estimate.

  // Checks that `path`, a file of `flag` (--data, --eval-data), exists and has a format that this
  // task reads. `model`: the model's directory, for messages.
  virtual absl::Status CheckFile(absl::string_view flag, const std::string& path,
                                 const std::string& model) const = 0;

  // Puts the labels of config.data into the model's config, where that leaves them open.
  virtual absl::Status ReadLabels(const RunConfig& /*config*/, ModelConfig& /*model*/) const {
    return absl::OkStatus();
  }

  // Assumes what ReadLabels would find in the data; for estimate, which reads none. Whether
  // anything was left open.
  virtual bool AssumeLabels(ModelConfig& /*model*/) const { return false; }

  // Fills in what follows from the model, such as lengths. kInvalidArgument for lengths above the
  // model's positions. REQUIRES: CheckSettingsFitTask (engine/config/run_config.h).
  virtual absl::Status Resolve(RunConfig& config, ModelConfig& model) const = 0;

  // Replaces an error about the shapes of the model's tensors by one that names the cause, where
  // this task knows it. `names`: what the model calls its tensors.
  virtual absl::Status ExplainShapes(const RunConfig& /*config*/, const ModelConfig& /*model*/,
                                     const TensorNames& /*names*/,
                                     const SafetensorsModel& /*files*/,
                                     const absl::Status& error) const {
    return error;
  }

  // Whether a run needs a tokenizer, and whether its data may be token ids, which need none.
  virtual bool reads_texts() const { return true; }
  virtual bool reads_token_ids() const { return false; }
  // Whether samples lie in windows or rows (--samples).
  virtual bool lays_samples() const { return false; }
  // Whether evaluations can generate texts and compare them (--predict-with-generate).
  virtual bool compares_texts() const { return false; }

  // ---- Data.

  virtual absl::StatusOr<std::unique_ptr<TaskData>> OpenData(const TaskInputs& inputs) const = 0;

  // Batches that take as much memory as any of the run, without reading its data; for estimate.
  virtual absl::StatusOr<std::unique_ptr<Dataset>> LargestData(
      const RunConfig& config, const ModelConfig& model, const SampleLengths& lengths) const = 0;

  // Whether time and memory of a step follow from the model's shape; otherwise they have to be
  // measured.
  virtual bool shape_tells_costs() const { return true; }
  // Whether every batch has the largest shape, so that a run knows its memory before it computes.
  virtual bool all_batches_are_alike(const RunConfig& /*config*/) const { return false; }

  // ---- predict and generate.

  // Completes an opened model for `request`: its tokenizer, how it writes texts. kInvalidArgument
  // for flags of other tasks.
  virtual absl::Status Prepare(const TextRequest& request, TextModel& model) const = 0;

  // Answers the file request.data and writes request.out. False where a signal stopped it; the same
  // command goes on then.
  virtual absl::StatusOr<bool> Predict(const PredictRequest& request, TextModel& model) const = 0;

  // The prompts that `generate` continues, for which model.generator is started; a sound has one
  // for each of its windows. kInvalidArgument where models of this task generate no texts.
  virtual absl::StatusOr<std::vector<Prompt>> PromptsOf(const GenerateRequest& request,
                                                        TextModel& model) const = 0;
};

// All tasks. A model fits exactly one.
const std::vector<const Task*>& Tasks();
const Task& TaskOf(const ModelConfig& model);

// Tokens of a text at most, where no flag names another length.
inline constexpr int64_t kUsualLength = 1024;

// Sets `*length`, where it is 0, to the smaller of `positions` and `usual`. kInvalidArgument where
// it is above `positions`; `flag` names it.
absl::Status ResolveLength(absl::string_view flag, int64_t positions, int64_t usual,
                           int64_t* length);

// kInvalidArgument for --samples packed. `samples`: what this task has in place of language models'
// texts: "texts that are classified".
absl::Status RefusePacking(const RunConfig& config, absl::string_view samples);

// The nearest existing folder above OUTPUT, for temporary files.
std::string ScratchDirectory(const std::string& output);

}  // namespace spillway
