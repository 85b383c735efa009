// What ranks exchange on GPUs, with as many ranks as there are GPUs, one included. A program of the
// preset cuda, nccl_check; exit code 0: all held. No test runs it, since it needs a GPU.
//
// Started plainly it starts itself once for each GPU; rank 0's output is what it prints.
#include <c10/cuda/CUDAFunctions.h>
#include <sys/wait.h>
#include <torch/types.h>
#include <torch/utils.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "engine/numeric/optimizer.h"
#include "engine/numeric/optimizer_state.h"
#include "engine/ranks/gradient_sums.h"
#include "engine/torch/cuda_support.h"
#include "gtest/gtest.h"
#include "io/base/clock.h"
#include "torch/csrc/distributed/c10d/TCPStore.hpp"

namespace spillway {
namespace {

int rank = 0, size = 1;
ComputePlace place;
Collectives* ranks = nullptr;

// Memory of the GPU's with values of the host's, or room for `count` bytes.
class OnGpu {
 public:
  explicit OnGpu(uint64_t bytes)
      : bytes_(bytes), memory_(*PlaceMemory::CreateZeroed(place, bytes)) {
    // What comes next is put into other streams.
    EXPECT_EQ(Settle(place), absl::OkStatus());
  }
  explicit OnGpu(const std::vector<char>& values) : OnGpu(values.size()) {
    Tensor().copy_(Host(const_cast<char*>(values.data())));
  }
  char* data() const { return memory_.data(); }
  std::vector<char> Read() const {
    std::vector<char> values(bytes_);
    Host(values.data()).copy_(Tensor());
    return values;
  }

