// predict with models that answer a row at once: texts or pictures go through the model in batches,
// and their answers are kept as soon as they are made.
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

// What is answered.
struct BatchedRows {
  const char* kind = "";  // "texts"
  int64_t count = 0;
  std::string fingerprint;  // of all of them
  std::function<absl::StatusOr<Batch>(absl::Span<const int64_t> numbers)> batch;
  // Of one, in fp32, the largest that goes from one unit to the next.
  std::function<uint64_t(int64_t number)> hidden_bytes;
};

// Of these rows, by number, the answers; `outputs` [row] is what the model's last unit makes of
// one, [T, ...] where that is of its tokens, with those of padding behind, in fp32 and the host's
// memory.
using MakeAnswers = std::function<absl::StatusOr<std::vector<nlohmann::ordered_json>>(
    ForwardPass& pass, const std::vector<int64_t>& numbers,
    const std::vector<torch::Tensor>& outputs)>;

// Answers all `rows`, `done` saying what was done with them ("texts classified"). False where a
// signal stopped it; the same command goes on then.
absl::StatusOr<bool> AnswerInBatches(const PredictRequest& request, TextModel& model,
                                     const BatchedRows& rows, const char* done,
                                     const MakeAnswers& make);

// Adds to `row` what scores [labels], as the model makes them, say of the labels.
void AddScores(const torch::Tensor& scores, const ClassifierConfig& classifier,
               nlohmann::ordered_json& row);

// Checks that the one file of the request has a format of this use. kInvalidArgument for flags of
// models that generate texts, too.
absl::Status CheckEncoderRequest(const PredictRequest& request, DataUse use);

// Texts as a model of an encoder alone reads them.
class EncodedFile {
 public:
  void Add(EncodedText text);

  const std::vector<EncodedText>& texts() const { return texts_; }
  // Of all tokens and types.
  uint64_t digest() const { return digest_.value(); }
  // Says so where some texts lost their end.
  void WarnOfCut(const PredictRequest& request, int64_t cut) const;

 private:
  std::vector<EncodedText> texts_;
  Digest digest_;
};

// Tokens of a text at most: what the task says, or the model's positions. kInvalidArgument where it
// says more than those.
absl::StatusOr<int64_t> LongestText(const PredictRequest& request, const TransformerConfig& model);

// AnswerInBatches of texts. kInvalidArgument for flags of prompts.
absl::StatusOr<bool> AnswerWithEncoder(const PredictRequest& request, TextModel& model,
                                       const EncodedFile& file, const char* done,
                                       const MakeAnswers& make);

}  // namespace spillway
