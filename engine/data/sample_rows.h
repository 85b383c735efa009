// Lays whole samples into rows: one per row, or several that fit together.
//
// A sample is a line of a .jsonl. One of n tokens takes n - 1 positions: each token but the last is
// an input, each but the first the label of the one before. The assignment to rows is computed in
// one pass over the tokens and kept in temporary files, so memory is bounded; it depends only on
// the tokens and the options.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/data/scratch_file.h"
#include "engine/data/token_source.h"
#include "engine/options/sample_layout.h"

namespace spillway {

// kPadded for lines with prompts or conversations; kWindows for texts, and for data with a file
// that does not mark samples.
SampleLayout LayoutByData(const TokenSource& source);

// kInvalidArgument if the layout needs samples and a file does not mark them.
absl::Status CheckSampleLayout(SampleLayout layout, const TokenSource& source);

struct SampleRowsOptions {
  int64_t row_positions = 0;  // a longer sample is cut
  // Several samples per row. Each in turn goes into the one of the last kOpenRows rows that it
  // fills best, the older of two. A full row is closed; if a new one is needed, the fullest open
  // one is closed.
  bool pack = false;
  std::string scratch_directory;
};

// Immutable once laid: any thread.
class SampleRows {
 public:
  static constexpr int kOpenRows = 64;

  // A sample, or the part of it that fits into a row: tokens [first, first + tokens) of the source.
  struct Part {
    int64_t first = 0;
    int64_t tokens = 0;

    int64_t positions() const { return tokens - 1; }
    bool operator==(const Part& other) const = default;
  };

  // Warns of samples that are cut, and of dropped ones whose labels carry no loss. kInvalidArgument
  // if all are dropped. REQUIRES: source.has_samples().
  static absl::StatusOr<std::unique_ptr<SampleRows>> Lay(const TokenSource& source,
                                                         const SampleRowsOptions& options);

  // Number of rows; at least 1.
  int64_t size() const { return begins_.size() - 1; }
  // REQUIRES: 0 <= row < size().
  absl::StatusOr<std::vector<Part>> Read(int64_t row) const;

  int64_t samples() const { return parts_.size() / 2; }
  int64_t positions() const { return positions_; }
  // Labels with loss.
  int64_t labels() const { return labels_; }
  // Positions of the longest row.
  int64_t longest() const { return longest_; }
  // Digest of all rows.
  std::string fingerprint() const;

 private:
  SampleRows(ScratchNumbers parts, ScratchNumbers begins)
      : parts_(std::move(parts)), begins_(std::move(begins)) {}

  absl::Status AddRow(const std::vector<Part>& row);

  ScratchNumbers parts_;   // of all rows in order: first, tokens
  ScratchNumbers begins_;  // [row] its first part, and at the end the number of parts
  int64_t positions_ = 0;
  int64_t labels_ = 0;
  int64_t longest_ = 0;
};

}  // namespace spillway
