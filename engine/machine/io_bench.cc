#include "engine/machine/io_bench.h"

#include <algorithm>
#include <memory>
#include <random>

#include "engine/machine/io_bench_bed.h"
#include "io/base/clock.h"
#include "io/base/status.h"
#include "io/block_queue.h"
#include "io/create_io_engine.h"

namespace spillway {
namespace {

constexpr double kDemandSeconds = 3;

// One measurement: keeps requests in flight until the time or the bytes are used up.
class Phase {
 public:
  // Which slots read and write in order, and whether the last slot reads on demand.
  struct Load {
    uint32_t streams = 0;
    bool read = false;
    bool write = false;
    bool demand = false;
  };

  Phase(IoBenchBed& bed, const Load& load, double seconds)
      : bed_(bed),
        load_(load),
        seconds_(seconds),
        next_read_(load.read && load.write ? bed.num_blocks() / 2 : 0) {}

  absl::StatusOr<IoBenchPhase> Run() {
    const double cpu_before = ProcessorSeconds();
    started_ns_ = MonotonicNanoseconds();
    for (uint32_t i = 0; i < load_.streams; ++i) {
      BenchSlot& slot = bed_.slots()[i];
      slot.context = this;
      slot.finished = [](BenchSlot& slot, const absl::Status& status) {
        static_cast<Phase*>(slot.context)->StreamDone(slot, status);
      };
      NextOfStream(slot);
    }
    if (load_.demand) {
      BenchSlot& slot = bed_.slots().back();
      slot.context = this;
      slot.finished = [](BenchSlot& slot, const absl::Status& status) {
        static_cast<Phase*>(slot.context)->DemandDone(slot, status);
      };
      NextDemand(slot);
    }
    while (bed_.engine().pending() > 0) bed_.engine().Poll(absl::Seconds(1));
    RETURN_IF_ERROR(failure_);
    result_.seconds = 1e-9 * static_cast<double>(last_done_ns_ - started_ns_);
    result_.cpu_seconds = ProcessorSeconds() - cpu_before;
    result_.latency = latency_.Summary();
    return result_;
  }

 private:
  // By the clock, which was read when the request completed.
  bool Over() {
    if (failure_.ok() && bed_.stopped()) failure_ = absl::CancelledError("stopped");
    if (!failure_.ok()) return true;
    if (seconds_ > 0) return 1e-9 * static_cast<double>(last_done_ns_ - started_ns_) >= seconds_;
    return reads_ + writes_ >= bed_.num_blocks();
  }

  void NextOfStream(BenchSlot& slot) {
    if (Over()) return;
    const bool read = load_.read && (!load_.write || reads_ <= writes_);
    if (read) {
      ++reads_;
      next_read_ = bed_.Submit(slot, IoOp::kRead, IoClass::kPrefetch, next_read_) + 1;
    } else {
      ++writes_;
      next_write_ = bed_.Submit(slot, IoOp::kWrite, IoClass::kWriteBack, next_write_) + 1;
    }
  }

  void NextDemand(BenchSlot& slot) {
    if (Over()) return;
    bed_.Submit(slot, IoOp::kRead, IoClass::kDemand, random_());
  }

  void Count(const BenchSlot& slot, const absl::Status& status) {
    last_done_ns_ = MonotonicNanoseconds();
    failure_.Update(status);
    if (!status.ok()) return;
    (slot.op == IoOp::kRead ? result_.read_bytes : result_.written_bytes) += slot.size_bytes;
    // Under write-back only demand reads are measured.
    if (!load_.demand || slot.io_class == IoClass::kDemand) {
      latency_.Add(last_done_ns_ - slot.submitted_ns);
    }
    if (slot.op == IoOp::kRead) failure_.Update(bed_.Check(slot));
  }

  void StreamDone(BenchSlot& slot, const absl::Status& status) {
    Count(slot, status);
    NextOfStream(slot);
  }

  void DemandDone(BenchSlot& slot, const absl::Status& status) {
    Count(slot, status);
    NextDemand(slot);
  }

  IoBenchBed& bed_;
  const Load load_;
  const double seconds_;
  int64_t started_ns_ = 0;
  int64_t last_done_ns_ = 0;
  // The number of started requests, and the next blocks: reads are half the files ahead of writes,
  // except for blocks that are skipped because they are in flight.
  uint64_t reads_ = 0;
  uint64_t writes_ = 0;
  uint64_t next_read_ = 0;
  uint64_t next_write_ = 0;
  std::mt19937_64 random_{7};
  absl::Status failure_;
  LatencyHistogram latency_;
  IoBenchPhase result_;
};

absl::Status RunDemand(const IoBenchOptions& options, IoBenchBed& bed, IoBenchResult* result) {
  const double seconds = options.seconds > 0 ? options.seconds : kDemandSeconds;
  const uint32_t depth = options.io.depth;
  ASSIGN_OR_RETURN(result->unloaded, Phase(bed, {.demand = true}, seconds).Run());
  ASSIGN_OR_RETURN(result->writes, Phase(bed, {.streams = depth, .write = true}, seconds).Run());
  ASSIGN_OR_RETURN(result->main,
                   Phase(bed, {.streams = depth, .write = true, .demand = true}, seconds).Run());
  // A block larger than the window is in flight all the same; and each path drains its own.
  const auto window_bytes = static_cast<double>(
      std::max<uint64_t>(options.io.write_window_bytes, options.io.block_bytes) *
      options.directories.size());
  result->bound_seconds = result->unloaded.latency.p99_seconds +
                          window_bytes / std::max(result->writes.BytesPerSecond(), 1.0);
  return absl::OkStatus();
}

// Some more requests than the depth, as in a run: the engine starts the next block before it calls
// back for the last one, and checksums keep no place in the queue empty.
uint32_t SlotsFor(const IoBenchOptions& options) {
  const uint32_t depth = options.io.depth;
  if (options.op == IoBenchOp::kDemand) return depth + 1;
  return depth + std::max(depth / 4, 2u);
}

}  // namespace

double IoBenchPhase::BytesPerSecond() const {
  return seconds > 0 ? static_cast<double>(read_bytes + written_bytes) / seconds : 0;
}

absl::StatusOr<IoBenchResult> RunIoBench(const IoBenchOptions& options) {
  if (options.op == IoBenchOp::kDemand && options.verify) {
    return absl::InvalidArgumentError(
        "--verify does not go with --op demand: checksums would be part of what it measures");
  }
  RETURN_IF_ERROR(CheckIoEngineOptions(options.io));
  ASSIGN_OR_RETURN(const std::unique_ptr<IoBenchBed> bed,
                   IoBenchBed::Create(options, SlotsFor(options)));
  IoBenchResult result;
  result.engine = std::string(bed->engine().name());
  result.direct = bed->direct();
  result.size_bytes = bed->num_blocks() * options.io.block_bytes;
  if (options.op == IoBenchOp::kDemand) {
    RETURN_IF_ERROR(RunDemand(options, *bed, &result));
  } else {
    const Phase::Load load = {.streams = static_cast<uint32_t>(bed->slots().size()),
                              .read = options.op != IoBenchOp::kWrite,
                              .write = options.op != IoBenchOp::kRead};
    ASSIGN_OR_RETURN(result.main, Phase(*bed, load, options.seconds).Run());
  }
  result.features = bed->engine().features();
  return result;
}

}  // namespace spillway
