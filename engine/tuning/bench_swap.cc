#include "engine/tuning/bench_swap.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <stop_token>
#include <system_error>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/machine/disk_pass.h"
#include "engine/tuning/tune_choice.h"
#include "io/base/check.h"
#include "io/base/clock.h"
#include "io/base/format_bytes.h"
#include "io/base/status.h"
#include "io/checksum.h"
#include "io/create_io_engine.h"
#include "swap/device/arena.h"
#include "swap/device/memory_budget.h"

namespace spillway {
namespace {

constexpr int kSwapRounds = 5;
constexpr int kMeasurements = 9;             // a round
constexpr uint64_t kWorkerBytes = 32 << 20;  // larger than most caches
constexpr uint64_t kPieceBytes = 4 << 20;    // about a tile's plane
constexpr uint64_t kLinkBytes = 32 * kMiB;

enum class Work { kCopy, kChecksum };

// Threads that copy or check memory of their own, from construction to Stop or destruction.
class Load {
 public:
  // Throws std::system_error if the system does not start all threads.
  Load(Work work, int workers, std::vector<std::vector<char>>& memory)
      : work_(work), began_(MonotonicSeconds()) {
    for (int i = 0; i < workers; ++i) {
      threads_.emplace_back(
          [this, data = memory[i].data()](const std::stop_token& stop) { Run(stop, data); });
    }
  }

  // Stops the threads and returns their bytes a second together. Called once.
  double Stop() {
    for (std::jthread& thread : threads_) thread.request_stop();
    threads_.clear();
    return static_cast<double>(bytes_) / (MonotonicSeconds() - began_);
  }

 private:
  void Run(const std::stop_token& stop, char* data) {
    uint64_t sum = 0, done = 0;
    for (uint64_t at = 0; !stop.stop_requested(); at = (at + kPieceBytes) % kWorkerBytes) {
      if (work_ == Work::kCopy) {
        std::memcpy(data + kWorkerBytes + at, data + at, kPieceBytes);
      } else {
        sum += Checksum({}, data + at, kPieceBytes);
      }
      done += kPieceBytes;
    }
    bytes_ += done;
    kept_ = kept_ + sum;
  }

  const Work work_;
  const double began_;
  std::atomic<uint64_t> bytes_{0};
  std::atomic<uint64_t> kept_{0};      // so that the compiler keeps every checksum
  std::vector<std::jthread> threads_;  // destroyed first: they use the members above
};

class SwapBench {
 public:
  static absl::StatusOr<std::unique_ptr<SwapBench>> Create(const SwapBenchOptions& options) {
    auto bench = std::unique_ptr<SwapBench>(new SwapBench(options));
    IoEngineOptions io = options.io;
    io.announce = false;
    const uint64_t buffer_bytes = uint64_t{io.block_bytes} * io.depth;
    bench->budget_ = std::make_unique<MemoryBudget>("bench", buffer_bytes + kMiB);
    ASSIGN_OR_RETURN(bench->arena_, Arena::Create(buffer_bytes, bench->budget_.get()));
    for (uint64_t i = 0; i < buffer_bytes; ++i) {
      bench->arena_->data()[i] = static_cast<char>((i * 2654435761u) >> 13);
    }
    const uint64_t blocks = options.file_bytes / options.paths.size() / io.block_bytes;
    bench->file_bytes_ = std::max<uint64_t>(blocks, 2) * io.block_bytes;
    std::vector<const File*> files;
    for (const std::string& path : options.paths) {
      ASSIGN_OR_RETURN(auto file, OpenNamelessFile(path, bench->file_bytes_));
      files.push_back(file.get());
      bench->files_.push_back(std::move(file));
    }
    io.memory = {{bench->arena_->data(), bench->arena_->size_bytes()}};
    io.files = files;
    ASSIGN_OR_RETURN(bench->engine_, CreateIoEngine(io));
    bench->pass_ = std::make_unique<DiskPass>(bench->engine_.get(), files, bench->arena_->data(),
                                              io.block_bytes, static_cast<int>(io.depth));
    // The first write of a block allocates it; training overwrites blocks.
    DiskPassOptions all;
    all.mix = PassMix::kWrite;
    all.seconds = std::max(1.0, options.seconds / 4);
    all.blocks = bench->file_bytes_ / io.block_bytes * files.size();
    all.file_bytes = bench->file_bytes_;
    all.stopped = options.stopped;
    ASSIGN_OR_RETURN(const DiskPassResult filled, bench->pass_->Run(all));
    bench->file_bytes_ = std::max<uint64_t>(
        filled.written_bytes / files.size() / io.block_bytes * io.block_bytes, io.block_bytes);
    bench->memory_.assign(options.workers, std::vector<char>(2 * kWorkerBytes, 1));
    return bench;
  }

