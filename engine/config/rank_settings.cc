#include "engine/config/rank_settings.h"

#include "absl/strings/str_join.h"
#include "io/base/status.h"

namespace spillway {
namespace {

std::vector<int> Divisors(int number) {
  constexpr int kMostShown = 64;
  std::vector<int> divisors;
  for (int i = 1; i <= number && divisors.size() < kMostShown; ++i) {
    if (number % i == 0) divisors.push_back(i);
  }
  return divisors;
}

class RankSettings : SettingPicker {
 public:
  explicit RankSettings(const SettingSources& sources) : SettingPicker(sources) {}

  void ResolveRanks();

 private:
  void ResolveShard();
};

void RankSettings::ResolveRanks() {
  TrainOptions& train = config_.train;
  const auto given = RanksFlag(flags_);
  Fail(given.status());
  train.rank = launch_.rank;
  train.ranks = launch_.world;
  std::string source = "default";
  if (given.ok() && *given) {
    train.ranks = **given;
    source = "--ranks";
  } else if (!launch_.launcher.empty()) {
    source = absl::StrCat(launch_.launcher, " (", launch_.world_variable, ")");
  }
  Record("ranks", train.ranks, source);
  ResolveShard();
  train.collective_timeout_seconds = Pick<double>("collective-timeout", {}, 600, DurationFlag);
  train.communication_format = Choice<ExchangeFormat>(
      "communication-dtype",
      {ExchangeFormat::kFloat32, ExchangeFormat::kBFloat16, ExchangeFormat::kFloat8},
      file_.communication_format);
}

void RankSettings::ResolveShard() {
  TrainOptions& train = config_.train;
  // The names of ZeRO's stages, and FSDP's of the same modes.
  train.shard = Choice<Shard>(
      "shard", {Shard::kNone, Shard::kOptimizer, Shard::kGradients, Shard::kFull, Shard::kHybrid},
      file_.shard, {},
      {{"NO_SHARD", Shard::kNone},
       {"SHARD_GRAD_OP", Shard::kGradients},
       {"FULL_SHARD", Shard::kFull},
       {"HYBRID_SHARD", Shard::kHybrid}},
      WordCase::kIgnored);
  train.shard_group_size = train.shard == Shard::kNone ? 1 : train.ranks;
  if (train.shard == Shard::kHybrid) {
    std::string source = "the ranks of this machine";
    const auto size =
        IntegerFlag("--shard-group-size", flags_.shard_group_size.value_or("1"), 1, kMostRanks);
    Fail(size.status());
    // As FSDP has it: whole on every machine. One rank, or --ranks of one machine, has no choice.
    const bool machine_known = !launch_.launcher.empty() || launch_.world == train.ranks;
    if (flags_.shard_group_size) {
      train.shard_group_size = static_cast<int>(size.value_or(1));
      source = "--shard-group-size";
    } else if (machine_known) {
      train.shard_group_size = launch_.local_world;
    } else {
      Invalid("--shard hybrid needs --shard-group-size G: how many ranks share one state");
    }
    Record("shard-group-size", train.shard_group_size, source);
    if (train.ranks % train.shard_group_size != 0) {
      Invalid(absl::StrCat("--shard hybrid: groups of ", train.shard_group_size, " (", source,
                           ") do not divide the ", train.ranks, " ranks: give ",
                           "--shard-group-size one of ",
                           absl::StrJoin(Divisors(train.ranks), ", ")));
    }
  } else if (flags_.shard_group_size) {
    Invalid(absl::StrCat("--shard-group-size ", *flags_.shard_group_size,
                         " has a meaning with --shard hybrid only"));
  }
}

}  // namespace

absl::StatusOr<std::optional<int>> RanksFlag(const TrainFlags& flags) {
  if (!flags.ranks) return std::nullopt;
  ASSIGN_OR_RETURN(const int64_t ranks, IntegerFlag("--ranks", *flags.ranks, 1, kMostRanks));
  return static_cast<int>(ranks);
}

void ResolveRankSettings(const SettingSources& sources) { RankSettings(sources).ResolveRanks(); }

}  // namespace spillway
