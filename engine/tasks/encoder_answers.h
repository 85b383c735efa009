// predict for models that answer a row at once: texts or pictures go through the model in batches,
// and their answers are saved as soon as they are computed.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/data/data_file.h"
#include "engine/families/classifier_config.h"
#include "engine/tasks/text_model.h"
#include "engine/tokenizers/token_template.h"
#include "engine/torch/forward_pass.h"
#include "io/checksum.h"
#include "nlohmann/json.hpp"

namespace spillway {

// The rows to answer.
struct BatchedRows {
  const char* kind = "";  // "texts"
  int64_t count = 0;
  std::string fingerprint;  // over all rows
  std::function<absl::StatusOr<Batch>(absl::Span<const int64_t> numbers)> batch;
  // Bytes of the largest fp32 value between units for one row.
  std::function<uint64_t(int64_t number)> hidden_bytes;
};

// Computes the answers to the rows with these numbers. `outputs` [row] is the last unit's output
// for one row, [T, ...] including padding if it is per token, in fp32 and host memory.
using MakeAnswers = std::function<absl::StatusOr<std::vector<nlohmann::ordered_json>>(
    ForwardPass& pass, const std::vector<int64_t>& numbers,
    const std::vector<torch::Tensor>& outputs)>;

// Answers all `rows`; `done` describes the work in messages ("texts classified"). False if a signal
// stopped it; the same command then continues.
absl::StatusOr<bool> AnswerInBatches(const PredictRequest& request, TextModel& model,
                                     const BatchedRows& rows, const char* done,
                                     const MakeAnswers& make);

// Adds the labels with the model's scores [labels] to `row`.
void AddScores(const torch::Tensor& scores, const ClassifierConfig& classifier,
               nlohmann::ordered_json& row);

// Checks that the single file of the request has a format for this use. kInvalidArgument also for
// flags of models that generate texts.
absl::Status CheckEncoderRequest(const PredictRequest& request, DataUse use);

// Texts in the form that a model of an encoder alone reads.
class EncodedFile {
 public:
  void Add(EncodedText text);

  const std::vector<EncodedText>& texts() const { return texts_; }
  // Digest of all tokens and types.
  uint64_t digest() const { return digest_.value(); }
  // Warns if texts were truncated.
  void WarnOfCut(const PredictRequest& request, int64_t cut) const;

 private:
  std::vector<EncodedText> texts_;
  Digest digest_;
};

// Largest number of tokens of a text: the request's, or the model's positions. kInvalidArgument if
// the request's is larger.
absl::StatusOr<int64_t> LongestText(const PredictRequest& request, const TransformerConfig& model);

// AnswerInBatches for texts. kInvalidArgument for flags of prompts.
absl::StatusOr<bool> AnswerWithEncoder(const PredictRequest& request, TextModel& model,
                                       const EncodedFile& file, const char* done,
                                       const MakeAnswers& make);

}  // namespace spillway