  absl::StatusOr<SwapBenchResult> Run() {
    for (int round = 0; round < kSwapRounds; ++round) {
      RETURN_IF_ERROR(Round());
    }
    SwapBenchResult result;
    result.paths = options_.paths;
    result.engine = std::string(engine_->name());
    result.io = options_.io;
    result.workers = options_.workers;
    result.read_alone = Median(read_alone_);
    result.write_alone = Median(write_alone_);
    result.read_both = Median(read_both_);
    result.write_both = Median(write_both_);
    result.device = options_.device_text;
    if (options_.device != nullptr) {
      const auto median_of = [&](LinkRates LinkMeasurement::*rates, double LinkRates::*way) {
        std::vector<double> values;
        for (const LinkMeasurement& link : links_) values.push_back((link.*rates).*way);
        return Median(std::move(values));
      };
      result.link.emplace();
      for (const auto rates : {&LinkMeasurement::alone, &LinkMeasurement::both_ways}) {
        for (const auto way :
             {&LinkRates::to_device_bytes_per_second, &LinkRates::to_host_bytes_per_second}) {
          (*result.link.*rates).*way = median_of(rates, way);
        }
      }
    } else {
      result.why_no_link = options_.why_no_link;
    }
    result.copy = copy_.Result();
    result.checksum = checksum_.Result();
    return result;
  }

 private:
  struct WorkersSamples {
    std::vector<double> one, all, with_disk, disk;
    SwapBenchResult::Workers Result() const {
      return {Median(one), Median(all), Median(with_disk), Median(disk)};
    }
  };

  explicit SwapBench(const SwapBenchOptions& options)
      : options_(options),
        seconds_(std::max(0.004, options.seconds / (kSwapRounds * kMeasurements))) {}

  absl::StatusOr<DiskPassResult> Pass(PassMix mix) {
    if (options_.stopped && options_.stopped()) return absl::CancelledError("stopped");
    return pass_->Run(
        {.mix = mix, .seconds = seconds_, .file_bytes = file_bytes_, .stopped = options_.stopped});
  }

  absl::Status Round() {
    ASSIGN_OR_RETURN(const DiskPassResult read, Pass(PassMix::kRead));
    read_alone_.push_back(read.bytes_per_second());
    ASSIGN_OR_RETURN(const DiskPassResult written, Pass(PassMix::kWrite));
    write_alone_.push_back(written.bytes_per_second());
    ASSIGN_OR_RETURN(const DiskPassResult both, Pass(PassMix::kBoth));
    read_both_.push_back(static_cast<double>(both.read_bytes) / both.seconds);
    write_both_.push_back(static_cast<double>(both.written_bytes) / both.seconds);
    if (options_.device != nullptr) {
      ASSIGN_OR_RETURN(const LinkMeasurement link, MeasureLink(*options_.device, kLinkBytes));
      links_.push_back(link);
    }
    RETURN_IF_ERROR(MeasureWorkers(Work::kCopy, copy_));
    return MeasureWorkers(Work::kChecksum, checksum_);
  }

  absl::Status MeasureWorkers(Work work, WorkersSamples& samples) {
    for (const int workers : {1, options_.workers}) {
      Load load(work, workers, memory_);
      std::this_thread::sleep_for(std::chrono::duration<double>(seconds_));
      (workers == 1 ? samples.one : samples.all).push_back(load.Stop());
      if (options_.workers == 1) samples.all.push_back(samples.one.back());
      if (options_.workers == 1) break;
    }
    Load load(work, options_.workers, memory_);
    ASSIGN_OR_RETURN(const DiskPassResult disk, Pass(PassMix::kBoth));
    samples.with_disk.push_back(load.Stop());
    samples.disk.push_back(disk.bytes_per_second());
    return absl::OkStatus();
  }

  const SwapBenchOptions& options_;
  const double seconds_;  // per measurement
  std::unique_ptr<IoEngine> engine_;
  std::unique_ptr<MemoryBudget> budget_;
  std::unique_ptr<Arena> arena_;
  std::vector<std::unique_ptr<File>> files_;
  uint64_t file_bytes_ = 0;
  std::unique_ptr<DiskPass> pass_;
  std::vector<std::vector<char>> memory_;  // of each worker: its source, and its copy

