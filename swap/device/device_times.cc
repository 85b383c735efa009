#include "swap/device/device_times.h"

#include <algorithm>

namespace spillway {
namespace {

double Seconds(int64_t begin_ns, int64_t end_ns) {
  return static_cast<double>(std::max<int64_t>(0, end_ns - begin_ns)) * 1e-9;
}

}  // namespace

// The two directions' notes come from two threads, and may be a little out of order.
void DeviceTimes::Pass(int64_t now_ns) {
  seconds_.copying = Copying(now_ns);
  passed_ns_ = std::max(passed_ns_, now_ns);
}

double DeviceTimes::Copying(int64_t now_ns) const {
  const bool copies = to_device_.begin_ns >= 0 || to_host_.begin_ns >= 0;
  return seconds_.copying + (copies ? Seconds(passed_ns_, now_ns) : 0);
}

double DeviceTimes::Updating(int64_t now_ns) const {
  return seconds_.updating + (update_began_ns_ >= 0 ? Seconds(update_began_ns_, now_ns) : 0);
}

void DeviceTimes::CopyBegins(SpanKind direction, int64_t now_ns) {
  MutexLock lock(mutex_);
  Pass(now_ns);
  (direction == SpanKind::kCopyToDevice ? to_device_ : to_host_).begin_ns = now_ns;
}

void DeviceTimes::CopyEnds(SpanKind direction, int unit, uint64_t bytes, int64_t now_ns) {
  MutexLock lock(mutex_);
  Pass(now_ns);
  Direction& copies = direction == SpanKind::kCopyToDevice ? to_device_ : to_host_;
  if (copies.begin_ns < 0) return;
  copies.done.bytes += bytes;
  copies.done.seconds += Seconds(copies.begin_ns, now_ns);
  if (IsOn(trace_)) {
    Span span;
    span.kind = direction;
    span.unit = unit;
    span.thread = Trace::ThisThread();
    span.begin_ns = copies.begin_ns;
    span.end_ns = now_ns;
    span.bytes = bytes;
    trace_->Record(span);
  }
  copies.begin_ns = -1;
}

void DeviceTimes::UpdateBegins(int64_t now_ns) {
  MutexLock lock(mutex_);
  update_began_ns_ = now_ns;
}

void DeviceTimes::UpdateEnds(int unit, int tile, int64_t now_ns) {
  MutexLock lock(mutex_);
  if (update_began_ns_ < 0) return;
  seconds_.updating = Updating(now_ns);
  if (IsOn(trace_)) {
    Span span;
    span.kind = SpanKind::kDeviceUpdate;
    span.unit = unit;
    span.tile = tile;
    span.thread = Trace::ThisThread();
    span.begin_ns = update_began_ns_;
    span.end_ns = now_ns;
    trace_->Record(span);
  }
  update_began_ns_ = -1;
}

void DeviceTimes::RecordWait(SpanKind wait, int64_t begin_ns, int64_t end_ns) const {
  if (!IsOn(trace_) || end_ns <= begin_ns) return;
  Span span;
  span.kind = wait;
  span.detail = static_cast<uint8_t>(grant_.op);
  span.unit = grant_.unit;
  span.begin_ns = begin_ns;
  span.end_ns = end_ns;
  trace_->Record(span);
}

void DeviceTimes::OpComes(const Grant& grant, int64_t now_ns) {
  MutexLock lock(mutex_);
  grant_ = grant;
  came_ns_ = now_ns;
  copying_then_ = Copying(now_ns);
  updating_then_ = Updating(now_ns);
  // While the operation before still computed, nobody waited.
  const int64_t begin_ns = std::max(grant.wait_began_ns, op_ended_ns_);
  (grant.waited_for == SpanKind::kWaitCommit   ? seconds_.stalled_commit
   : grant.waited_for == SpanKind::kWaitUpdate ? seconds_.stalled_update
   : grant.waited_for == SpanKind::kWaitCopy   ? seconds_.stalled_copy
                                               : seconds_.stalled_disk) +=
      Seconds(begin_ns, grant.granted_ns);
  RecordWait(grant.waited_for, begin_ns, grant.granted_ns);
}

void DeviceTimes::OpBegins(int64_t now_ns) {
  MutexLock lock(mutex_);
  op_began_ns_ = now_ns;
  const bool for_update = Updating(now_ns) - updating_then_ > Copying(now_ns) - copying_then_;
  (for_update ? seconds_.stalled_update : seconds_.stalled_copy) += Seconds(came_ns_, now_ns);
  RecordWait(for_update ? SpanKind::kWaitUpdate : SpanKind::kWaitCopy, came_ns_, now_ns);
}

void DeviceTimes::OpEnds(int64_t now_ns) {
  MutexLock lock(mutex_);
  op_ended_ns_ = now_ns;
  if (op_began_ns_ < 0) return;
  seconds_.computing += Seconds(op_began_ns_, now_ns);
  if (IsOn(trace_)) {
    Span span;
    span.kind = grant_.op;
    span.unit = grant_.unit;
    span.thread = Trace::ThisThread();
    span.begin_ns = op_began_ns_;
    span.end_ns = now_ns;
    trace_->Record(span);
  }
  op_began_ns_ = -1;
}

DeviceSeconds DeviceTimes::At(int64_t now_ns) const {
  MutexLock lock(mutex_);
  DeviceSeconds seconds = seconds_;
  const auto with = [&](const Direction& copies) {
    CopyTime time = copies.done;
    if (copies.begin_ns >= 0) time.seconds += Seconds(copies.begin_ns, now_ns);
    return time;
  };
  seconds.to_device = with(to_device_);
  seconds.to_host = with(to_host_);
  seconds.copying = Copying(now_ns);
  seconds.updating = Updating(now_ns);
  if (op_began_ns_ >= 0) seconds.computing += Seconds(op_began_ns_, now_ns);
  return seconds;
}

}  // namespace spillway
