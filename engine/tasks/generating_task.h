// Tasks whose models generate texts: how predict and generate read prompts and write answers.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/data/jsonl.h"
#include "engine/tasks/continue_texts.h"
#include "engine/tasks/speech_prompts.h"
#include "engine/tasks/task.h"
#include "engine/tasks/text_model.h"
#include "nlohmann/json.hpp"

namespace spillway {

class GeneratingTask : public Task {
 public:
  absl::StatusOr<bool> Predict(const PredictRequest& request, TextModel& model) const final;

  // Starts model.generator for these prompts, `rows` at a time.
  virtual absl::Status Start(const TextRequest& request, int rows, std::vector<Prompt>& prompts,
                             TextModel& model) const = 0;

  // Checks that the file of prompts exists and has a format that is read.
  virtual absl::Status CheckPrompts(const std::string& path) const;
  // The key of the text that an answer is compared with.
  virtual std::string TargetKey(const PredictRequest& request) const;
  virtual absl::StatusOr<std::vector<PromptRecord>> ReadRecords(
      const PredictRequest& request) const;
  // The prompts of one record, at least one.
  virtual absl::StatusOr<std::vector<Prompt>> PromptsOfRecord(const PredictRequest& request,
                                                              const TextModel& model,
                                                              const PromptRecord& record,
                                                              PromptCounts* counts) const = 0;
  // The answer to a record. `made`: what was generated for each of its prompts, in any order.
  virtual absl::StatusOr<nlohmann::ordered_json> RowOf(const TextModel& model,
                                                       const PromptRecord& record,
                                                       std::vector<WindowMade>& made) const;
  // Says what `counts` has found in all prompts of the file.
  virtual void Warn(const PredictRequest& request, const TextModel& model,
                    const PromptCounts& counts, size_t prompts) const = 0;

 protected:
  // kInvalidArgument for --audio.
  absl::Status RefuseAudio(const GenerateRequest& request) const;
};

}  // namespace spillway
