// Layout of samples in the rows of a batch (--samples).
#pragma once

namespace spillway {

enum class SampleLayout {
  // Default: pairs and conversations are padded, texts are windows; a resumed run keeps its layout.
  kByData,
  kWindows,  // a fixed number of tokens of the concatenated data
  kPadded,   // one line of a .jsonl
  kPacked,   // as many whole lines as fit
};

}  // namespace spillway
