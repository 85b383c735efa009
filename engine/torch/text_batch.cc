#include "engine/torch/text_batch.h"

#include <algorithm>

#include "io/base/check.h"

namespace spillway {
namespace {

constexpr int64_t kLengthsOf = 8;

}  // namespace

int64_t PaddedLength(int64_t positions, int64_t most) {
  return std::min(most, (positions + kLengthsOf - 1) / kLengthsOf * kLengthsOf);
}

Batch BatchOfTexts(const std::vector<EncodedText>& texts, int64_t length, int64_t padding) {
  const auto count = static_cast<int64_t>(texts.size());
  Batch batch;
  batch.inputs = torch::full({count, length}, padding, torch::kInt64);
  const torch::Tensor visible = torch::zeros({count, length}, torch::kBool);
  const torch::Tensor types = torch::zeros({count, length}, torch::kInt64);
  for (int64_t i = 0; i < count; ++i) {
    const EncodedText& text = texts[i];
    const auto tokens = static_cast<int64_t>(text.tokens.size());
    SPILLWAY_CHECK(tokens > 0 && tokens <= length);
    batch.tokens += tokens;
    std::copy(text.tokens.begin(), text.tokens.end(), batch.inputs[i].data_ptr<int64_t>());
    std::copy(text.types.begin(), text.types.end(), types[i].data_ptr<int64_t>());
    visible[i].narrow(0, 0, tokens).fill_(true);
  }
  batch.fields = {{kVisibleField, visible}, {kTokenTypesField, types}};
  return batch;
}

Batch LargestBatchOfTexts(int64_t count, int64_t length, int64_t vocabulary) {
  std::vector<EncodedText> texts(count);
  int64_t next = 0;
  for (EncodedText& text : texts) {
    for (int64_t i = 0; i < length; ++i) text.tokens.push_back(next++ % vocabulary);
    text.types.assign(length, 0);
  }
  return BatchOfTexts(texts, length, 0);
}

torch::Tensor LabelsOfTokens(const std::vector<std::vector<int64_t>>& labels, int64_t length) {
  const auto count = static_cast<int64_t>(labels.size());
  torch::Tensor all = torch::full({count, length}, kIgnoredLabel, torch::kInt64);
  for (int64_t i = 0; i < count; ++i) {
    std::copy(labels[i].begin(), labels[i].end(), all[i].data_ptr<int64_t>());
  }
  return all;
}

}  // namespace spillway
