// Cuts segments of text into words and encodes them: the last stage of a byte-pair
// encoding tokenizer.
#pragma once

#include <string>
#include <vector>

#include "engine/data/bpe_merges.h"
#include "engine/data/split_pattern.h"
#include "engine/data/text_stage.h"

namespace spillway {

// A word is what the pattern matches, or what lies between two matches. What it cuts does
// not depend on how the text comes in pieces: a word is taken when nothing that may follow
// can change it, and one longer than kMaxHeldBytes is cut there.
class WordSplitter : public TextStage {
 public:
  // What they point to must outlive it. With `add_prefix_space` each segment that does
  // not begin with a space gets one.
  WordSplitter(const SplitPattern* pattern, const BpeModel* model, bool add_prefix_space)
      : add_prefix_space_(add_prefix_space), matcher_(*pattern), encoder_(model) {}

  // Where tokens are appended; before the first call, and again before each later one
  // that shall append elsewhere.
  void AppendTo(std::vector<uint32_t>* tokens) { tokens_ = tokens; }

  absl::Status Text(absl::string_view piece) override;
  absl::Status EndSegment() override;
  absl::Status Token(uint32_t token) override;
  void Reset() override;

 private:
  absl::Status Split(bool final);

  const bool add_prefix_space_;
  SplitMatcher matcher_;
  WordEncoder encoder_;
  std::vector<uint32_t>* tokens_ = nullptr;

  std::string buffer_;  // not yet cut into words
  bool segment_begins_ = true;
  // A stretch without a word's end is looked at again when it has doubled, so that looking
  // at it costs a constant amount a byte.
  size_t look_again_bytes_ = 0;
};

}  // namespace spillway
