// Rows of whole samples as a Dataset, for language models.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/data/sample_rows.h"
#include "engine/torch/model.h"

namespace spillway {

struct SampleDatasetOptions {
  int64_t seq_len = 0;              // the rows' layout
  bool pack = false;                // likewise
  bool pad_to_max_length = false;   // to seq_len instead of the longest
  int64_t evaluated_positions = 0;  // of the longest row in the held-out data
};

// Row i: inputs and labels [rows, T] int64, where T is the longest length rounded up to 8, and at
// most seq_len. Rows are padded with zeros, which no position of a sample attends to and whose
// labels are kIgnoredLabel, as are those of tokens without loss. Packed, Batch::texts has the
// lengths of the samples, and of the padding.
class SampleDataset : public Dataset {
 public:
  // Both outlive the object.
  SampleDataset(const TokenSource* source, const SampleRows* rows,
                const SampleDatasetOptions& options);

  int64_t size() const override { return rows_->size(); }
  absl::StatusOr<Batch> Get(absl::Span<const int64_t> rows) override;
  std::string fingerprint() const override;
  absl::StatusOr<std::optional<Batch>> Largest(int64_t count) override;

 private:
  // T for a longest row of `positions` positions.
  int64_t LengthFor(int64_t positions) const;

  const TokenSource* const source_;
  const SampleRows* const rows_;
  const SampleDatasetOptions options_;
};

// Batch::texts of `count` packed rows that take the most memory: each has two texts, one of all
// positions but one, and one of a single position. Attention to one long text takes the most, and
// several texts need a copy of its result.
std::vector<int64_t> LargestTexts(int64_t count, int64_t length);

}  // namespace spillway
