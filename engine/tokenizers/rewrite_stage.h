// A stage that rewrites text: normalizers, and insertions and replacements by pre-tokenizers.
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

// The position of a stretch of text in its segment.
struct TextPlace {
  bool begins_text = false;  // the segment starts the text, and no token precedes it
  bool begins = false;       // nothing of the segment has been passed on
  bool ends = false;         // the segment ends after it
};

// Appends the rewritten form of a prefix of `text` to `out` and returns the prefix's length in
// bytes: whole characters, whose result does not depend on later text. The rest is passed again
// with more text. At a segment's end it takes all. Pure: any thread. REQUIRES: valid UTF-8, not
// empty.
using Rewrite = std::function<absl::StatusOr<size_t>(absl::string_view text, const TextPlace& place,
                                                     std::string* out)>;

// kInvalidArgument if rewrites have expanded the text too much: consecutive normalizers may each
// make it a thousand times as long.
absl::Status CheckTextGrowth(uint64_t given_bytes, uint64_t made_bytes);

// Applies all rewrites to a text as one segment. kInvalidArgument if one of them makes more than
// `most_bytes`, or than CheckTextGrowth allows; kCancelled at a StopSignal.
absl::StatusOr<std::string> RewriteAll(const std::vector<Rewrite>& rewrites, std::string text,
                                       size_t most_bytes = std::numeric_limits<size_t>::max());

// Rewrites each segment by itself. A stretch of more than kMaxHeldBytes that `rewrite` cannot take
// is cut there. kInvalidArgument as in CheckTextGrowth, kCancelled at a StopSignal.
class RewriteStage : public TextStage {
 public:
  // See StageMaker.
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
  uint64_t made_bytes_ = 0;  // in the current text
  bool begins_text_ = true, begins_ = true;
  std::string held_, out_;
};

}  // namespace spillway
