#include "engine/tuning/tune.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "engine/machine/disk_pass.h"
#include "engine/tuning/tune_choice.h"
#include "io/base/check.h"
#include "io/base/clock.h"
#include "io/base/format_bytes.h"
#include "io/base/status.h"
#include "io/create_io_engine.h"
#include "swap/device/arena.h"
#include "swap/device/memory_budget.h"

namespace spillway {
namespace {

// Parts of the time; the first writing of the files takes as long as it needs.
constexpr double kEnginePart = 0.2, kShapePart = 0.55, kPathPart = 0.2;
constexpr int kRounds = 5, kQuickRounds = 3;
constexpr int kPathRounds = 3;
// Shorter passes measure little: starting and draining the queue take milliseconds.
constexpr double kLeastPassSeconds = 0.004;

// Measures given settings on the same files with the same memory.
class Bench {
 public:
  static absl::StatusOr<std::unique_ptr<Bench>> Create(const TuneOptions& options) {
    auto bench = std::unique_ptr<Bench>(new Bench(options));
    ASSIGN_OR_RETURN(bench->arena_, Arena::Create(options.buffer_bytes, &bench->budget_));
    // The data is not zero, since a drive may compress zeros.
    for (uint64_t i = 0; i < options.buffer_bytes; ++i) {
      bench->arena_->data()[i] = static_cast<char>((i * 2654435761u) >> 13);
    }
    for (const std::string& path : options.paths) {
      ASSIGN_OR_RETURN(auto file, OpenNamelessFile(path, bench->file_bytes_));
      bench->files_.push_back(std::move(file));
    }
    RETURN_IF_ERROR(bench->Fill());
    return bench;
  }

  // Measures the path with the index `path` alone; -1: all together.
  absl::StatusOr<DiskRates> Measure(IoEngineOptions io, int path, double pass_seconds) {
    ASSIGN_OR_RETURN(const auto engine, CreateEngine(io));
    const int window =
        static_cast<int>(std::clamp<uint64_t>(options_.buffer_bytes / io.block_bytes, 1, io.depth));
    DiskPass pass(engine.get(), FilesOf(path), arena_->data(), io.block_bytes, window);
    DiskPassOptions one;
    one.seconds = std::max(pass_seconds, kLeastPassSeconds);
    one.file_bytes = file_bytes_;
    one.stopped = options_.stopped;
    DiskRates rates;
    for (const auto& [mix, rate] : {std::pair{PassMix::kRead, &DiskRates::read_bytes_per_second},
                                    {PassMix::kWrite, &DiskRates::write_bytes_per_second},
                                    {PassMix::kAlternate, &DiskRates::mixed_bytes_per_second}}) {
      one.mix = mix;
      ASSIGN_OR_RETURN(const DiskPassResult result, pass.Run(one));
      rates.*rate = result.bytes_per_second();
    }
    return rates;
  }

  // Modes that io_uring offers here; `refusal` gets the reason if it is refused.
  UringOffers Offers(std::string* refusal) const {
    UringOffers offers;
    IoEngineOptions io;
    io.kind = IoEngineOptions::Kind::kUring;
    const absl::Status plain = CreateEngine(io).status();
    *refusal = std::string(plain.message());
    offers.uring = plain.ok();
    const auto has = [&](const char* feature) {
      const auto engine = CreateEngine(io);
      if (!engine.ok()) return false;
      const std::vector<std::string> on = (*engine)->features().on;
      return std::find(on.begin(), on.end(), feature) != on.end();
    };
    io.poll = true;
    offers.iopoll = has("IOPOLL");
    io.poll = false;
    io.sqpoll = true;
    offers.sqpoll = has("SQPOLL");
    return offers;
  }

  // Measures every candidate once a round; each round begins with a different one.
  absl::Status MeasureRounds(std::vector<TuneCandidate>& candidates, int rounds, double seconds,
                             const std::function<void(double)>& progress) {
    const size_t count = candidates.size();
    const double pass_seconds = seconds / (3.0 * rounds * count);
    std::vector<std::vector<DiskRates>> rates(count);
    std::vector<std::vector<double>> scores(count);
    for (int round = 0; round < rounds; ++round) {
      for (size_t i = 0; i < count; ++i) {
        progress(static_cast<double>(round * count + i) / (rounds * count));
        const size_t which = (i + round * count / rounds) % count;
        ASSIGN_OR_RETURN(const DiskRates measured, Measure(candidates[which].io, -1, pass_seconds));
        rates[which].push_back(measured);
        scores[which].push_back(Score(measured));
      }
    }
    const std::vector<double> relative = RelativeScores(scores);
    for (size_t i = 0; i < count; ++i) {
      candidates[i].rates = MedianRates(rates[i]);
      candidates[i].relative = relative[i];
    }
    return absl::OkStatus();
  }

