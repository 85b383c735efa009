#include "io/base/span.h"

#include "io/base/enum_name.h"

namespace spillway {

absl::string_view SpanKindName(SpanKind kind) {
  return EnumName(kind, {// Operations, and work on a tile.
                         "forward", "loss", "backward", "round", "update", "measure", "check",
                         "save", "fill", "device update",
                         // Transfers and exchanges.
                         "read", "write", "copy to device", "copy to host", "gather", "sum",
                         // Waits, and what takes a while.
                         "wait for disk", "wait for update", "wait for copy",
                         "wait for other ranks", "wait for commit", "commit", "evaluation"});
}

}  // namespace spillway
