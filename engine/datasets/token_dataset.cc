#include "engine/datasets/token_dataset.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/data/window_sampler.h"
#include "io/base/status.h"

namespace spillway {

TokenDataset::TokenDataset(const TokenSource* source, int64_t seq_len)
    : source_(source), seq_len_(seq_len) {}

int64_t TokenDataset::size() const { return WindowCount(source_->size(), seq_len_); }

std::string TokenDataset::fingerprint() const {
  return absl::StrCat(source_->fingerprint(), "/", seq_len_);
}

absl::StatusOr<Batch> TokenDataset::Get(absl::Span<const int64_t> samples) {
  const int64_t count = samples.size();
  Batch batch;
  batch.tokens = count * seq_len_;
  batch.inputs = torch::empty({count, seq_len_}, torch::kInt64);
  batch.labels = torch::empty({count, seq_len_}, torch::kInt64);
  std::vector<int64_t> window(seq_len_ + 1);
  std::vector<uint8_t> marks(seq_len_ + 1);
  for (int64_t i = 0; i < count; ++i) {
    RETURN_IF_ERROR(
        source_->Read(samples[i] * seq_len_, seq_len_ + 1, window.data(), marks.data()));
    std::copy(window.begin(), window.end() - 1, batch.inputs[i].data_ptr<int64_t>());
    int64_t* labels = batch.labels[i].data_ptr<int64_t>();
    for (int64_t j = 0; j < seq_len_; ++j) {
      labels[j] = (marks[j + 1] & kMarkWithoutLoss) != 0 ? kIgnoredLabel : window[j + 1];
    }
  }
  return batch;
}

}  // namespace spillway