 private:
  explicit Bench(const TuneOptions& options)
      : options_(options),
        // Whole blocks of every size.
        file_bytes_(std::max<uint64_t>(
            options.file_bytes / options.paths.size() / (4 * kMiB) * (4 * kMiB), 4 * kMiB)),
        budget_("tune", options.buffer_bytes + kMiB) {}

  // Creates an engine with memory and files registered, as in training.
  absl::StatusOr<std::unique_ptr<IoEngine>> CreateEngine(IoEngineOptions io) const {
    io.announce = false;
    io.memory = {{arena_->data(), arena_->size_bytes()}};
    io.files = FilesOf(-1);
    return CreateIoEngine(io);
  }

  std::vector<const File*> FilesOf(int path) const {
    std::vector<const File*> files;
    for (size_t i = 0; i < files_.size(); ++i) {
      if (path < 0 || path == static_cast<int>(i)) files.push_back(files_[i].get());
    }
    return files;
  }

  // The first write of a block allocates it; training overwrites blocks.
  absl::Status Fill() {
    IoEngineOptions io;
    io.announce = false;
    ASSIGN_OR_RETURN(const auto engine, CreateIoEngine(io));
    const uint64_t block_bytes = std::min<uint64_t>(kMiB, options_.buffer_bytes);
    const int window =
        static_cast<int>(std::min<uint64_t>(options_.buffer_bytes / block_bytes, io.depth));
    DiskPass pass(engine.get(), FilesOf(-1), arena_->data(), block_bytes, window);
    DiskPassOptions all;
    all.mix = PassMix::kWrite;
    all.seconds = std::max(1.0, options_.seconds / 4);
    all.blocks = file_bytes_ / block_bytes * files_.size();
    all.file_bytes = file_bytes_;
    all.stopped = options_.stopped;
    ASSIGN_OR_RETURN(const DiskPassResult filled, pass.Run(all));
    // On a slow disk the files become smaller, so that every block read has been written.
    file_bytes_ = std::max<uint64_t>(filled.written_bytes / files_.size() / (4 * kMiB) * (4 * kMiB),
                                     4 * kMiB);
    return absl::OkStatus();
  }

