// Ranks that are threads measure their exchanges, and take the first one's clock.
#include "engine/estimate/rank_probe.h"

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/numeric/optimizer.h"
#include "engine/numeric/optimizer_state.h"
#include "engine/ranks/collective_traffic.h"
#include "gtest/gtest.h"
#include "tests/device/test_device.h"
#include "tests/engine/cuda/emulated_kernels.h"
#include "tests/engine/ranks/thread_ranks.h"

namespace spillway {
namespace {

using std::chrono::microseconds;

// `size` ranks in groups; every exchange takes `delay`.
class Threads {
 public:
  Threads(int size, int group, microseconds delay) : size_(size), group_(group), world_(size) {
    world_.SetDelay(delay);
    for (int i = 0; i < size / group; ++i) groups_.push_back(std::make_unique<ThreadRanks>(group));
    for (int i = 0; i < group; ++i) {
      replicas_.push_back(std::make_unique<ThreadRanks>(size / group));
    }
    for (auto* all : {&groups_, &replicas_}) {
      for (const auto& each : *all) each->SetDelay(delay);
    }
  }

  void Run(const std::function<void(int rank, const RankGroups& ranks)>& run) {
    std::vector<std::thread> threads;
    for (int rank = 0; rank < size_; ++rank) {
      threads.emplace_back([&, rank] {
        RankGroups ranks;
        ranks.world = world_.rank(rank);
        if (group_ > 1) ranks.group = groups_[rank / group_]->rank(rank % group_);
        if (group_ < size_) ranks.replicas = replicas_[rank % group_]->rank(rank / group_);
        run(rank, ranks);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  ThreadRanks& group(int i) { return *groups_[i]; }

 private:
  const int size_, group_;
  ThreadRanks world_;
  std::vector<std::unique_ptr<ThreadRanks>> groups_, replicas_;
};

CollectiveProbe ProbeOf(int size, int group, int rank) {
  CollectiveProbe probe;
  probe.sums.grid = {size, group, rank};
  probe.sums.bucket_parameters = 32768;
  probe.sums.tile_parameters = 2048;
  probe.layout = StateLayout({{"u", 1 << 20}}, StatePlanes(probe.optimizer, probe.dtype), 2, 2048);
  probe.memory_bytes = probe.most_bytes = 1 << 20;
  return probe;
}

std::vector<CollectiveRates> RatesOnAll(int size, int group, microseconds delay, bool find) {
  std::vector<CollectiveRates> rates(size);
  Threads(size, group, delay).Run([&](int rank, const RankGroups& ranks) {
    const CollectiveProbe probe = ProbeOf(size, group, rank);
    const auto found = find ? FindCollectiveRates(probe, ranks) : MeasureCollectives(probe, ranks);
    EXPECT_TRUE(found.ok()) << found.status();
    if (found.ok()) rates[rank] = *found;
  });
  return rates;
}

TEST(RankProbe, AllRanksHaveTheFirstOnesFigures) {
  for (const auto& [size, group] : {std::pair(2, 2), {3, 3}, {2, 1}, {4, 2}}) {
    SCOPED_TRACE(absl::StrCat(size, " in groups of ", group));
    const auto rates = RatesOnAll(size, group, microseconds(500), false);
    for (const CollectiveRates& each : rates) EXPECT_EQ(each, rates[0]);
    EXPECT_GE(rates[0].latency_seconds, 5e-4);
    EXPECT_GT(rates[0].sum_bytes_per_second, 0);
    EXPECT_EQ(rates[0].gather_bytes_per_second > 0, group > 1);
  }
}

// Whose kernels round what ranks have summed.
TEST(RankProbe, SumsInADevicesMemoryAreRoundedThere) {
  for (const auto& [size, group] : {std::pair(2, 2), {2, 1}, {4, 2}}) {
    SCOPED_TRACE(absl::StrCat(size, " in groups of ", group));
    std::vector<std::unique_ptr<TestDevice>> devices;
    for (int rank = 0; rank < size; ++rank) {
      devices.push_back(
          std::make_unique<TestDevice>(TestDeviceOptions{.native_stream = EmulatedStream()}));
    }
    const auto probe_of = [size = size, group = group](int rank) {
      return ProbeOf(size, group, rank);
    };
    Threads(size, group, microseconds(0)).Run([&](int rank, const RankGroups& ranks) {
      CollectiveProbe probe = probe_of(rank);
      probe.device = devices[rank].get();
      const auto found = MeasureCollectives(probe, ranks);
      ASSERT_TRUE(found.ok()) << found.status();
      EXPECT_GT(found->sum_bytes_per_second, 0);
    });
    for (const auto& device : devices) EXPECT_TRUE(device->Synchronize().ok());
  }
}

// A clock of the rates says that an exchange takes no less than its delay.
TEST(RankProbe, SlowExchangesAreForecastSo) {
  for (const auto& [size, group] : {std::pair(2, 2), {4, 2}}) {
    const CollectiveRates rates = RatesOnAll(size, group, microseconds(4000), false)[0];
    EXPECT_GE(rates.latency_seconds, 4e-3);
    const ActionTraffic sum = SumTraffic(ProbeOf(size, group, 0).sums, 4 * 32768);
    EXPECT_GE(sum.exchanges, 4);
    EXPECT_GE(sum.exchanges * rates.latency_seconds + sum.bytes / rates.sum_bytes_per_second,
              sum.exchanges * 4e-3);
  }
}

// Whoever exchanges once more than that is gone before, and not with as many.
TEST(RankProbe, ASumTakesAsManyExchangesAsItsTrafficSays) {
  for (const uint64_t parameters : {uint64_t{1}, uint64_t{32768}, uint64_t{32769}}) {
    const CollectiveProbe probe = ProbeOf(2, 2, 0);
    const int exchanges = SumTraffic(probe.sums, parameters).exchanges;
    for (const bool enough : {false, true}) {
      Threads threads(2, 2, microseconds(0));
      threads.group(0).FailAfter(1, exchanges - (enough ? 0 : 1));
      threads.Run([&](int rank, const RankGroups& ranks) {
        const CollectiveProbe own = ProbeOf(2, 2, rank);
        OptimizerTiles tiles(own.optimizer, own.dtype, own.layout, {{}});
        std::vector<float> whole(2 * parameters), shard(parameters);
        std::vector<char> buckets(GradientSums::MemoryBytes(own.sums));
        GradientSums sums(own.sums, ranks.group, nullptr, &tiles, {}, buckets.data());
        const absl::Status status = sums.Sum(0, whole.data(), parameters, shard.data());
        EXPECT_EQ(status.ok(), enough) << parameters << " " << status;
      });
    }
  }
}

TEST(RankProbe, ExchangesAreMeasuredOnceAndKept) {
  const std::string path = testing::TempDir() + "/rank-profile.json";
  std::filesystem::remove(path);
  setenv("SPILLWAY_PROFILE", path.c_str(), 1);
  GradientSumOptions sums = ProbeOf(2, 2, 0).sums;
  EXPECT_FALSE(KeptCollectiveRates(sums).has_value());
  const auto slow = RatesOnAll(2, 2, microseconds(2000), true);
  EXPECT_GE(slow[0].latency_seconds, 2e-3);
  EXPECT_EQ(slow[1], slow[0]);
  const auto again = RatesOnAll(2, 2, microseconds(0), true);
  EXPECT_EQ(again[0], slow[0]);
  EXPECT_EQ(again[1], slow[0]);
  EXPECT_EQ(KeptCollectiveRates(sums), slow[0]);
  // Other ranks, and what they send otherwise, are others.
  EXPECT_LT(RatesOnAll(2, 1, microseconds(0), true)[0].latency_seconds, 2e-3);
  sums.bucket_parameters /= 2;
  EXPECT_FALSE(KeptCollectiveRates(sums).has_value());
  sums.bucket_parameters *= 2;
  EXPECT_TRUE(KeptCollectiveRates(sums).has_value());
  sums.format = ExchangeFormat::kBFloat16;
  EXPECT_FALSE(KeptCollectiveRates(sums).has_value());
  setenv("SPILLWAY_PROFILE", "off", 1);
  EXPECT_FALSE(KeptCollectiveRates(ProbeOf(2, 2, 0).sums).has_value());
}

TEST(RankProbe, AllRanksPlanWithTheFirstOnesClock) {
  for (const bool first_has : {true, false}) {
    Threads(3, 3, microseconds(0)).Run([&](int rank, const RankGroups& ranks) {
      std::optional<StepClock> clock;
      // Only some ranks could measure their disks.
      if (rank == 0 ? first_has : rank == 1) {
        clock.emplace();
        clock->disk = {1e9 + rank, 1.0 / 3 + rank, 3, 0.1 + rank};
        clock->in_place = {rank == 0, false};
        clock->update_bytes_per_second = 1e10 + rank;
        clock->shared_cores = 0.1 * rank;
      }
      DryRun times;
      times.forward_seconds = {1.1 + rank, 2};
      times.backward_seconds = {3, 4.7 + rank};
      times.graphs.seconds_saved = {0.1 + rank, 0};
      EXPECT_EQ(TakeFirstRanksClock(*ranks.world, clock, times), absl::OkStatus());
      ASSERT_EQ(clock.has_value(), first_has);
      const int whose = first_has ? 0 : rank;
      EXPECT_EQ(times.forward_seconds, (std::vector<double>{1.1 + whose, 2}));
      EXPECT_EQ(times.backward_seconds, (std::vector<double>{3, 4.7 + whose}));
      EXPECT_EQ(times.graphs.seconds_saved, (std::vector<double>{0.1 + whose, 0}));
      if (!first_has) return;
      EXPECT_EQ(clock->disk, (DiskRates{1e9, 1.0 / 3, 3, 0.1}));
      EXPECT_EQ(clock->in_place, (std::vector<bool>{true, false}));
      EXPECT_EQ(clock->update_bytes_per_second, 1e10);
      EXPECT_EQ(clock->shared_cores, 0);
    });
  }
}

}  // namespace
}  // namespace spillway
