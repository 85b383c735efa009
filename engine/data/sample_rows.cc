#include "engine/data/sample_rows.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/base/stop_signal.h"
#include "engine/tokenizers/tokenizer.h"
#include "io/base/check.h"
#include "io/base/log.h"
#include "io/base/status.h"

namespace spillway {
namespace {

using Part = SampleRows::Part;
using TakeRow = std::function<absl::Status(const std::vector<Part>&)>;

// Rows that still have room, in order of creation.
class OpenRows {
 public:
  OpenRows(int64_t row_positions, TakeRow take)
      : row_positions_(row_positions), take_(std::move(take)) {}

  absl::Status Add(const Part& part) {
    At row = BestFor(part.positions());
    if (row == rows_.end()) {
      if (rows_.size() == SampleRows::kOpenRows) RETURN_IF_ERROR(End(Fullest()));
      rows_.push_back(Row{{}, row_positions_});
      row = rows_.end() - 1;
    }
    row->parts.push_back(part);
    row->room -= part.positions();
    return row->room > 0 ? absl::OkStatus() : End(row);
  }

  absl::Status Finish() {
    while (!rows_.empty()) RETURN_IF_ERROR(End(rows_.begin()));
    return absl::OkStatus();
  }

 private:
  struct Row {
    std::vector<Part> parts;
    int64_t room = 0;  // positions
  };
  using At = std::vector<Row>::iterator;

  At BestFor(int64_t positions) {
    At best = rows_.end();
    for (At row = rows_.begin(); row != rows_.end(); ++row) {
      if (row->room < positions) continue;
      if (best == rows_.end() || row->room < best->room) best = row;
    }
    return best;
  }
  At Fullest() {
    return std::min_element(rows_.begin(), rows_.end(),
                            [](const Row& a, const Row& b) { return a.room < b.room; });
  }
  absl::Status End(At row) {
    const std::vector<Part> parts = std::move(row->parts);
    rows_.erase(row);
    return take_(parts);
  }

  const int64_t row_positions_;
  const TakeRow take_;
  std::vector<Row> rows_;
};

// Calls take(sample, labels with loss among its first `most_tokens`) for each sample.
absl::Status ForEachSample(const TokenSource& source, int64_t most_tokens,
                           const std::function<absl::Status(const Part&, int64_t)>& take) {
  std::vector<int64_t> tokens(64 << 10);
  std::vector<uint8_t> marks(tokens.size());
  Part sample;
  int64_t labels = 0;
  for (int64_t first = 0; first < source.size(); first += static_cast<int64_t>(tokens.size())) {
    RETURN_IF_ERROR(StopSignal::Check());
    const int64_t n = std::min(static_cast<int64_t>(tokens.size()), source.size() - first);
    RETURN_IF_ERROR(source.Read(first, n, tokens.data(), marks.data()));
    for (int64_t i = 0; i < n; ++i) {
      const uint8_t mark = marks[static_cast<size_t>(i)];
      if ((mark & kMarkBegin) != 0) {
        if (sample.tokens > 0) RETURN_IF_ERROR(take(sample, labels));
        sample = {first + i, 0};
        labels = 0;
      }
      const bool is_label = sample.tokens > 0 && sample.tokens < most_tokens;
      if (is_label && (mark & kMarkWithoutLoss) == 0) ++labels;
      ++sample.tokens;
    }
  }
  return sample.tokens > 0 ? take(sample, labels) : absl::OkStatus();
}

}  // namespace

SampleLayout LayoutByData(const TokenSource& source) {
  return source.has_samples() && source.has_prompts() ? SampleLayout::kPadded
                                                      : SampleLayout::kWindows;
}

absl::Status CheckSampleLayout(SampleLayout layout, const TokenSource& source) {
  if (layout == SampleLayout::kWindows || source.has_samples()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      source.names(), ": ",
      layout == SampleLayout::kPacked ? "--packing (--samples packed)" : "--samples padded",
      " lays whole samples into rows, and only a .jsonl says where samples begin (one a line): "
      "give the .jsonl itself, or --samples windows"));
}

absl::StatusOr<std::unique_ptr<SampleRows>> SampleRows::Lay(const TokenSource& source,
                                                            const SampleRowsOptions& options) {
  SPILLWAY_CHECK(options.row_positions > 0 && source.has_samples());
  ASSIGN_OR_RETURN(ScratchNumbers parts, ScratchNumbers::Create(options.scratch_directory));
  ASSIGN_OR_RETURN(ScratchNumbers begins, ScratchNumbers::Create(options.scratch_directory));
  std::unique_ptr<SampleRows> rows(new SampleRows(std::move(parts), std::move(begins)));
  const int64_t most_tokens = options.row_positions + 1;
  int64_t cut = 0, left_out = 0;
  OpenRows open(options.row_positions,
                [&](const std::vector<Part>& row) { return rows->AddRow(row); });
  RETURN_IF_ERROR(
      ForEachSample(source, most_tokens, [&](const Part& sample, int64_t labels) -> absl::Status {
        if (labels == 0) {
          ++left_out;
          return absl::OkStatus();
        }
        if (sample.tokens > most_tokens) ++cut;
        rows->labels_ += labels;
        const Part part = {sample.first, std::min(sample.tokens, most_tokens)};
        return options.pack ? open.Add(part) : rows->AddRow({part});
      }));
  RETURN_IF_ERROR(open.Finish());
  RETURN_IF_ERROR(rows->begins_.Append(rows->samples()));
  RETURN_IF_ERROR(rows->parts_.Flush());
  RETURN_IF_ERROR(rows->begins_.Flush());
  const std::string fitting = absl::StrCat("in the ", most_tokens, " tokens that --seq-len ",
                                           options.row_positions, " has room for");
  if (rows->samples() == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(source.names(), ": no sample has a label that carries loss ", fitting,
                     ": give a larger --seq-len, or shorter prompts"));
  }
  WarnOfCut(source.names(), cut, rows->samples(), "samples", "--seq-len", options.row_positions);
  if (left_out > 0) {
    LogWarning(absl::StrCat(source.names(), ": ", left_out, " of ", rows->samples() + left_out,
                            " samples are left out: nothing of theirs ", fitting,
                            " is a label that carries loss"));
  }
  return rows;
}

absl::Status SampleRows::AddRow(const std::vector<Part>& row) {
  RETURN_IF_ERROR(begins_.Append(samples()));
  int64_t positions = 0;
  for (const Part& part : row) {
    RETURN_IF_ERROR(parts_.Append(part.first));
    RETURN_IF_ERROR(parts_.Append(part.tokens));
    positions += part.positions();
  }
  positions_ += positions;
  longest_ = std::max(longest_, positions);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Part>> SampleRows::Read(int64_t row) const {
  SPILLWAY_CHECK(row >= 0 && row < size());
  int64_t ends[2];
  RETURN_IF_ERROR(begins_.Read(row, 2, ends));
  std::vector<int64_t> numbers(static_cast<size_t>(2 * (ends[1] - ends[0])));
  RETURN_IF_ERROR(parts_.Read(2 * ends[0], static_cast<int64_t>(numbers.size()), numbers.data()));
  std::vector<Part> parts;
  for (size_t i = 0; i < numbers.size(); i += 2) parts.push_back({numbers[i], numbers[i + 1]});
  return parts;
}

std::string SampleRows::fingerprint() const {
  return absl::StrFormat("rows-%d-%016x-%016x", size(), parts_.digest(), begins_.digest());
}

}  // namespace spillway
