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

// The inputs from which a task opens the data of a run. All of it outlives the data.
struct TaskInputs {
  const RunConfig& config;  // after Task::Resolve
  const ModelConfig& model;
  const Tokenizer* tokenizer;  // null: the data has token ids, or no texts
};

// Positions of the longest sample: of its one text, or of its source and its target.
struct SampleLengths {
  int64_t source = 0, target = 0;
};

class Task {
 public:
  virtual ~Task() = default;

  virtual ModelTask kind() const = 0;
  // Describes the model in messages that begin with its name: "is a language model".
  virtual const char* model_does() const = 0;
  virtual bool Fits(const ModelConfig& model) const = 0;

  // ---- Settings of train and estimate.

  // Checks that `path`, a file of `flag` (--data, --eval-data), exists and has a format that this
  // task reads. `model`: the model's directory, for messages.
  virtual absl::Status CheckFile(absl::string_view flag, const std::string& path,
                                 const std::string& model) const = 0;

  // Adds the labels of config.data to the model's config, if that leaves them open.
  virtual absl::Status ReadLabels(const RunConfig& /*config*/, ModelConfig& /*model*/) const {
    return absl::OkStatus();
  }

  // Assumes labels as ReadLabels would find them in the data; for estimate, which reads none.
  // Returns whether anything was left open.
  virtual bool AssumeLabels(ModelConfig& /*model*/) const { return false; }

  // Resolves settings that follow from the model, such as lengths. kInvalidArgument for lengths
  // above the model's positions. REQUIRES: CheckSettingsFitTask (engine/config/run_config.h).
  virtual absl::Status Resolve(RunConfig& config, ModelConfig& model) const = 0;

  // Replaces an error about the shapes of the model's tensors by one that names the cause, if the
  // task knows it. `names`: the model's names of its tensors.
  virtual absl::Status ExplainShapes(const RunConfig& /*config*/, const ModelConfig& /*model*/,
                                     const TensorNames& /*names*/,
                                     const SafetensorsModel& /*files*/,
                                     const absl::Status& error) const {
    return error;
  }

  // Whether a run needs a tokenizer, and whether its data may be token ids, which need none.
  virtual bool reads_texts() const { return true; }
  virtual bool reads_token_ids() const { return false; }
  // Whether samples can be laid out in windows or rows (--samples).
  virtual bool lays_samples() const { return false; }
  // Whether evaluations can generate texts and compare them (--predict-with-generate).
  virtual bool compares_texts() const { return false; }

  // ---- Data.

  virtual absl::StatusOr<std::unique_ptr<TaskData>> OpenData(const TaskInputs& inputs) const = 0;

  // Batches whose memory is the maximum of the run, without reading its data; for estimate.
  virtual absl::StatusOr<std::unique_ptr<Dataset>> LargestData(
      const RunConfig& config, const ModelConfig& model, const SampleLengths& lengths) const = 0;

  // Whether time and memory of a step follow from the model's shape; otherwise they are measured.
  virtual bool shape_tells_costs() const { return true; }
  // Whether every batch has the largest shape, so that the memory is known before the first step.
  virtual bool all_batches_are_alike(const RunConfig& /*config*/) const { return false; }

  // ---- predict and generate.

  // Completes an opened model for `request`: its tokenizer, and how it generates texts.
  // kInvalidArgument for flags of other tasks.
  virtual absl::Status Prepare(const TextRequest& request, TextModel& model) const = 0;

  // Answers the file request.data and writes request.out. False if a signal stopped it; the same
  // command then continues.
  virtual absl::StatusOr<bool> Predict(const PredictRequest& request, TextModel& model) const = 0;

  // The prompts that `generate` continues, for which model.generator is started; a sound has one
  // for each of its windows. kInvalidArgument if models of this task generate no texts.
  virtual absl::StatusOr<std::vector<Prompt>> PromptsOf(const GenerateRequest& request,
                                                        TextModel& model) const = 0;
};

// All tasks. A model fits exactly one.
const std::vector<const Task*>& Tasks();
const Task& TaskOf(const ModelConfig& model);

// Default limit for the tokens of a text.
inline constexpr int64_t kUsualLength = 1024;

// If `*length` is 0, sets it to the smaller of `positions` and `usual`. kInvalidArgument if it is
// above `positions`; `flag` names it.
absl::Status ResolveLength(absl::string_view flag, int64_t positions, int64_t usual,
                           int64_t* length);

// kInvalidArgument for --samples packed. `samples`: the task's samples in the message, such as
// "texts that are classified".
absl::Status RefusePacking(const RunConfig& config, absl::string_view samples);

// The nearest existing folder above OUTPUT, for temporary files.
std::string ScratchDirectory(const std::string& output);

}  // namespace spillway
