#include "engine/config/train_flag_table.h"

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "engine/config/run_config.h"
#include "engine/data/token_masking.h"
#include "engine/numeric/quality.h"
#include "engine/options/drive_wear.h"
#include "gtest/gtest.h"

namespace spillway {
namespace {

TEST(TrainFlagTable, HasTheWordsAndDefaultsOfWhatTheyAreFor) {
  std::string metrics;
  for (const MeasureKind& kind : MeasureKinds()) absl::StrAppend(&metrics, "|", kind.name);
  EXPECT_EQ(absl::StrCat("|", FindTrainFlag("--metric")->type), metrics);
  for (const auto& [name, task] : ModelTasks()) {
    const std::vector<std::string> words = absl::StrSplit(FindTrainFlag("--task")->type, '|');
    EXPECT_EQ(std::count(words.begin(), words.end(), name), 1) << name;
  }
  EXPECT_EQ(FindTrainFlag("--mask-probability")->fallback, absl::StrCat(kMaskProbability));
  TrainFlags flags;
  flags.model = "m";
  flags.output = "o";
  flags.data = {"d"};
  const auto config = ResolveRunConfig(flags);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->train.drive_bytes_per_day, kDriveBytesPerDay);
  EXPECT_EQ(config->train.optimizer, OptimizerSpec());
}

TEST(TrainFlagTable, HelpEndsWithTheDefault) {
  EXPECT_EQ(FindTrainFlag("--keep")->FullHelp(), "commits kept in --persist (1)");
  EXPECT_EQ(FindTrainFlag("--weight-decay")->FullHelp(), "(0.01)");
  EXPECT_EQ(FindTrainFlag("--launch")->FullHelp(), "run that command");
}

// A default among the words of a type is one of them.
TEST(TrainFlagTable, DefaultsAreWordsOfTheirTypes) {
  for (const TrainFlagGroup& group : TrainFlagGroups()) {
    for (const TrainFlag& flag : group.flags) {
      const std::vector<std::string> words = absl::StrSplit(flag.type, '|');
      const absl::string_view shown = flag.fallback;
      const bool is_sentence = shown.find_first_of(" '") < shown.find_first_of(":;");
      if (words.size() < 2 || shown.empty() || is_sentence || !islower(words[0][0])) continue;
      const std::string value(shown.substr(0, shown.find_first_of(":;")));
      EXPECT_EQ(std::count(words.begin(), words.end(), value), 1) << flag.name << " " << value;
    }
  }
}

}  // namespace
}  // namespace spillway
