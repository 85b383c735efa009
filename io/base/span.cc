#include "io/base/span.h"

namespace spillway {

absl::string_view SpanKindName(SpanKind kind) {
  switch (kind) {
    case SpanKind::kForward:
      return "forward";
    case SpanKind::kLoss:
      return "loss";
    case SpanKind::kBackward:
      return "backward";
    case SpanKind::kRound:
      return "round";
    case SpanKind::kUpdate:
      return "update";
    case SpanKind::kMeasure:
      return "measure";
    case SpanKind::kCheck:
      return "check";
    case SpanKind::kSave:
      return "save";
    case SpanKind::kFill:
      return "fill";
    case SpanKind::kDeviceUpdate:
      return "device update";
    case SpanKind::kRead:
      return "read";
    case SpanKind::kWrite:
      return "write";
    case SpanKind::kCopyToDevice:
      return "copy to device";
    case SpanKind::kCopyToHost:
      return "copy to host";
    case SpanKind::kGather:
      return "gather";
    case SpanKind::kSum:
      return "sum";
    case SpanKind::kWaitDisk:
      return "wait for disk";
    case SpanKind::kWaitUpdate:
      return "wait for update";
    case SpanKind::kWaitCopy:
      return "wait for copy";
    case SpanKind::kWaitCollective:
      return "wait for other ranks";
    case SpanKind::kWaitCommit:
      return "wait for commit";
    case SpanKind::kCommit:
      return "commit";
    case SpanKind::kEvaluation:
      return "evaluation";
  }
  return "?";
}

}  // namespace spillway
