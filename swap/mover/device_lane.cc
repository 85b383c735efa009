#include "swap/mover/device_lane.h"

#include <utility>

namespace spillway {
namespace {

class SeparateDeviceLane final : public DeviceLane {
 public:
  SeparateDeviceLane(Device* device, StreamId ops_stream, MoverThread* thread, MoverRecord* record,
                     Trace* trace)
      : DeviceLane(record, nullptr),
        device_(device),
        ops_stream_(ops_stream),
        thread_(thread),
        times_(trace) {}

  bool separate_device() const override { return true; }

  void OpComes(const StepOp& op, SpanKind waited_for, double wait_began_seconds) override {
    if (!times_ops()) return;
    DeviceTimes::Grant grant;
    grant.op = SpanKindOf(op.kind);
    grant.unit = op.unit;
    grant.waited_for = waited_for;
    grant.wait_began_ns = static_cast<int64_t>(wait_began_seconds * 1e9);
    grant.granted_ns = Trace::Now();
    device_->Notify(ops_stream_,
                    [this, grant](const absl::Status&) { times_.OpComes(grant, Trace::Now()); });
  }
  void OpWaitsFor(const DeviceEvent& event) override { device_->Wait(ops_stream_, event); }
  void OpBegins() override {
    if (!times_ops()) return;
    device_->Notify(ops_stream_, [this](const absl::Status&) { times_.OpBegins(Trace::Now()); });
  }
  void OpEnds() override {
    op_done_ = device_->Record(ops_stream_);
    if (!times_ops()) return;
    device_->Notify(ops_stream_, [this](const absl::Status&) { times_.OpEnds(Trace::Now()); });
  }
  DeviceEvent op_done() const override { return op_done_; }
  StreamId ops_stream() const override { return ops_stream_; }
  void BeginComputing() override { device_->BeginComputing(ops_stream_); }
  void CountInputs(OpKind kind, uint64_t bytes) override {
    Count(kind == OpKind::kForward ? &SwapStats::to_host_bytes : &SwapStats::to_device_bytes,
          bytes);
  }

  DeviceEvent Record(StreamId stream) override { return device_->Record(stream); }
  void Wait(StreamId stream, const DeviceEvent& event) override { device_->Wait(stream, event); }
  DeviceEvent Discard(char* data, uint64_t bytes, const std::vector<DeviceEvent>& after) override {
    return device_->Discard(data, bytes, after);
  }
  void WhenDone(StreamId stream, Done then) override {
    device_->Notify(stream, [this, then = std::move(then)](const absl::Status& status) {
      thread_->Post([this, then, status] {
        if (!status.ok()) thread_->Fail(status);
        then(status);
      });
    });
  }

  void CopyToDevice(int unit, char* to, const char* from, uint64_t bytes) override {
    TimedCopy(StreamId::kToDevice, SpanKind::kCopyToDevice, unit, to, from, bytes);
    Count(&SwapStats::to_device_bytes, bytes);
  }
  void CopyToHost(int unit, char* to, const char* from, uint64_t bytes) override {
    TimedCopy(StreamId::kToHost, SpanKind::kCopyToHost, unit, to, from, bytes);
    Count(&SwapStats::to_host_bytes, bytes);
  }
  void CopyWithin(char* to, const char* from, uint64_t bytes) override {
    device_->Copy(StreamId::kToHost, to, from, bytes);
  }
  void CopyWord(char* to, const char* from, uint64_t bytes) override {
    device_->Copy(StreamId::kToHost, to, from, bytes);
    Count(&SwapStats::to_host_bytes, bytes);
  }
  void Launch(int unit, int tile, Device::Kernel kernel) override {
    device_->Notify(StreamId::kToHost,
                    [this](const absl::Status&) { times_.UpdateBegins(Trace::Now()); });
    device_->Launch(StreamId::kToHost, std::move(kernel));
    device_->Notify(StreamId::kToHost, [this, unit, tile](const absl::Status&) {
      times_.UpdateEnds(unit, tile, Trace::Now());
    });
  }

  DeviceSeconds seconds() const override { return times_.At(Trace::Now()); }
  void AddTo(SwapStats* stats) const override {
    const DeviceSeconds seconds = this->seconds();
    stats->copies_to_device = seconds.to_device;
    stats->copies_to_host = seconds.to_host;
    stats->copy_busy_seconds = seconds.copying;
    stats->device_update_seconds = seconds.updating;
    stats->compute_busy_seconds = seconds.computing;
    stats->stall_disk_seconds = seconds.stalled_disk;
    stats->stall_update_seconds = seconds.stalled_update;
    stats->stall_commit_seconds = seconds.stalled_commit;
    stats->stall_copy_seconds = seconds.stalled_copy;
  }
  absl::Status Synchronize() override { return device_->Synchronize(); }

 private:
  // In any other stream an operation is no compute.
  bool times_ops() const { return ops_stream_ == StreamId::kCompute; }

  void Count(uint64_t SwapStats::*counter, uint64_t bytes) {
    record_->Count([&](SwapStats& stats) { stats.*counter += bytes; });
  }

  void TimedCopy(StreamId stream, SpanKind direction, int unit, char* to, const char* from,
                 uint64_t bytes) {
    device_->Notify(stream, [this, direction](const absl::Status&) {
      times_.CopyBegins(direction, Trace::Now());
    });
    device_->Copy(stream, to, from, bytes);
    device_->Notify(stream, [this, direction, unit, bytes](const absl::Status&) {
      times_.CopyEnds(direction, unit, bytes, Trace::Now());
    });
  }

  Device* const device_;
  const StreamId ops_stream_;
  MoverThread* const thread_;
  DeviceTimes times_;
  DeviceEvent op_done_;
};

}  // namespace

void DeviceLane::OpComes(const StepOp& op, SpanKind waited_for, double wait_began_seconds) {
  Span span;
  span.kind = waited_for;
  span.detail = static_cast<uint8_t>(SpanKindOf(op.kind));
  span.unit = op.unit;
  span.begin_ns = static_cast<int64_t>(wait_began_seconds * 1e9);
  span.end_ns = Trace::Now();
  if (IsOn(waits_)) waits_->Record(span);
  record_->Count([&](SwapStats& stats) {
    (waited_for == SpanKind::kWaitCommit   ? stats.stall_commit_seconds
     : waited_for == SpanKind::kWaitUpdate ? stats.stall_update_seconds
                                           : stats.stall_disk_seconds) +=
        static_cast<double>(span.end_ns) * 1e-9 - wait_began_seconds;
  });
}

std::unique_ptr<DeviceLane> DeviceLane::Create(Device* device, StreamId ops_stream,
                                               MoverThread* thread, MoverRecord* record,
                                               Trace* trace) {
  if (device != nullptr) {
    return std::make_unique<SeparateDeviceLane>(device, ops_stream, thread, record, trace);
  }
  // Waits of operations other than compute are recorded by their callers.
  Trace* const waits = ops_stream == StreamId::kCompute ? trace : nullptr;
  return std::unique_ptr<DeviceLane>(new DeviceLane(record, waits));
}

}  // namespace spillway
