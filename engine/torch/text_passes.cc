#include "engine/torch/text_passes.h"

#include <algorithm>

#include "io/base/status.h"

namespace spillway {
namespace {

// Memory for choosing a token, in fp32, as a multiple of the logits' bytes: scores, their order and
// sums.
constexpr int64_t kLookedAt = 12;

}  // namespace

int64_t TextsAtOnce(int64_t loss_rows, DType dtype, int64_t samples_at_once) {
  const int64_t logits =
      loss_rows * static_cast<int64_t>(DTypeBytes(dtype)) / static_cast<int64_t>(sizeof(float));
  return std::clamp<int64_t>(logits - kLookedAt, 1, samples_at_once);
}

uint64_t TextLogitsBytes(const TextBatches& texts) {
  return static_cast<uint64_t>((texts.together() + kLookedAt) * texts.classes()) * sizeof(float);
}

absl::StatusOr<std::vector<torch::Tensor>> TextPasses::After(
    const std::vector<TextBeginning>& texts) {
  std::vector<torch::Tensor> logits;
  for (size_t begin = 0; begin < texts.size(); begin += at_once_) {
    RETURN_IF_ERROR(
        batches_.LoadBeginnings(absl::MakeSpan(texts).subspan(begin, at_once_), texts_));
    RETURN_IF_ERROR(pass_());
    for (const MicroBatch& micro : batches_.all()) {
      if (!micro.logits.defined()) {
        return absl::InvalidArgumentError("this model has no logits: it cannot make texts");
      }
      for (const torch::Tensor& row : micro.logits.unbind(0)) logits.push_back(row);
    }
    batches_.Clear();
  }
  return logits;
}

}  // namespace spillway
