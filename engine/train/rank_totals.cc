#include "engine/train/rank_totals.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <string>
#include <type_traits>

#include "engine/base/shallow_json.h"
#include "io/base/clock.h"
#include "io/base/status.h"

namespace spillway {
namespace {

// The values of all ranks, in rank order. Called during a pause, whose waits are not counted.
template <typename Value>
absl::StatusOr<std::vector<Value>> AllGatherValues(Collectives* world,
                                                   const std::vector<Value>& own) {
  static_assert(std::is_trivially_copyable_v<Value>);
  if (world == nullptr) return own;
  const std::string bytes(reinterpret_cast<const char*>(own.data()), own.size() * sizeof(Value));
  ASSIGN_OR_RETURN(const std::vector<std::string> texts, AllGatherText(*world, bytes));
  std::vector<Value> all;
  for (const std::string& text : texts) {
    if (text.empty()) continue;
    const size_t before = all.size();
    all.resize(before + text.size() / sizeof(Value));
    std::memcpy(static_cast<void*>(all.data() + before), text.data(), text.size());
  }
  return all;
}

}  // namespace

template <typename Ask>
auto RankTotals::Agreed(Ask ask) {
  const double began = MonotonicSeconds();
  setup_.sharded()->BeginExchange();
  auto answer = ask();
  setup_.sharded()->EndExchange();
  meter_.CountAgreement(began);
  return answer;
}

absl::StatusOr<std::vector<int64_t>> RankTotals::Counts(int64_t own) {
  return Agreed([&] { return AllGatherCount(*context_.ranks.world, own); });
}

absl::StatusOr<int64_t> RankTotals::Sum(int64_t own) {
  if (context_.ranks.world == nullptr) return own;
  ASSIGN_OR_RETURN(const std::vector<int64_t> all, Counts(own));
  return std::accumulate(all.begin(), all.end(), int64_t{0});
}

absl::StatusOr<int64_t> RankTotals::ShareCounts() {
  struct BatchCounts {
    int64_t labels = 0;
    int64_t tokens = 0;
  };
  StepCompute& compute = *context_.compute;
  const BatchCounts own = {compute.label_count(), compute.token_count()};
  if (context_.ranks.world == nullptr) return own.tokens;
  Collectives& world = *context_.ranks.world;
  std::vector<BatchCounts> all(world.size());
  RETURN_IF_ERROR(Agreed([&] { return AllGather(world, &own, all.data(), sizeof(own)); }));
  BatchCounts sum;
  for (const BatchCounts& counts : all) {
    sum.labels += counts.labels;
    sum.tokens += counts.tokens;
  }
  compute.SetLabelCount(sum.labels);
  return sum.tokens;
}

absl::Status RankTotals::MeasureUpdate(const UpdateScalars& scalars, double sum_of_squares) {
  TensorRatios* const ratios = setup_.tensor_ratios();
  if (ratios == nullptr || scalars.skip) return absl::OkStatus();
  int measure = 0;
  if (FactoredMoments* const moments = setup_.factored_moments()) {
    moments->Begin(sum_of_squares);
    RETURN_IF_ERROR(Measure(scalars, measure++));
    RETURN_IF_ERROR(AddShards(moments->sums()));
    moments->Take(scalars);
  }
  RETURN_IF_ERROR(Measure(scalars, measure));
  ASSIGN_OR_RETURN(const std::vector<double> sums, OfAllShards(ratios->TakeSums()));
  ratios->Use(sums);
  return absl::OkStatus();
}

absl::Status RankTotals::Measure(const UpdateScalars& scalars, int measure) {
  StepMeter::Wait wait(meter_);
  RETURN_IF_ERROR(setup_.memory()->MeasureUpdate(scalars, measure));
  wait.End();
  return absl::OkStatus();
}

absl::StatusOr<std::vector<double>> RankTotals::OfAllShards(std::vector<double> own) {
  const size_t group = context_.options.shard_group_size;
  if (context_.ranks.world == nullptr || group == 1) return own;
  ASSIGN_OR_RETURN(std::vector<double> all,
                   Agreed([&] { return AllGatherValues(context_.ranks.world, own); }));
  all.resize(own.size() * group);  // the first group has all shards, in order
  return all;
}

// Sums one part after the other, so that all ranks' values of it are small.
absl::Status RankTotals::AddShards(absl::Span<double> sums) {
  if (context_.ranks.world == nullptr) return absl::OkStatus();
  const size_t at_once = std::max<size_t>(1024, 65536 / context_.options.ranks);
  for (size_t begin = 0; begin < sums.size(); begin += at_once) {
    const absl::Span<double> part = sums.subspan(begin, at_once);
    ASSIGN_OR_RETURN(const std::vector<double> all, OfAllShards({part.begin(), part.end()}));
    std::fill(part.begin(), part.end(), 0);
    for (size_t i = 0; i < all.size(); ++i) part[i % part.size()] += all[i];
  }
  return absl::OkStatus();
}

absl::Status RankTotals::ShareBuffers() {
  if (context_.ranks.world == nullptr) return absl::OkStatus();
  std::vector<StateBuffer> buffers = context_.compute->Buffers();
  if (buffers.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::string text,
                   FromFirstRank(*context_.ranks.world, ToJson(buffers).dump()));
  ASSIGN_OR_RETURN(buffers, StateBuffersFromJson(ParseShallowJson(text)));
  return context_.compute->SetBuffers(buffers);
}

absl::StatusOr<double> RankTotals::MeanLoss(int64_t labels) {
  double total = context_.compute->loss_sum();
  if (context_.ranks.world != nullptr) {
    ASSIGN_OR_RETURN(const std::vector<double> sums,
                     Agreed([&] { return AllGatherNumber(*context_.ranks.world, total); }));
    total = std::accumulate(sums.begin(), sums.end(), 0.0);
  }
  return labels > 0 ? total / static_cast<double>(labels) : std::nan("");
}

absl::StatusOr<std::vector<QualityMeasure>> RankTotals::Quality(double loss) {
  const StepCompute& compute = *context_.compute;
  Collectives* const world = context_.ranks.world;
  if (!compute.makes_texts()) {
    ASSIGN_OR_RETURN(const std::vector<Judgement> all,
                     AllGatherValues(world, compute.judgements()));
    return compute.QualityOf(all, loss);
  }
  ASSIGN_OR_RETURN(const std::vector<TextCounts> all,
                   AllGatherValues(world, compute.text_counts()));
  TextMeasures measures;
  for (const TextCounts& counts : all) measures.Add(counts);
  return measures.Values();
}

absl::StatusOr<bool> RankTotals::AnyMakesTexts(bool own) {
  ASSIGN_OR_RETURN(const int64_t least, Least(own ? -1 : 0));
  return least < 0;
}

absl::StatusOr<bool> RankTotals::AnyStops(int64_t own, bool* commit) {
  std::vector<int64_t> stops = {own};
  if (context_.ranks.world != nullptr) {
    // One exchange for both: the lowest bit is that of the commit.
    const int64_t due = commit != nullptr && *commit ? 1 : 0;
    ASSIGN_OR_RETURN(stops, Counts(own * 2 + due));
    if (commit != nullptr) *commit = stops[0] % 2 != 0;
    for (int64_t& stop : stops) stop = (stop - (stop & 1)) / 2;
  }
  StopReason reason;
  const auto take = [&](int rank) {
    if (stops[rank] == 0) return;
    // A signal takes precedence over a limit, which a later process of the run finds again.
    if (reason.rank >= 0 && (reason.signal != 0 || stops[rank] == kAtLimit)) return;
    reason = {static_cast<int>(std::max<int64_t>(stops[rank], 0)), rank};
  };
  if (context_.ranks.world != nullptr) take(context_.options.rank);
  for (int rank = 0; rank < static_cast<int>(stops.size()); ++rank) take(rank);
  // The reason remains if a stopping run evaluates once more.
  if (reason.rank >= 0) stop_reason_ = reason;
  return reason.rank >= 0;
}

absl::StatusOr<int64_t> RankTotals::OfFirstRank(int64_t own) {
  if (context_.ranks.world == nullptr) return own;
  ASSIGN_OR_RETURN(const std::vector<int64_t> all, AllGatherCount(*context_.ranks.world, own));
  return all.front();
}

absl::StatusOr<int64_t> RankTotals::Least(int64_t own) {
  if (context_.ranks.world == nullptr) return own;
  // Called during a pause, whose waits are not counted.
  ASSIGN_OR_RETURN(const std::vector<int64_t> all, AllGatherCount(*context_.ranks.world, own));
  return *std::min_element(all.begin(), all.end());
}

}  // namespace spillway
