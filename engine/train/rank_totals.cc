#include "engine/train/rank_totals.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "io/base/clock.h"
#include "io/base/status.h"

namespace spillway {

absl::StatusOr<std::vector<int64_t>> RankTotals::Counts(int64_t own) {
  const double began = MonotonicSeconds();
  setup_.sharded()->BeginExchange();
  auto counts = AllGatherCount(*context_.ranks.world, own);
  setup_.sharded()->EndExchange();
  meter_.CountAgreement(began);
  return counts;
}

absl::Status RankTotals::ShareLabels() {
  if (context_.ranks.world == nullptr) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::vector<int64_t> counts, Counts(context_.compute->label_count()));
  int64_t total = 0;
  for (int64_t count : counts) total += count;
  context_.compute->SetLabelCount(total);
  return absl::OkStatus();
}

absl::Status RankTotals::ShareBuffers() {
  if (context_.ranks.world == nullptr) return absl::OkStatus();
  std::vector<StateBuffer> buffers = context_.compute->Buffers();
  if (buffers.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::string text,
                   FromFirstRank(*context_.ranks.world, ToJson(buffers).dump()));
  ASSIGN_OR_RETURN(buffers, StateBuffersFromJson(nlohmann::json::parse(text)));
  return context_.compute->SetBuffers(buffers);
}

absl::StatusOr<double> RankTotals::LossSum() {
  if (context_.ranks.world == nullptr) return context_.compute->loss_sum();
  const double began = MonotonicSeconds();
  setup_.sharded()->BeginExchange();
  ASSIGN_OR_RETURN(const std::vector<double> sums,
                   AllGatherNumber(*context_.ranks.world, context_.compute->loss_sum()));
  setup_.sharded()->EndExchange();
  meter_.CountAgreement(began);
  double total = 0;
  for (double sum : sums) total += sum;
  return total;
}

absl::StatusOr<std::vector<QualityMeasure>> RankTotals::Quality(double loss) {
  const std::vector<Judgement>& own = context_.compute->judgements();
  if (context_.ranks.world == nullptr) return context_.compute->QualityOf(own, loss);
  // It is asked in a pause, whose waits nobody counts.
  const std::string bytes(reinterpret_cast<const char*>(own.data()),
                          own.size() * sizeof(Judgement));
  ASSIGN_OR_RETURN(const std::vector<std::string> texts,
                   AllGatherText(*context_.ranks.world, bytes));
  std::vector<Judgement> all;
  for (const std::string& text : texts) {
    if (text.empty()) continue;
    const size_t before = all.size();
    all.resize(before + text.size() / sizeof(Judgement));
    std::memcpy(all.data() + before, text.data(), text.size());
  }
  return context_.compute->QualityOf(all, loss);
}

absl::StatusOr<bool> RankTotals::AnyStops(bool own) {
  if (context_.ranks.world == nullptr) return own;
  ASSIGN_OR_RETURN(const std::vector<int64_t> stops, Counts(own));
  for (int64_t stop : stops) own |= stop != 0;
  return own;
}

absl::StatusOr<int64_t> RankTotals::Least(int64_t own) {
  if (context_.ranks.world == nullptr) return own;
  // It is asked in a pause, whose waits nobody counts.
  ASSIGN_OR_RETURN(const std::vector<int64_t> all, AllGatherCount(*context_.ranks.world, own));
  return *std::min_element(all.begin(), all.end());
}

}  // namespace spillway
