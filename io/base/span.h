// A traced interval: an operation, work on a tile, a transfer or a wait. Plain values;
// io/base/trace.h gathers them.
#pragma once

#include <cstdint>

#include "absl/strings/string_view.h"

namespace spillway {

enum class SpanKind : uint8_t {
  // Operations of the compute thread.
  kForward,
  kLoss,
  kBackward,
  // Work of an update worker on one tile.
  kRound,
  kUpdate,
  kMeasure,
  kCheck,  // of fetched data
  kSave,   // checksums of state that lives in memory, for a commit
  kFill,   // with the initial state
  // Rounding or updating a tile on a separate device.
  kDeviceUpdate,
  // Transfers.
  kRead,
  kWrite,
  // Copies between host memory and a separate device's.
  kCopyToDevice,
  kCopyToHost,
  // Collectives: a unit's weights, and its gradient.
  kGather,
  kSum,
  // Waits of the compute thread.
  kWaitDisk,
  kWaitUpdate,
  kWaitCopy,
  kWaitCollective,  // for other ranks
  kWaitCommit,
  // A commit until it is durable, and an evaluation.
  kCommit,
  kEvaluation,
};

// "forward", "read", "wait for disk".
absl::string_view SpanKindName(SpanKind kind);

struct Span {
  SpanKind kind = SpanKind::kForward;
  // Transfers: the IoClass. Waits: the SpanKind of the operation that waited.
  uint8_t detail = 0;
  uint16_t thread = 0;  // Trace::ThisThread of the recording thread
  int32_t unit = -1;    // -1: no unit
  int32_t tile = -1;
  int64_t begin_ns = 0;  // Trace::Now
  int64_t end_ns = 0;
  // Transfers only, but `bytes` of copies and collectives, too: the time of submission (begin_ns is
  // that of the first block), and the bytes in flight just after the transfer began and just after
  // it ended.
  int64_t submitted_ns = 0;
  uint64_t bytes = 0;
  uint64_t in_flight_at_begin = 0;
  uint64_t in_flight_at_end = 0;
};

}  // namespace spillway
