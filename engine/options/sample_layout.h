// What makes one row of a batch.
#pragma once

namespace spillway {

enum class SampleLayout {
  // Not said: pairs and conversations are padded, texts are windows; a run that is resumed goes on
  // as it began.
  kByData,
  kWindows,  // so many tokens of the sequence that all tokens make
  kPadded,   // one line of a .jsonl
  kPacked,   // whole lines, as many as have room
};

}  // namespace spillway
