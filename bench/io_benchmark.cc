// What it costs to hand transfers to an I/O engine and to get them back, and to sum bytes.
#include <benchmark/benchmark.h>
#include <fcntl.h>

#include <string>
#include <vector>

#include "io/checksum.h"
#include "io/checksum_avx2.h"
#include "io/create_io_engine.h"
#include "io/io_engine.h"

namespace spillway {
namespace {

// A file that takes every byte and keeps none: what is measured is all but the disk.
class NullFile final : public File {
 public:
  NullFile() : File(open("/dev/null", O_RDWR | O_CLOEXEC), "/dev/null", false, 1) {}
  absl::Status Preallocate(uint64_t) override { return absl::OkStatus(); }
  absl::StatusOr<uint64_t> SizeBytes() const override { return uint64_t{0}; }
  absl::Status Sync() override { return absl::OkStatus(); }
  absl::Status ReadAt(uint64_t, char*, uint64_t) const override { return absl::OkStatus(); }
  absl::Status WriteAt(uint64_t, const char*, uint64_t) override { return absl::OkStatus(); }
};

// Submits as many requests as the queue is deep and reaps them, again and again. An item is a
// request of one block.
void SubmitAndReap(benchmark::State& state, IoEngineOptions::Kind kind) {
  IoEngineOptions options;
  options.kind = kind;
  options.block_bytes = 1 << 20;
  options.depth = static_cast<uint32_t>(state.range(0));
  options.announce = false;
  const NullFile file;
  std::vector<char> data(options.block_bytes);
  options.memory = {{data.data(), data.size()}};
  options.files = {&file};
  const auto engine = CreateIoEngine(options);
  if (!engine.ok()) return state.SkipWithError(std::string(engine.status().message()).c_str());
  std::vector<IoRequest> requests(options.depth);
  absl::Status failed;
  for (auto _ : state) {
    for (IoRequest& request : requests) {
      request = IoRequest();
      request.op = IoOp::kWrite;
      request.io_class = IoClass::kPrefetch;
      request.file = &file;
      request.data = data.data();
      request.size_bytes = data.size();
      request.context = &failed;
      request.done = [](IoRequest& done, const absl::Status& status) {
        if (!status.ok()) *static_cast<absl::Status*>(done.context) = status;
      };
      (*engine)->Submit(&request);
    }
    while ((*engine)->pending() > 0) (*engine)->Poll(absl::InfiniteDuration());
  }
  if (!failed.ok()) state.SkipWithError(std::string(failed.message()).c_str());
  state.SetItemsProcessed(state.iterations() * options.depth);
}
BENCHMARK_CAPTURE(SubmitAndReap, io_uring, IoEngineOptions::Kind::kUring)
    ->Arg(1)
    ->Arg(32)
    ->ArgName("depth")
    ->UseRealTime();
BENCHMARK_CAPTURE(SubmitAndReap, threads, IoEngineOptions::Kind::kThreads)
    ->Arg(1)
    ->Arg(32)
    ->ArgName("depth")
    ->UseRealTime();

void SumBytes(benchmark::State& state, uint64_t (*sum)(const void* data, size_t size_bytes)) {
  const std::vector<char> data(static_cast<size_t>(state.range(0)), 1);
  for (auto _ : state) benchmark::DoNotOptimize(sum(data.data(), data.size()));
  state.SetBytesProcessed(state.iterations() * state.range(0));
}

// What every processor has: Digest is compiled for no other.
uint64_t BaselineSum(const void* data, size_t size_bytes) {
  Digest digest;
  digest.Update(data, size_bytes);
  return digest.value();
}

#if defined(__x86_64__)
uint64_t Avx2Sum(const void* data, size_t size_bytes) { return ChecksumAvx2(data, size_bytes, 0); }
#endif

// A plane of a small tile, and of one of the default size.
void RegisterSums() {
  const auto add = [](const char* name, uint64_t (*sum)(const void*, size_t)) {
    benchmark::RegisterBenchmark(name, SumBytes, sum)->Arg(4096)->Arg(1 << 20)->ArgName("bytes");
  };
  add("Checksum/baseline", BaselineSum);
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) add("Checksum/avx2", Avx2Sum);
#endif
}
[[maybe_unused]] const bool registered = (RegisterSums(), true);

}  // namespace
}  // namespace spillway
