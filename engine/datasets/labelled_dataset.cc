#include "engine/datasets/labelled_dataset.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/torch/text_batch.h"
#include "io/base/status.h"

namespace spillway {
namespace {

// `numbers`: of all samples, one after another.
torch::Tensor LabelsOf(const ClassifierConfig& classifier, const std::vector<float>& numbers,
                       int64_t samples) {
  const torch::Tensor labels = torch::tensor(numbers, torch::kFloat32);
  if (classifier.problem.value_or(ClassifierProblem::kSingleLabel) ==
      ClassifierProblem::kSingleLabel) {
    return labels.to(torch::kInt64);
  }
  return labels.view({samples, -1});
}

}  // namespace

int64_t LabelledDataset::LengthFor(int64_t longest) const {
  return options_.pad_to_max_length ? options_.seq_len : PaddedLength(longest, options_.seq_len);
}

absl::StatusOr<Batch> LabelledDataset::Get(absl::Span<const int64_t> samples) {
  std::vector<EncodedText> texts;
  std::vector<float> labels;
  std::vector<std::vector<int64_t>> of_tokens;
  int64_t longest = 0;
  for (const int64_t number : samples) {
    ASSIGN_OR_RETURN(LabelledSamples::Sample sample, samples_->Get(number));
    longest = std::max(longest, static_cast<int64_t>(sample.text.tokens.size()));
    if (samples_->labels_tokens()) {
      of_tokens.emplace_back(sample.labels.begin(), sample.labels.end());
    } else {
      labels.insert(labels.end(), sample.labels.begin(), sample.labels.end());
    }
    texts.push_back(std::move(sample.text));
  }
  Batch batch = BatchOfTexts(texts, LengthFor(longest), config_->padding_token.value_or(0));
  batch.labels = samples_->labels_tokens()
                     ? LabelsOfTokens(of_tokens, batch.inputs.size(1))
                     : LabelsOf(*config_->classifier, labels, static_cast<int64_t>(samples.size()));
  return batch;
}

std::string LabelledDataset::fingerprint() const {
  return absl::StrCat(samples_->fingerprint(), "/", options_.seq_len);
}

absl::StatusOr<std::optional<Batch>> LabelledDataset::Largest(int64_t count) {
  const int64_t longest = std::max(samples_->longest(), options_.evaluated_positions);
  return LargestLabelledBatch(*config_, samples_->labels_tokens(), count, LengthFor(longest));
}

Batch LargestLabelledBatch(const TransformerConfig& config, bool labels_tokens, int64_t count,
                           int64_t length) {
  Batch batch = LargestBatchOfTexts(count, length, config.vocabulary);
  const ClassifierConfig& classifier = *config.classifier;
  if (labels_tokens) {
    batch.labels = torch::zeros({count, length}, torch::kInt64);
    return batch;
  }
  const bool one = classifier.problem.value_or(ClassifierProblem::kSingleLabel) ==
                   ClassifierProblem::kSingleLabel;
  const size_t each = one ? 1 : classifier.labels.size();
  batch.labels = LabelsOf(classifier, std::vector<float>(count * each), count);
  return batch;
}

}  // namespace spillway