  const TuneOptions& options_;
  uint64_t file_bytes_;  // per file
  MemoryBudget budget_;
  std::unique_ptr<Arena> arena_;
  std::vector<std::unique_ptr<File>> files_;
};

std::vector<double> RelativesOf(const std::vector<TuneCandidate>& candidates) {
  std::vector<double> relatives;
  for (const TuneCandidate& candidate : candidates) relatives.push_back(candidate.relative);
  return relatives;
}

// The best number of threads, even if another engine is better.
uint32_t BestThreads(const std::vector<TuneCandidate>& engines) {
  std::vector<double> relatives;
  std::vector<uint64_t> numbers;
  for (const TuneCandidate& engine : engines) {
    if (engine.io.kind != IoEngineOptions::Kind::kThreads) continue;
    relatives.push_back(engine.relative);
    numbers.push_back(engine.io.threads);
  }
  return static_cast<uint32_t>(numbers[ChooseCandidate(relatives, numbers)]);
}

}  // namespace

std::vector<TuneCandidate> EngineCandidates(bool quick, const UringOffers& offers) {
  std::vector<TuneCandidate> candidates;
  const auto add = [&](std::string name, const IoEngineOptions& io) {
    TuneCandidate candidate;
    candidate.name = std::move(name);
    candidate.io = io;
    candidates.push_back(std::move(candidate));
  };
  // Candidates in the order in which equal ones are preferred.
  IoEngineOptions uring;
  uring.kind = IoEngineOptions::Kind::kUring;
  if (offers.uring) add("io_uring", uring);
  for (const uint32_t number :
       quick ? std::vector<uint32_t>{4, 16} : std::vector<uint32_t>{2, 4, 8, 16}) {
    IoEngineOptions threads;
    threads.kind = IoEngineOptions::Kind::kThreads;
    threads.threads = number;
    add(absl::StrCat(number, " threads"), threads);
  }
  // Polling keeps a core busy that compute could use, so it must be worth it.
  if (offers.iopoll && !quick) {
    uring.poll = true;
    add("io_uring IOPOLL", uring);
    uring.poll = false;
  }
  if (offers.sqpoll && !quick) {
    uring.sqpoll = true;
    add("io_uring SQPOLL", uring);
  }
  return candidates;
}

std::vector<TuneCandidate> ShapeCandidates(bool quick, const IoEngineOptions& engine,
                                           uint64_t buffer_bytes) {
  const std::vector<uint64_t> blocks =
      quick ? std::vector<uint64_t>{512 * kKiB, kMiB, 2 * kMiB}
            : std::vector<uint64_t>{256 * kKiB, 512 * kKiB, kMiB, 2 * kMiB, 4 * kMiB};
  const std::vector<uint32_t> depths =
      quick ? std::vector<uint32_t>{8, 16, 32, 64} : std::vector<uint32_t>{4, 8, 16, 32, 64, 128};
  std::vector<TuneCandidate> candidates;
  for (const uint64_t block : blocks) {
    for (const uint32_t depth : depths) {
      if (block * depth > buffer_bytes) continue;
      TuneCandidate candidate;
      candidate.io = engine;
      candidate.io.block_bytes = static_cast<uint32_t>(block);
      candidate.io.depth = depth;
      candidates.push_back(std::move(candidate));
    }
  }
  return candidates;
}

absl::StatusOr<TuneResult> Tune(const TuneOptions& options) {
  SPILLWAY_CHECK(!options.paths.empty() && options.seconds > 0 && options.buffer_bytes >= 4 * kMiB);
  const double began = MonotonicSeconds();
  const auto progress = [&](double from, double part, const char* what) {
    return [&options, from, part, what](double fraction) {
      if (options.progress) options.progress(from + part * fraction, what);
    };
  };
  TuneResult result;
  const std::vector<BlockDevice> devices = FindDevices(options.paths);
  progress(0, 0, "writing the files")(0);
  ASSIGN_OR_RETURN(const auto bench, Bench::Create(options));
  const int rounds = options.quick ? kQuickRounds : kRounds;

  result.engines = EngineCandidates(options.quick, bench->Offers(&result.uring_refusal));
  RETURN_IF_ERROR(bench->MeasureRounds(result.engines, rounds, kEnginePart * options.seconds,
                                       progress(0, kEnginePart, "engines")));
  std::vector<uint64_t> order(result.engines.size());
  std::iota(order.begin(), order.end(), 0);
  const size_t engine = ChooseCandidate(RelativesOf(result.engines), order);
  result.engines[engine].chosen = true;
  result.threads = BestThreads(result.engines);

  result.shapes = ShapeCandidates(options.quick, result.engines[engine].io, options.buffer_bytes);
  RETURN_IF_ERROR(bench->MeasureRounds(result.shapes, rounds, kShapePart * options.seconds,
                                       progress(kEnginePart, kShapePart, "blocks and depths")));
  // Among equals the least memory in flight is preferred, then the larger blocks, of which there
  // are fewer to handle.
  std::vector<uint64_t> cost;
  for (const TuneCandidate& shape : result.shapes) {
    cost.push_back(uint64_t{shape.io.block_bytes} * shape.io.depth * 1024 + shape.io.depth);
  }
  const size_t shape = ChooseCandidate(RelativesOf(result.shapes), cost);
  result.shapes[shape].chosen = true;
  result.chosen = result.shapes[shape].io;
  result.chosen.threads = result.threads;

  // With one path, its rate alone is that of all together.
  const int count = static_cast<int>(options.paths.size());
  const int alone = count > 1 ? count : 0;
  const double pass_seconds = kPathPart * options.seconds / (3.0 * kPathRounds * (alone + 1));
  std::vector<std::vector<DiskRates>> rates(alone + 1);
  const auto paths_progress = progress(kEnginePart + kShapePart, kPathPart, "paths");
  for (int round = 0; round < kPathRounds; ++round) {
    for (int path = 0; path <= alone; ++path) {
      paths_progress(static_cast<double>(round * (alone + 1) + path) / (kPathRounds * (alone + 1)));
      ASSIGN_OR_RETURN(const DiskRates measured,
                       bench->Measure(result.chosen, path < alone ? path : -1, pass_seconds));
      rates[path].push_back(measured);
    }
  }
  result.together = MedianRates(rates[alone]);
  for (int path = 0; path < count; ++path) {
    result.paths.push_back(
        {options.paths[path], devices[path], MedianRates(rates[std::min(path, alone)])});
  }
  result.seconds = MonotonicSeconds() - began;
  return result;
}

TunedEntry TuneResult::Entry(const MachineIdentity& machine, int64_t unix_seconds) const {
  TunedEntry entry;
  entry.engine = chosen.kind == IoEngineOptions::Kind::kThreads ? "threads" : "io_uring";
  entry.mode = chosen.poll ? "iopoll" : chosen.sqpoll ? "sqpoll" : "";
  entry.block_bytes = chosen.block_bytes;
  entry.depth = chosen.depth;
  entry.threads = threads;
  entry.rates = together;
  for (const TunePath& path : paths) {
    const bool known = std::any_of(
        entry.devices.begin(), entry.devices.end(),
        [&](const TunedDevice& each) { return each.device.number == path.device.number; });
    if (!known) entry.devices.push_back({path.device, path.rates});
  }
  std::sort(
      entry.devices.begin(), entry.devices.end(),
      [](const TunedDevice& a, const TunedDevice& b) { return a.device.number < b.device.number; });
  entry.kernel = machine.kernel;
  entry.cpus = machine.cpus;
  entry.locked_memory_bytes = machine.locked_memory_bytes;
  entry.unix_seconds = unix_seconds;
  return entry;
}

}  // namespace spillway
