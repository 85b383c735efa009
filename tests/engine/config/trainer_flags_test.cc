#include "engine/config/trainer_flags.h"

#include <set>

#include "tests/engine/format_testing.h"

namespace spillway {
namespace {

using absl::StatusCode;

TEST(TrainerFlags, EachNameIsKnownInOneWay) {
  std::set<std::string> seen;
  for (const FlagAlias& alias : TrainerFlagAliases()) {
    EXPECT_TRUE(seen.insert(alias.alias).second) << alias.alias;
    EXPECT_EQ(alias.flag.find('_'), std::string::npos);
  }
  for (const std::string& flag : TrainerFlagsWithAdvice()) {
    EXPECT_TRUE(seen.insert(flag).second) << flag;
    EXPECT_FALSE(TrainerFlagAdvice(flag).empty()) << flag;
  }
  EXPECT_EQ(TrainerFlagAdvice("--logging-steps"), TrainerFlagAdvice("--logging_steps"));
  EXPECT_EQ(TrainerFlagAdvice("--load-in-4bit"), "use --base-dtype nf4");
  EXPECT_EQ(TrainerFlagAdvice("--nonsense"), "");
  EXPECT_EQ(TrainerFlagAdvice("-"), "");
}

TEST(TrainerFlags, PrecisionSwitchesAreADtype) {
  const struct {
    TrainFlags::Text bf16, fp16, dtype, becomes;
  } cases[] = {
      {"", {}, {}, "bf16"},      {"True", {}, {}, "bf16"},
      {{}, "true", {}, "fp16"},  {"False", "true", {}, "fp16"},
      {"false", {}, {}, "fp32"}, {{}, {}, "fp32", "fp32"},
      {"", {}, "bf16", "bf16"},  {"False", {}, "fp32", "fp32"},
      {"False", {}, {}, "fp32"}, {{}, "False", {}, "fp32"},
      {{}, {}, {}, {}},
  };
  for (const auto& c : cases) {
    TrainFlags flags;
    flags.bf16 = c.bf16;
    flags.fp16 = c.fp16;
    flags.dtype = c.dtype;
    ASSERT_TRUE(TranslateTrainerFlags(&flags).ok());
    EXPECT_EQ(flags.dtype, c.becomes) << c.bf16.value_or("-") << " " << c.fp16.value_or("-");
  }
  TrainFlags both;
  both.bf16 = both.fp16 = "";
  ExpectError(TranslateTrainerFlags(&both), StatusCode::kInvalidArgument, {"--bf16 and --fp16"});
  TrainFlags other;
  other.bf16 = "";
  other.dtype = "fp32";
  ExpectError(TranslateTrainerFlags(&other), StatusCode::kInvalidArgument,
              {"--bf16 and --dtype fp32"});
  TrainFlags bad;
  bad.fp16 = "O2";
  ExpectError(TranslateTrainerFlags(&bad), StatusCode::kInvalidArgument,
              {"--fp16 'O2'", "true or false"});
}

TEST(TrainerFlags, PackingIsAKindOfSamples) {
  const struct {
    TrainFlags::Text packing, samples, becomes;
  } cases[] = {{"", {}, "packed"},       {"True", "packed", "packed"},
               {"false", {}, "padded"},  {"False", "windows", "windows"},
               {{}, "padded", "padded"}, {{}, {}, {}}};
  for (const auto& c : cases) {
    TrainFlags flags;
    flags.packing = c.packing;
    flags.samples = c.samples;
    ASSERT_TRUE(TranslateTrainerFlags(&flags).ok());
    EXPECT_EQ(flags.samples, c.becomes) << c.packing.value_or("-") << c.samples.value_or("-");
  }
  TrainFlags both;
  both.packing = "";
  both.samples = "padded";
  ExpectError(TranslateTrainerFlags(&both), StatusCode::kInvalidArgument,
              {"--packing and --samples padded"});
  both.packing = "False";
  both.samples = "packed";
  ExpectError(TranslateTrainerFlags(&both), StatusCode::kInvalidArgument,
              {"--packing false and --samples packed"});
  TrainFlags longest;
  longest.pad_to_max_length = "";
  ASSERT_TRUE(TranslateTrainerFlags(&longest).ok());
  EXPECT_EQ(longest.samples, "padded");
  longest.samples = "windows";
  ExpectError(TranslateTrainerFlags(&longest), StatusCode::kInvalidArgument,
              {"--pad-to-max-length and --samples windows"});
  TrainFlags bad;
  bad.packing = "bfd";
  ExpectError(TranslateTrainerFlags(&bad), StatusCode::kInvalidArgument,
              {"--packing 'bfd'", "true or false"});
}

TEST(TrainerFlags, BetasComeOneByOne) {
  TrainFlags flags;
  flags.adam_beta2 = "0.95";
  ASSERT_TRUE(TranslateTrainerFlags(&flags).ok());
  EXPECT_EQ(flags.betas, "0.9,0.95");
  ExpectError(TranslateTrainerFlags(&flags), StatusCode::kInvalidArgument, {"--betas and"});
  TrainFlags bad;
  bad.adam_beta1 = "1";
  ExpectError(TranslateTrainerFlags(&bad), StatusCode::kInvalidArgument, {"--adam_beta1 '1'"});
}

TEST(TrainerFlags, EpsilonIsAdamsAlone) {
  TrainFlags flags;
  flags.adam_epsilon = "1e-7";
  ASSERT_TRUE(TranslateTrainerFlags(&flags).ok());
  EXPECT_EQ(flags.eps, "1e-7");
  ExpectError(TranslateTrainerFlags(&flags), StatusCode::kInvalidArgument, {"--eps and"});
  TrainFlags bad;
  bad.adam_epsilon = "small";
  ExpectError(TranslateTrainerFlags(&bad), StatusCode::kInvalidArgument,
              {"--adam_epsilon 'small'"});
  bad.adam_epsilon = "1e-8";
  bad.optimizer = "adafactor";
  ExpectError(
      TranslateTrainerFlags(&bad), StatusCode::kInvalidArgument,
      {"--adam_epsilon has no meaning with --optimizer adafactor", "1e-30", "leave it out"});
}

TEST(TrainerFlags, MaxStepsBelowOneSaysNothing) {
  for (const char* none : {"-1", "0", "-100"}) {
    TrainFlags flags;
    flags.max_steps = none;
    flags.steps = "7";
    ASSERT_TRUE(TranslateTrainerFlags(&flags).ok());
    EXPECT_EQ(flags.steps, "7");
  }
  TrainFlags flags;
  flags.max_steps = "100";
  flags.warmup_ratio = "0.1";
  ASSERT_TRUE(TranslateTrainerFlags(&flags).ok());
  EXPECT_EQ(flags.steps, "100");
  EXPECT_EQ(flags.warmup, "10");
  ExpectError(TranslateTrainerFlags(&flags), StatusCode::kInvalidArgument,
              {"--steps and --max_steps"});
}

TEST(TrainerFlags, WhispersTasksAreOne) {
  TrainFlags flags;
  flags.task = "translate";
  ASSERT_TRUE(TranslateTrainerFlags(&flags).ok());
  EXPECT_EQ(flags.task, "transcribe");
  EXPECT_EQ(flags.transcribe_task, "translate");
  flags = TrainFlags();
  flags.task = "transcribe";
  ASSERT_TRUE(TranslateTrainerFlags(&flags).ok());
  EXPECT_EQ(flags.transcribe_task, std::nullopt);
  flags.task = "translate";
  flags.transcribe_task = "transcribe";
  ExpectError(TranslateTrainerFlags(&flags), StatusCode::kInvalidArgument,
              {"--task translate and --transcribe-task transcribe"});
}

TEST(TrainerFlags, WarmupRatioIsRoundedUp) {
  TrainFlags flags;
  flags.warmup_ratio = "0.03";
  ExpectError(TranslateTrainerFlags(&flags), StatusCode::kInvalidArgument, {"--steps"});
  flags.steps = "1k";
  ASSERT_TRUE(TranslateTrainerFlags(&flags).ok());
  EXPECT_EQ(flags.warmup, "30");
  flags.warmup.reset();
  flags.steps = "101";
  ASSERT_TRUE(TranslateTrainerFlags(&flags).ok());
  EXPECT_EQ(flags.warmup, "4");
  flags.warmup = "7";
  ASSERT_TRUE(TranslateTrainerFlags(&flags).ok());
  EXPECT_EQ(flags.warmup, "7") << "steps win over the ratio";
  flags.warmup = "0.5";
  ASSERT_TRUE(TranslateTrainerFlags(&flags).ok());
  EXPECT_EQ(flags.warmup, "51") << "as transformers 5 reads warmup_steps";
  flags.warmup_ratio = "2";
  ExpectError(TranslateTrainerFlags(&flags), StatusCode::kInvalidArgument, {"--warmup_ratio '2'"});
}

TEST(TrainerFlags, OverwriteOutputDirIsOverwrite) {
  for (const auto& [text, expected] :
       {std::pair{"", true}, std::pair{"True", true}, std::pair{"false", false}}) {
    TrainFlags flags;
    flags.overwrite_output_dir = text;
    ASSERT_EQ(TranslateTrainerFlags(&flags), absl::OkStatus()) << text;
    EXPECT_EQ(flags.overwrite, expected) << text;
  }
  TrainFlags flags;
  flags.overwrite_output_dir = "maybe";
  EXPECT_EQ(TranslateTrainerFlags(&flags).code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace spillway