 private:
  torch::Tensor Host(char* data) const {
    return torch::from_blob(data, {static_cast<int64_t>(bytes_)}, torch::kUInt8);
  }
  torch::Tensor Tensor() const {
    return torch::from_blob(memory_.data(), {static_cast<int64_t>(bytes_)},
                            torch::TensorOptions().dtype(torch::kUInt8).device(place.where));
  }
  uint64_t bytes_;
  PlaceMemory memory_;
};

char Value(int from, int to, uint64_t i) { return static_cast<char>(i * 7 + from * 31 + to * 3); }

TEST(NcclRanks, EveryPartComesToItsPlace) {
  std::mt19937 random(5);  // the same on every rank
  for (int round = 0; round < 20; ++round) {
    const uint64_t bytes = 4 * (1 + random() % (round % 5 == 0 ? 3'000'000 : 5000));
    std::vector<char> values;
    for (int to = 0; to < size; ++to) {
      for (uint64_t i = 0; i < bytes; ++i) values.push_back(Value(rank, to, i + round));
    }
    const OnGpu out(values), in(bytes * size);
    std::vector<const char*> send;
    std::vector<char*> receive;
    for (int peer = 0; peer < size; ++peer) {
      send.push_back(out.data() + peer * bytes);
      receive.push_back(in.data() + peer * bytes);
    }
    ASSERT_EQ(ranks->Exchange(send, receive, bytes), absl::OkStatus());
    const std::vector<char> got = in.Read();
    for (int from = 0; from < size; ++from) {
      for (uint64_t i = 0; i < bytes; ++i) {
        ASSERT_EQ(got[from * bytes + i], Value(from, rank, i + round)) << from << " " << i;
      }
    }
  }
}

TEST(NcclRanks, AGatherMayBeInPlace) {
  constexpr uint64_t kBytes = 1 << 20;
  std::vector<char> values(kBytes * size);
  for (uint64_t i = 0; i < kBytes; ++i) values[rank * kBytes + i] = Value(rank, 0, i);
  const OnGpu all(values);
  ASSERT_EQ(AllGather(*ranks, all.data() + rank * kBytes, all.data(), kBytes), absl::OkStatus());
  const std::vector<char> got = all.Read();
  for (int from = 0; from < size; ++from) {
    for (uint64_t i = 0; i < kBytes; ++i) ASSERT_EQ(got[from * kBytes + i], Value(from, 0, i));
  }
}

std::vector<float> SumsOf(int of, uint64_t count) {
  std::mt19937 random(of);
  std::vector<float> sums(count);
  for (float& sum : sums) sum = (static_cast<float>(random()) - 2e9f) * 1e-9f;
  return sums;
}

// Added in rank order, rounded before where that is asked for.
TEST(NcclRanks, SumsHaveTheBitsOfTheCpus) {
  constexpr uint64_t kShard = 100'032, kTile = 4096;
  const StateLayout layout({{"u", kShard}}, StatePlanes({}, DType::kFloat32), 4, kTile);
  const OptimizerTiles tiles_of_host({}, DType::kFloat32, layout, {{}});
  OptimizerTiles tiles({}, DType::kFloat32, layout, {{}});
  alignas(4096) static char page[ExchangeStream::kPageBytes];
  ASSERT_EQ(place.device->RegisterHost(page, sizeof(page)), absl::OkStatus());
  for (const ExchangeFormat format :
       {ExchangeFormat::kFloat32, ExchangeFormat::kBFloat16, ExchangeFormat::kFloat8}) {
    const bool as_they_are = format == ExchangeFormat::kFloat32;
    GradientSumOptions options;
    options.grid = {size, size, rank};
    options.bucket_parameters = 117 * kExchangeBlock;
    options.format = format;
    options.tile_parameters = kTile;
    std::vector<float> expected(kShard);
    for (int from = 0; from < size; ++from) {
      const std::vector<float> whole = SumsOf(from, kShard * size);
      const float* const part = whole.data() + rank * kShard;
      std::vector<char> encoded(ExchangedBytes(format, kShard));
      if (!as_they_are) EncodeSums(format, part, kShard, encoded.data());
      AddExchanged(format, as_they_are ? reinterpret_cast<const char*>(part) : encoded.data(),
                   kShard, expected.data(), from == 0);
    }
    const std::vector<float> own = SumsOf(rank, kShard * size);
    std::vector<char> bytes(own.size() * sizeof(float));
    std::memcpy(bytes.data(), own.data(), bytes.size());
    const OnGpu whole(bytes), shard(kShard * sizeof(float)),
        buckets(GradientSums::MemoryBytes(options));
    // A group of one has nobody to exchange with: it is summed as those of several are.
    GradientSums sums(options, size > 1 ? ranks : nullptr, nullptr, &tiles,
                      ExchangeStream(place.device, page), buckets.data());
    ASSERT_EQ(sums.Sum(0, reinterpret_cast<float*>(whole.data()), kShard,
                       reinterpret_cast<float*>(shard.data())),
              absl::OkStatus());
    const std::vector<char> got = shard.Read();
    if (size == 1 && !as_they_are) continue;  // nothing is exchanged, so nothing is rounded
    EXPECT_EQ(std::memcmp(got.data(), expected.data(), got.size()), 0)
        << ExchangeFormatName(format);
  }
  place.device->UnregisterHost(page);
}

TEST(NcclRanks, Rates) {
  constexpr uint64_t kBytes = 64 << 20;
  const OnGpu out(kBytes * size), in(kBytes * size);
  std::vector<const char*> send;
  std::vector<char*> receive;
  for (int peer = 0; peer < size; ++peer) {
    send.push_back(out.data() + peer * kBytes);
    receive.push_back(in.data() + peer * kBytes);
  }
  for (const bool gather : {true, false}) {
    double least = 1e9;
    for (int round = 0; round < 10; ++round) {
      const double began = MonotonicSeconds();
      ASSERT_EQ(gather ? AllGather(*ranks, out.data(), in.data(), kBytes)
                       : ranks->Exchange(send, receive, kBytes),
                absl::OkStatus());
      least = std::min(least, MonotonicSeconds() - began);
    }
    std::printf("nccl %s of 64 MiB a rank, %d ranks: %.1f GB/s\n", gather ? "gather" : "exchange",
                size, static_cast<double>(kBytes * size) / least * 1e-9);
  }
}

int StartAll(const char* program) {
  const int gpus = c10::cuda::device_count();
  if (gpus == 0) {
    std::fprintf(stderr, "nccl_check: no GPU, or no driver for it\n");
    return 1;
  }
  const std::string count = std::to_string(gpus);
  const std::string port = std::to_string(20000 + ::getpid() % 20000);
  std::vector<pid_t> children;
  for (int i = 0; i < gpus; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::setenv("LOCAL_RANK", std::to_string(i).c_str(), 1);
      ::setenv("WORLD_SIZE", count.c_str(), 1);
      ::setenv("MASTER_PORT", port.c_str(), 1);
      if (i > 0) (void)!std::freopen("/dev/null", "w", stdout);
      ::execl(program, program, "--rank", nullptr);
      ::_exit(127);
    }
    children.push_back(child);
  }
  int worst = 0;
  for (pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    worst = std::max(worst, WIFEXITED(status) ? WEXITSTATUS(status) : 1);
  }
  return worst;
}

// Until every rank has come here: who leaves takes its end of all exchanges along.
void AwaitAll(c10d::Store& store) {
  const double began = MonotonicSeconds();
  try {
    store.add("done", 1);
    while (store.add("done", 0) < size && MonotonicSeconds() - began < 60) ::usleep(10'000);
  } catch (const std::exception&) {
    // Rank 0, which has the store, has seen all come.
  }
}

int RunRank() {
  rank = std::atoi(std::getenv("LOCAL_RANK"));
  size = std::atoi(std::getenv("WORLD_SIZE"));
  const auto gpu = LinkedCuda()->Find(DType::kFloat32);
  const auto opened = gpu.ok() ? LinkedCuda()->Open(*gpu) : gpu.status();
  if (!opened.ok()) {
    std::fprintf(stderr, "nccl_check: %s\n", std::string(opened.status().message()).c_str());
    return 1;
  }
  place = (*opened)->place;
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(std::atoi(std::getenv("MASTER_PORT")));
  options.isServer = rank == 0;
  options.waitWorkers = false;
  options.useLibUV = false;
  ConversationOptions conversation;
  conversation.name = "check";
  for (int member = 0; member < size; ++member) conversation.members.push_back(member);
  conversation.rank = rank;
  conversation.timeout_seconds = 60;
  const auto store = c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options);
  auto connected = LinkedCuda()->Connect(store, conversation, place, [] { return false; });
  if (!connected.ok()) {
    std::fprintf(stderr, "nccl_check: %s\n", std::string(connected.status().message()).c_str());
    return 1;
  }
  ranks = connected->get();
  const int code = RUN_ALL_TESTS();
  AwaitAll(*store);
  connected->reset();
  return code;
}

}  // namespace
}  // namespace spillway

int main(int argc, char** argv) {
  const bool is_rank = argc > 1 && std::strcmp(argv[1], "--rank") == 0;
  testing::InitGoogleTest(&argc, argv);
  return is_rank ? spillway::RunRank() : spillway::StartAll("/proc/self/exe");
}
