// The layout of samples in the rows of a batch.
#pragma once

namespace spillway {

enum class SampleLayout {
  // Automatic: pairs and conversations are padded, texts are windows; a resumed run keeps its
  // layout.
  kByData,
  kWindows,  // fixed numbers of tokens, from the concatenation of all tokens
  kPadded,   // one line of a .jsonl per row
  kPacked,   // as many whole lines as fit
};

}  // namespace spillway
