#include "engine/estimate/rank_probe.h"

#include <algorithm>
#include <ctime>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/shallow_json.h"
#include "engine/cuda/cuda_optimizer_tiles.h"
#include "engine/estimate/machine_profile.h"
#include "engine/estimate/profile_file.h"
#include "engine/ranks/collective_traffic.h"
#include "io/base/clock.h"
#include "io/base/log.h"
#include "io/base/status.h"
#include "nlohmann/json.hpp"
#include "swap/device/arena.h"
#include "swap/device/memory_budget.h"

namespace spillway {
namespace {

using nlohmann::json;

constexpr int kSmallExchanges = 16;
constexpr int kExchangeRounds = 3;
constexpr double kEnoughSeconds = 0.03;
constexpr uint64_t kLeastParameters = 4096;  // of a rank's portion
constexpr double kLeastSeconds = 1e-9;

// Time that the first rank took for `run`, on every rank; all begin together.
absl::StatusOr<double> TimeTogether(Collectives& world, const std::function<absl::Status()>& run) {
  RETURN_IF_ERROR(AllGatherCount(world, 0).status());
  const double began = MonotonicSeconds();
  RETURN_IF_ERROR(run());
  ASSIGN_OR_RETURN(const std::vector<double> all,
                   AllGatherNumber(world, MonotonicSeconds() - began));
  return std::max(kLeastSeconds, all[0]);
}

absl::StatusOr<double> FastestOf(int rounds, Collectives& world,
                                 const std::function<absl::Status()>& run) {
  double least = 0;
  for (int round = 0; round < rounds; ++round) {
    ASSIGN_OR_RETURN(const double seconds, TimeTogether(world, run));
    least = round == 0 ? seconds : std::min(least, seconds);
  }
  return least;
}

// Bytes a second that `run` sends, without the fixed latency of its exchanges, for the most
// parameters or as many as take long enough. `run` gets the size of a portion, which is the same on
// every rank.
absl::StatusOr<double> RateOf(Collectives& world, double latency, uint64_t most_parameters,
                              const std::function<absl::Status(uint64_t)>& run,
                              const std::function<ActionTraffic(uint64_t)>& traffic_of) {
  uint64_t parameters = std::min(kLeastParameters, most_parameters);
  while (true) {
    const auto once = [&] { return run(parameters); };
    ASSIGN_OR_RETURN(double seconds, TimeTogether(world, once));
    if (seconds < kEnoughSeconds && parameters < most_parameters) {
      parameters = std::min(2 * parameters, most_parameters);
      continue;
    }
    ASSIGN_OR_RETURN(const double again, FastestOf(kExchangeRounds - 1, world, once));
    seconds = std::min(seconds, again);
    const ActionTraffic traffic = traffic_of(parameters);
    // If latency dominates, most of `seconds` may be latency, too.
    const double moving = std::max(seconds / 8, seconds - traffic.exchanges * latency);
    return static_cast<double>(traffic.bytes) / moving;
  }
}

// Buffers of an exchange, in the memory that a step would use.
class ProbeMemory {
 public:
  // Allocates for `portion` parameters of each rank.
  static absl::StatusOr<std::unique_ptr<ProbeMemory>> Create(const CollectiveProbe& probe,
                                                             uint64_t portion) {
    std::unique_ptr<ProbeMemory> memory(new ProbeMemory);
    memory->shard_at_ = portion * probe.sums.grid.size * sizeof(float);
    memory->buckets_at_ = memory->shard_at_ + portion * probe.sums.grid.replicas() * sizeof(float);
    memory->buckets_at_ = (memory->buckets_at_ + 4095) / 4096 * 4096;
    const uint64_t bytes = memory->buckets_at_ + GradientSums::MemoryBytes(probe.sums);
    if (probe.device == nullptr) {
      ASSIGN_OR_RETURN(memory->arena_, Arena::Create(bytes, &memory->budget_));
      return memory;
    }
    ASSIGN_OR_RETURN(memory->arena_, Arena::CreateOn(probe.device, bytes, &memory->budget_));
    ASSIGN_OR_RETURN(memory->page_,
                     Arena::Create(ExchangeStream::kPageBytes, &memory->budget_, probe.device));
    memory->stream_ = ExchangeStream(probe.device, memory->page_->data());
    return memory;
  }

  float* whole() const { return reinterpret_cast<float*>(arena_->data()); }
  float* shard() const { return reinterpret_cast<float*>(arena_->data() + shard_at_); }
  char* buckets() const { return arena_->data() + buckets_at_; }
  const ExchangeStream& stream() const { return stream_; }

 private:
  ProbeMemory() = default;

