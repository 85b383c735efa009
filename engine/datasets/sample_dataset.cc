#include "engine/datasets/sample_dataset.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/torch/text_batch.h"
#include "io/base/status.h"

namespace spillway {

SampleDataset::SampleDataset(const TokenSource* source, const SampleRows* rows,
                             const SampleDatasetOptions& options)
    : source_(source), rows_(rows), options_(options) {}

int64_t SampleDataset::LengthFor(int64_t positions) const {
  if (options_.pad_to_max_length) return options_.seq_len;
  return PaddedLength(positions, options_.seq_len);
}

absl::StatusOr<Batch> SampleDataset::Get(absl::Span<const int64_t> rows) {
  const int64_t count = static_cast<int64_t>(rows.size());
  std::vector<std::vector<SampleRows::Part>> parts;
  int64_t longest = 0;
  for (const int64_t row : rows) {
    ASSIGN_OR_RETURN(std::vector<SampleRows::Part> held, rows_->Read(row));
    parts.push_back(std::move(held));
    int64_t positions = 0;
    for (const SampleRows::Part& part : parts.back()) positions += part.positions();
    longest = std::max(longest, positions);
  }
  const int64_t length = LengthFor(longest);
  Batch batch;
  batch.inputs = torch::zeros({count, length}, torch::kInt64);
  batch.labels = torch::full({count, length}, kIgnoredLabel, torch::kInt64);
  std::vector<int64_t> tokens;
  std::vector<uint8_t> marks;
  for (int64_t i = 0; i < count; ++i) {
    int64_t* input = batch.inputs[i].mutable_data_ptr<int64_t>();
    int64_t* label = batch.labels[i].mutable_data_ptr<int64_t>();
    int64_t left = length;
    for (const SampleRows::Part& part : parts[i]) {
      tokens.resize(part.tokens);
      marks.resize(part.tokens);
      RETURN_IF_ERROR(source_->Read(part.first, part.tokens, tokens.data(), marks.data()));
      for (int64_t j = 0; j < part.positions(); ++j) {
        *input++ = tokens[j];
        *label++ = (marks[j + 1] & kMarkWithoutLoss) != 0 ? kIgnoredLabel : tokens[j + 1];
      }
      if (options_.pack) batch.texts.push_back(part.positions());
      left -= part.positions();
      batch.tokens += part.positions();
    }
    if (options_.pack && left > 0) batch.texts.push_back(left);
  }
  return batch;
}

std::string SampleDataset::fingerprint() const {
  return absl::StrCat(source_->fingerprint(), "/", rows_->fingerprint(), "/", options_.seq_len);
}

absl::StatusOr<std::optional<Batch>> SampleDataset::Largest(int64_t count) {
  const int64_t positions = std::max(rows_->longest(), options_.evaluated_positions);
  const int64_t length = LengthFor(positions);
  Batch batch;
  // Of different tokens: each has a gradient of its own.
  batch.inputs = torch::arange(count * length, torch::kInt64)
                     .remainder(source_->vocabulary())
                     .view({count, length});
  batch.labels = batch.inputs.clone();
  if (options_.pack) batch.texts = LargestTexts(count, length);
  return batch;
}

std::vector<int64_t> LargestTexts(int64_t count, int64_t length) {
  std::vector<int64_t> texts;
  for (int64_t i = 0; i < count; ++i) {
    if (length > 1) texts.push_back(length - 1);
    texts.push_back(1);
  }
  return texts;
}

}  // namespace spillway
