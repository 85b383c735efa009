// One thing that took time: an operation, work on a tile, a transfer or a wait. Plain values;
// io/base/trace.h gathers them.
#pragma once

#include <cstdint>

#include "absl/strings/string_view.h"

namespace spillway {

enum class SpanKind : uint8_t {
  // The compute thread's operations.
  kForward,
  kLoss,
  kBackward,
  // A worker's, on one tile.
  kRound,
  kUpdate,
  kMeasure,
  kCheck,  // of what was fetched
  kSave,   // checksums of what only lives in memory, for a commit
  kFill,   // with the first state
  // A separate device's own: it rounds or updates a tile.
  kDeviceUpdate,
  // Transfers.
  kRead,
  kWrite,
  // Between the host's memory and a separate device's.
  kCopyToDevice,
  kCopyToHost,
  // Exchanges with other ranks: a unit's weights, and its gradient.
  kGather,
  kSum,
  // What the compute thread waited for.
  kWaitDisk,
  kWaitUpdate,
  kWaitCopy,
  kWaitCollective,  // for other ranks
  kWaitCommit,
  // From the beginning of a commit until it is durable; an evaluation.
  kCommit,
  kEvaluation,
};

// "forward", "read", "wait for disk".
absl::string_view SpanKindName(SpanKind kind);

struct Span {
  SpanKind kind = SpanKind::kForward;
  // Of a transfer its IoClass; of a wait the SpanKind of the operation that waited.
  uint8_t detail = 0;
  uint16_t thread = 0;  // Trace::ThisThread of who did it
  int32_t unit = -1;    // -1: of none
  int32_t tile = -1;
  int64_t begin_ns = 0;  // Trace::Now
  int64_t end_ns = 0;
  // Transfers only, and of copies and exchanges the bytes: when it was submitted (it began when its
  // first block did), and what was in flight just after it began and just after it ended.
  int64_t submitted_ns = 0;
  uint64_t bytes = 0;
  uint64_t in_flight_at_begin = 0;
  uint64_t in_flight_at_end = 0;
};

}  // namespace spillway
