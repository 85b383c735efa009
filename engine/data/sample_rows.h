// Whole samples laid into rows: one a row, or several that have room in it together.
//
// A sample is a line of a .jsonl. One of n tokens takes n - 1 positions: each token but the last is
// an input, each but the first the label of the one before. Which samples a row holds is found in
// one pass over the tokens and kept in temporary files, so memory stays bounded however many there
// are; it is a function of the tokens and of the options alone.
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

// kPadded for lines with prompts or conversations, kWindows for texts and for files of which some
// do not say where samples begin.
SampleLayout LayoutByData(const TokenSource& source);

// kInvalidArgument where samples are asked for and a file does not say where they begin.
absl::Status CheckSampleLayout(SampleLayout layout, const TokenSource& source);

struct SampleRowsOptions {
  int64_t row_positions = 0;  // a longer sample is cut
  // Several samples a row. In their order each goes into the one of the last kOpenRows rows that it
  // fills best, the older of two; a row that is full is done, and where a new one is needed, the
  // fullest of so many.
  bool pack = false;
  std::string scratch_directory;
};

// Immutable once made: any thread.
class SampleRows {
 public:
  static constexpr int kOpenRows = 64;

  // A sample, or as much of it as a row has room for: tokens [first, first + tokens) of the source.
  struct Part {
    int64_t first = 0;
    int64_t tokens = 0;

    int64_t positions() const { return tokens - 1; }
    bool operator==(const Part& other) const = default;
  };

  // Warns of samples that are cut, and of those that are left out, because no label of theirs
  // carries loss. kInvalidArgument where that is all. REQUIRES: source.has_samples().
  static absl::StatusOr<std::unique_ptr<SampleRows>> Lay(const TokenSource& source,
                                                         const SampleRowsOptions& options);

  // Rows; at least 1.
  int64_t size() const { return begins_.size() - 1; }
  // REQUIRES: 0 <= row < size().
  absl::StatusOr<std::vector<Part>> Read(int64_t row) const;

  int64_t samples() const { return parts_.size() / 2; }
  int64_t positions() const { return positions_; }
  // That carry loss.
  int64_t labels() const { return labels_; }
  // Positions of the longest row.
  int64_t longest() const { return longest_; }
  // Changes with what any row holds.
  std::string fingerprint() const;

 private:
  SampleRows(ScratchNumbers parts, ScratchNumbers begins)
      : parts_(std::move(parts)), begins_(std::move(begins)) {}

  absl::Status AddRow(const std::vector<Part>& row);

  ScratchNumbers parts_;   // of every row's parts: first, tokens
  ScratchNumbers begins_;  // [row] its first part, and behind the last row their number
  int64_t positions_ = 0;
  int64_t labels_ = 0;
  int64_t longest_ = 0;
};

}  // namespace spillway
