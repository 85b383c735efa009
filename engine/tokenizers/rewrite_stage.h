// A stage that rewrites text: normalizers, and what pre-tokenizers put in or replace.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/tokenizers/text_stage.h"

namespace spillway {

// Where a stretch of text lies.
struct TextPlace {
  bool begins_text = false;  // the segment is the text's first, and no token is before it
  bool begins = false;       // nothing of the segment has been handed on
  bool ends = false;         // the segment ends behind it
};

// Appends to `out` what becomes of the beginning of `text`, and says how many bytes that
// took: whole characters, and what follows them can't change it. The rest comes again, with
// more behind it. At a segment's end it takes all. Pure: any thread.
// REQUIRES: valid UTF-8, not empty.
using Rewrite = std::function<absl::StatusOr<size_t>(absl::string_view text, const TextPlace& place,
                                                     std::string* out)>;

// kInvalidArgument where rewrites have made far more text than they were given: normalizers that
// follow one another may each make it a thousand times as long.
absl::Status CheckTextGrowth(uint64_t given_bytes, uint64_t made_bytes);

// A text through all of them, as one segment. kInvalidArgument where one of them makes more than
// `most_bytes`, or than CheckTextGrowth allows; kCancelled at a StopSignal.
absl::StatusOr<std::string> RewriteAll(const std::vector<Rewrite>& rewrites, std::string text,
                                       size_t most_bytes = std::numeric_limits<size_t>::max());

// Rewrites each segment by itself. A stretch of more than kMaxHeldBytes that `rewrite` can't
// take is cut there. kInvalidArgument as of CheckTextGrowth, kCancelled at a StopSignal.
class RewriteStage : public TextStage {
 public:
  // As StageMaker.
  RewriteStage(Rewrite rewrite, TextStage* next, const uint64_t* given_bytes)
      : rewrite_(std::move(rewrite)), next_(next), given_bytes_(given_bytes) {}

  absl::Status Text(absl::string_view piece) override;
  absl::Status EndSegment() override;
  absl::Status Token(uint32_t token) override;
  void Continue() override;
  void Reset() override;

 private:
  absl::Status Run(bool ends);

  const Rewrite rewrite_;
  TextStage* const next_;
  const uint64_t* const given_bytes_;
  uint64_t made_bytes_ = 0;  // of the text
  bool begins_text_ = true, begins_ = true;
  std::string held_, out_;
};

}  // namespace spillway
