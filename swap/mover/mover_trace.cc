// What the mover tells a trace.
#include "swap/mover/mover_internal.h"

namespace spillway {

SpanKind SpanKindOf(PassKind kind) {
  switch (kind) {
    case PassKind::kRound:
      return SpanKind::kRound;
    case PassKind::kUpdate:
      return SpanKind::kUpdate;
    case PassKind::kInitialize:
      return SpanKind::kFill;
    case PassKind::kSave:
      return SpanKind::kSave;
  }
  return SpanKind::kUpdate;
}

void RecordWait(Trace* trace, const StepOp& op, SpanKind waited_for, double began_seconds) {
  if (!IsOn(trace)) return;
  Span span;
  span.kind = waited_for;
  span.detail = static_cast<uint8_t>(SpanKindOf(op.kind));
  span.unit = op.unit;
  span.begin_ns = static_cast<int64_t>(began_seconds * 1e9);
  span.end_ns = Trace::Now();
  trace->Record(span);
}

}  // namespace spillway