  std::vector<double> read_alone_, write_alone_, read_both_, write_both_;
  std::vector<LinkMeasurement> links_;
  WorkersSamples copy_, checksum_;
};

nlohmann::json WorkersJson(const SwapBenchResult::Workers& workers) {
  return {{"one_worker", workers.one},
          {"all_workers", workers.all},
          {"with_disk", workers.with_disk},
          {"disk_meanwhile", workers.disk}};
}

}  // namespace

std::string SwapBenchResult::Binding() const {
  return checksum.all < disk_both() ? "checksum" : "disk";
}

uint64_t SwapBenchMemoryBytes(const SwapBenchOptions& options) {
  return options.workers * 2 * kWorkerBytes + uint64_t{options.io.block_bytes} * options.io.depth +
         (options.device != nullptr ? kLinkBytes : 0);
}

absl::StatusOr<SwapBenchResult> RunSwapBench(const SwapBenchOptions& options) {
  SPILLWAY_CHECK(!options.paths.empty() && options.workers > 0 && options.seconds > 0);
  ASSIGN_OR_RETURN(const auto bench, SwapBench::Create(options));
  try {
    return bench->Run();
  } catch (const std::system_error& error) {
    return absl::AbortedError(absl::StrCat("the system does not start ", options.workers,
                                           " threads (", error.what(), "): take fewer --workers"));
  }
}

std::string SwapBenchText(const SwapBenchResult& r) {
  std::string text = absl::StrFormat(
      "%s, %d blocks of %s in flight%s; %d worker%s; GB/s\n\n%-26s%10s%18s\n", r.engine, r.io.depth,
      FormatBytes(r.io.block_bytes), r.io.origin.empty() ? "" : " (" + r.io.origin + ")", r.workers,
      r.workers == 1 ? "" : "s", "", "alone", "both ways at once");
  const auto link = [&](const char* name, double alone, double both) {
    absl::StrAppendFormat(&text, "%-26s%10.2f%18.2f\n", name, alone * 1e-9, both * 1e-9);
  };
  link("NVMe to host", r.read_alone, r.read_both);
  link("host to NVMe", r.write_alone, r.write_both);
  absl::StrAppendFormat(&text, "%-26s%10s%18.2f\n", "both together", "", r.disk_both() * 1e-9);
  if (r.link) {
    link("host to device", r.link->alone.to_device_bytes_per_second,
         r.link->both_ways.to_device_bytes_per_second);
    link("device to host", r.link->alone.to_host_bytes_per_second,
         r.link->both_ways.to_host_bytes_per_second);
    absl::StrAppendFormat(&text, "(%s)\n\n", r.device);
  } else {
    const char* const none = "none: on the CPU they are the same memory";
    absl::StrAppendFormat(&text, "%-32s%s\n%-32s%s\n\n", "host to device", none, "device to host",
                          none);
  }
  absl::StrAppendFormat(&text, "%-26s%10s%18s%12s%14s\n", "", "one worker", "all", "beside disk",
                        "disk then");
  const auto workers = [&](const char* name, const SwapBenchResult::Workers& w) {
    absl::StrAppendFormat(&text, "%-26s%10.2f%18.2f%12.2f%14.2f\n", name, w.one * 1e-9,
                          w.all * 1e-9, w.with_disk * 1e-9, w.disk * 1e-9);
  };
  workers("memory copy", r.copy);
  workers("checksums", r.checksum);
  absl::StrAppendFormat(
      &text, "\nbinds: %s (a step moves its state both ways: disk %.2f, checksums %.2f)\n",
      r.Binding(), r.disk_both() * 1e-9, r.checksum.all * 1e-9);
  return text;
}

nlohmann::json SwapBenchJson(const SwapBenchResult& r) {
  const auto link = [&](double LinkRates::*way) -> nlohmann::json {
    if (!r.link) return nullptr;
    return {{"alone", r.link->alone.*way}, {"both_ways", r.link->both_ways.*way}};
  };
  return {{"paths", r.paths},
          {"engine", r.engine},
          {"block_bytes", r.io.block_bytes},
          {"depth", r.io.depth},
          {"tuned", !r.io.origin.empty()},
          {"workers", r.workers},
          {"unit", "bytes_per_second"},
          {"nvme_to_host", {{"alone", r.read_alone}, {"both_ways", r.read_both}}},
          {"host_to_nvme", {{"alone", r.write_alone}, {"both_ways", r.write_both}}},
          {"device", r.device},
          {"device_note", r.link ? nlohmann::json(nullptr) : nlohmann::json(r.why_no_link)},
          {"host_to_device", link(&LinkRates::to_device_bytes_per_second)},
          {"device_to_host", link(&LinkRates::to_host_bytes_per_second)},
          {"memory_copy", WorkersJson(r.copy)},
          {"checksum", WorkersJson(r.checksum)},
          {"binding", r.Binding()}};
}

}  // namespace spillway
