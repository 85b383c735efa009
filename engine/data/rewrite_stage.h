// A stage that rewrites text: normalizers, and what pre-tokenizers put in or replace.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/data/text_stage.h"

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

// A text through all of them, as one segment.
absl::StatusOr<std::string> RewriteAll(const std::vector<Rewrite>& rewrites, std::string text);

// Rewrites each segment by itself. A stretch of more than kMaxHeldBytes that `rewrite` can't
// take is cut there.
class RewriteStage : public TextStage {
 public:
  RewriteStage(Rewrite rewrite, TextStage* next) : rewrite_(std::move(rewrite)), next_(next) {}

  absl::Status Text(absl::string_view piece) override;
  absl::Status EndSegment() override;
  absl::Status Token(uint32_t token) override;
  void Reset() override;

 private:
  absl::Status Run(bool ends);

  const Rewrite rewrite_;
  TextStage* const next_;
  bool begins_text_ = true, begins_ = true;
  std::string held_, out_;
};

}  // namespace spillway
