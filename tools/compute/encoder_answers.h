// predict with encoders: a file of texts goes through the model in batches, and each text's answer
// is kept as soon as it is made.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/data/token_template.h"
#include "engine/torch/forward_pass.h"
#include "io/checksum.h"
#include "nlohmann/json.hpp"
#include "tools/compute/text_model.h"

namespace spillway {

class EncodedFile {
 public:
  void Add(EncodedText text);

  const std::vector<EncodedText>& texts() const { return texts_; }
  // Of all tokens and types.
  uint64_t digest() const { return digest_.value(); }
  // Says so where some texts lost their end.
  void WarnOfCut(const PredictTask& task, int64_t cut, int64_t positions) const;

 private:
  std::vector<EncodedText> texts_;
  Digest digest_;
};

// Of these texts, by number, the answers; `outputs` [text] is what the model's last unit makes of
// one, [T, ...] where that is of its tokens, with those of padding behind, in fp32 and the host's
// memory.
using MakeAnswers = std::function<absl::StatusOr<std::vector<nlohmann::ordered_json>>(
    ForwardPass& pass, const std::vector<int64_t>& numbers,
    const std::vector<torch::Tensor>& outputs)>;

// At the end, as task.as_json asks. `done`: "texts classified".
void PrintDone(const PredictTask& task, size_t rows, const char* done, double seconds);

// Answers all of `file`, `done` saying what was done with them ("texts classified"). False where a
// signal stopped it; the same command goes on then.
absl::StatusOr<bool> AnswerWithEncoder(const PredictTask& task, TextModel& model,
                                       const EncodedFile& file, const char* done,
                                       const MakeAnswers& make);

}  // namespace spillway
