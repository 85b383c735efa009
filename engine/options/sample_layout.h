// What makes one row of a batch.
#pragma once

namespace spillway {

enum class SampleLayout {
  kWindows,  // so many tokens of the sequence that all tokens make
  kPadded,   // one line of a .jsonl
  kPacked,   // whole lines, as many as have room
};

}  // namespace spillway
