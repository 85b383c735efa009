// Rows of whole samples as a Dataset, for language models.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/data/sample_rows.h"
#include "engine/torch/model.h"

namespace spillway {

struct SampleDatasetOptions {
  int64_t seq_len = 0;              // as the rows were laid
  bool pack = false;                // likewise
  bool pad_to_max_length = false;   // to seq_len, and not only to the longest
  int64_t evaluated_positions = 0;  // of the longest row that is evaluated beside it
};

// Row i: inputs and labels [rows, T] int64, where T is that of the longest of them rounded up to 8,
// and at most seq_len. Behind a row's samples are zeros, which no position of theirs sees and whose
// labels are kIgnoredLabel, as are those of tokens that carry no loss. Packed, Batch::texts has the
// lengths of the samples, and of what is behind them.
class SampleDataset : public Dataset {
 public:
  // Both outlive it.
  SampleDataset(const TokenSource* source, const SampleRows* rows,
                const SampleDatasetOptions& options);

  int64_t size() const override { return rows_->size(); }
  absl::StatusOr<Batch> Get(absl::Span<const int64_t> rows) override;
  std::string fingerprint() const override;
  absl::StatusOr<std::optional<Batch>> Largest(int64_t count) override;

 private:
  // T where the longest row has so many positions.
  int64_t LengthFor(int64_t positions) const;

  const TokenSource* const source_;
  const SampleRows* const rows_;
  const SampleDatasetOptions options_;
};

// Batch::texts of `count` packed rows that take the most memory: each of two texts, of all
// positions but one, and of that one. Attention to one long text takes the most, and several texts
// take a copy of its result.
std::vector<int64_t> LargestTexts(int64_t count, int64_t length);

}  // namespace spillway