  MemoryBudget budget_{"probe", UINT64_MAX};  // the caller has counted it
  std::unique_ptr<Arena> arena_, page_;
  uint64_t shard_at_ = 0;
  uint64_t buckets_at_ = 0;
  ExchangeStream stream_;
};

// A number for the rank's machine, the same for all of its ranks.
int64_t MachineNumber() {
  return static_cast<int64_t>(std::hash<std::string>()(ThisMachine().key));
}

// Visits every number of the two, in a fixed order.
void VisitNumbers(StepClock& clock, DryRun& times, const std::function<void(double&)>& visit) {
  for (double* value :
       {&clock.disk.read_bytes_per_second, &clock.disk.write_bytes_per_second,
        &clock.disk.mixed_bytes_per_second, &clock.disk.processor_seconds_per_byte,
        &clock.link.to_device_bytes_per_second, &clock.link.to_host_bytes_per_second,
        &clock.update_bytes_per_second, &clock.check_bytes_per_second,
        &clock.place_bytes_per_second, &clock.device_update_bytes_per_second, &clock.shared_cores,
        &clock.workers}) {
    visit(*value);
  }
  for (auto* list :
       {&times.forward_seconds, &times.backward_seconds, &times.graphs.seconds_saved}) {
    for (double& value : *list) visit(value);
  }
}

}  // namespace

absl::Status TakeFirstRanksClock(Collectives& world, std::optional<StepClock>& clock,
                                 DryRun& dry_run) {
  std::vector<double> own;
  if (clock) VisitNumbers(*clock, dry_run, [&](double& value) { own.push_back(value); });
  const json said = {own, clock ? clock->in_place : std::vector<bool>()};
  ASSIGN_OR_RETURN(const std::string text, FromFirstRank(world, said.dump()));
  const json parsed = ParseShallowJson(text);
  const bool readable =
      parsed.is_array() && parsed.size() == 2 && parsed[0].is_array() && parsed[1].is_array();
  if (!readable) return absl::InternalError("the first rank's clock is no list");
  const json& numbers = parsed[0];
  if (numbers.empty()) {
    clock.reset();
    return absl::OkStatus();
  }
  StepClock taken;
  size_t next = 0;
  bool fits = true;
  VisitNumbers(taken, dry_run, [&](double& value) {
    fits &= next < numbers.size() && numbers[next].is_number();
    if (fits) value = numbers[next++].get<double>();
  });
  for (const json& unit : parsed[1]) {
    fits &= unit.is_boolean();
    if (fits) taken.in_place.push_back(unit.get<bool>());
  }
  if (!fits || next != numbers.size()) {
    return absl::InternalError("the first rank's clock is of another model");
  }
  clock = std::move(taken);
  return absl::OkStatus();
}

absl::StatusOr<CollectiveRates> MeasureCollectives(const CollectiveProbe& probe,
                                                   const RankGroups& ranks) {
  Collectives& world = *ranks.world;
  const ShardGrid& grid = probe.sums.grid;
  CollectiveRates rates;
  ASSIGN_OR_RETURN(rates.latency_seconds, FastestOf(kSmallExchanges, world, [&] {
                     return AllGatherCount(world, 0).status();
                   }));

  // A rank holds a whole unit's sums and its shard of them at once.
  const uint64_t most = std::min(probe.most_bytes, probe.memory_bytes / 2) / sizeof(float);
  const uint64_t portion = std::max<uint64_t>(1, most / grid.size);
  CudaOptimizerTiles tiles(probe.optimizer, probe.dtype, probe.layout,
                           std::vector<std::vector<ParameterRange>>(probe.layout.num_units()));
  ASSIGN_OR_RETURN(const auto memory, ProbeMemory::Create(probe, portion));
  float* const whole = memory->whole();
  float* const shard = memory->shard();
  GradientSums sums(probe.sums, ranks.group, ranks.replicas, &tiles, memory->stream(),
                    memory->buckets());
  ASSIGN_OR_RETURN(rates.sum_bytes_per_second,
                   RateOf(
                       world, rates.latency_seconds, portion,
                       [&](uint64_t parameters) {
                         return sums.Sum(0, whole, parameters * grid.replicas(), shard);
                       },
                       [&](uint64_t parameters) {
                         return SumTraffic(probe.sums, parameters * grid.replicas());
                       }));
  if (ranks.group == nullptr) return rates;
  ASSIGN_OR_RETURN(rates.gather_bytes_per_second,
                   RateOf(
                       world, rates.latency_seconds, portion,
                       [&](uint64_t parameters) {
                         return AllGather(*ranks.group, shard, whole,
                                          parameters * grid.replicas() * sizeof(float));
                       },
                       [&](uint64_t parameters) {
                         return GatherTraffic(grid, parameters * grid.size * sizeof(float));
                       }));
  return rates;
}

absl::StatusOr<CollectiveRates> FindCollectiveRates(const CollectiveProbe& probe,
                                                    const RankGroups& ranks) {
  Collectives& world = *ranks.world;
  ASSIGN_OR_RETURN(const std::vector<int64_t> machines, AllGatherCount(world, MachineNumber()));
  const int num_machines =
      static_cast<int>(std::set<int64_t>(machines.begin(), machines.end()).size());
  const std::string key = CollectiveKey(probe.sums, num_machines, probe.device != nullptr);
  const ProfilePlace place = FindProfile();
  const MachineIdentity machine = ThisMachine();
  const int64_t now = time(nullptr);
  const bool first = world.rank() == 0;
  CollectiveRates rates;
  if (first) {
    const auto kept = LoadProfile(place.path, machine).profile.FindCollective(key, now);
    if (kept) rates = *kept;
  }
  for (double* each :
       {&rates.gather_bytes_per_second, &rates.sum_bytes_per_second, &rates.latency_seconds}) {
    ASSIGN_OR_RETURN(const std::vector<double> all, AllGatherNumber(world, *each));
    *each = all[0];
  }
  if (rates.sum_bytes_per_second > 0) return rates;
  ASSIGN_OR_RETURN(rates, MeasureCollectives(probe, ranks));
  if (!first) return rates;
  MachineProfile measured;
  measured.SetCollective(key, {rates, now});
  // If it cannot be saved, it is measured again next time.
  SaveProfile(place.path, machine, measured).IgnoreError();
  LogInfo(absl::StrCat("exchanges of ", key, " measured: ", RatesText(rates)));
  return rates;
}

std::optional<CollectiveRates> KeptCollectiveRates(const GradientSumOptions& sums, bool gpus) {
  const ProfilePlace place = FindProfile();
  if (place.off) return std::nullopt;
  return LoadProfile(place.path, ThisMachine())
      .profile.FindCollective(CollectiveKey(sums, 1, gpus), time(nullptr));
}

}  // namespace spillway
