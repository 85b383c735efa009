#include "engine/config/trainer_flags.h"

#include "engine/base/flag_value.h"
#include "gmock/gmock.h"
#include "tests/engine/format_testing.h"

namespace spillway {
namespace {

using absl::StatusCode;

// All that is in the way, as one status.
absl::Status Translated(TrainFlags* flags) { return AllErrors(TranslateTrainerFlags(flags)); }

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
    ASSERT_TRUE(Translated(&flags).ok());
    EXPECT_EQ(flags.dtype, c.becomes) << c.bf16.value_or("-") << " " << c.fp16.value_or("-");
  }
  TrainFlags both;
  both.bf16 = both.fp16 = "";
  ExpectError(Translated(&both), StatusCode::kInvalidArgument, {"--bf16 and --fp16"});
  TrainFlags other;
  other.bf16 = "";
  other.dtype = "fp32";
  ExpectError(Translated(&other), StatusCode::kInvalidArgument, {"--bf16 and --dtype fp32"});
  TrainFlags bad;
  bad.fp16 = "O2";
  ExpectError(Translated(&bad), StatusCode::kInvalidArgument, {"--fp16 'O2'", "true or false"});
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
    ASSERT_TRUE(Translated(&flags).ok());
    EXPECT_EQ(flags.samples, c.becomes) << c.packing.value_or("-") << c.samples.value_or("-");
  }
  TrainFlags both;
  both.packing = "";
  both.samples = "padded";
  ExpectError(Translated(&both), StatusCode::kInvalidArgument, {"--packing and --samples padded"});
  both.packing = "False";
  both.samples = "packed";
  ExpectError(Translated(&both), StatusCode::kInvalidArgument,
              {"--packing false and --samples packed"});
  TrainFlags longest;
  longest.pad_to_max_length = "";
  ASSERT_TRUE(Translated(&longest).ok());
  EXPECT_EQ(longest.samples, "padded");
  longest.samples = "windows";
  ExpectError(Translated(&longest), StatusCode::kInvalidArgument,
              {"--pad-to-max-length and --samples windows"});
  TrainFlags bad;
  bad.packing = "bfd";
  ExpectError(Translated(&bad), StatusCode::kInvalidArgument, {"--packing 'bfd'", "true or false"});
}

TEST(TrainerFlags, BetasComeOneByOne) {
  TrainFlags flags;
  flags.adam_beta2 = "0.95";
  ASSERT_TRUE(Translated(&flags).ok());
  EXPECT_EQ(flags.betas, "0.9,0.95");
  ExpectError(Translated(&flags), StatusCode::kInvalidArgument, {"--betas and"});
  TrainFlags bad;
  bad.adam_beta1 = "1";
  ExpectError(Translated(&bad), StatusCode::kInvalidArgument, {"--adam_beta1 '1'"});
}

TEST(TrainerFlags, EpsilonIsAdamsAlone) {
  TrainFlags flags;
  flags.adam_epsilon = "1e-7";
  ASSERT_TRUE(Translated(&flags).ok());
  EXPECT_EQ(flags.eps, "1e-7");
  ExpectError(Translated(&flags), StatusCode::kInvalidArgument, {"--eps and"});
  TrainFlags bad;
  bad.adam_epsilon = "small";
  ExpectError(Translated(&bad), StatusCode::kInvalidArgument, {"--adam_epsilon 'small'"});
  bad.adam_epsilon = "1e-8";
  bad.optimizer = "adafactor";
  ExpectError(
      Translated(&bad), StatusCode::kInvalidArgument,
      {"--adam_epsilon has no meaning with --optimizer adafactor", "1e-30", "leave it out"});
}

TEST(TrainerFlags, MaxStepsBelowOneSaysNothing) {
  for (const char* none : {"-1", "0", "-100"}) {
    TrainFlags flags;
    flags.max_steps = none;
    flags.steps = "7";
    ASSERT_TRUE(Translated(&flags).ok());
    EXPECT_EQ(flags.steps, "7");
  }
  TrainFlags flags;
  flags.max_steps = "100";
  flags.warmup_ratio = "0.1";
  ASSERT_TRUE(Translated(&flags).ok());
  EXPECT_EQ(flags.steps, "100");
  EXPECT_EQ(flags.warmup, "10");
  ExpectError(Translated(&flags), StatusCode::kInvalidArgument, {"--steps and --max_steps"});
}

TEST(TrainerFlags, WhispersTasksAreOne) {
  TrainFlags flags;
  flags.task = "translate";
  ASSERT_TRUE(Translated(&flags).ok());
  EXPECT_EQ(flags.task, "transcribe");
  EXPECT_EQ(flags.transcribe_task, "translate");
  flags = TrainFlags();
  flags.task = "transcribe";
  ASSERT_TRUE(Translated(&flags).ok());
  EXPECT_EQ(flags.transcribe_task, std::nullopt);
  flags.task = "translate";
  flags.transcribe_task = "transcribe";
  ExpectError(Translated(&flags), StatusCode::kInvalidArgument,
              {"--task translate and --transcribe-task transcribe"});
}

TEST(TrainerFlags, WarmupRatioIsRoundedUp) {
  TrainFlags flags;
  flags.warmup_ratio = "0.03";
  ASSERT_TRUE(Translated(&flags).ok());
  EXPECT_EQ(flags.warmup_ratio, "0.03") << "of steps that the data decides";
  EXPECT_EQ(flags.warmup, std::nullopt);
  flags.steps = "1k";
  ASSERT_TRUE(Translated(&flags).ok());
  EXPECT_EQ(flags.warmup, "30");
  flags.warmup.reset();
  flags.warmup_ratio = "0.03";
  flags.steps = "101";
  ASSERT_TRUE(Translated(&flags).ok());
  EXPECT_EQ(flags.warmup, "4");
  flags.warmup = "7";
  flags.warmup_ratio = "0.03";
  ASSERT_TRUE(Translated(&flags).ok());
  EXPECT_EQ(flags.warmup, "7") << "steps win over the ratio";
  flags.warmup = "0.5";
  ASSERT_TRUE(Translated(&flags).ok());
  EXPECT_EQ(flags.warmup, "51") << "as transformers 5 reads warmup_steps";
  flags.warmup_ratio = "2";
  ExpectError(Translated(&flags), StatusCode::kInvalidArgument, {"--warmup_ratio '2'"});
}

TEST(TrainerFlags, HuggingFacesDTypesAreOfWeights) {
  const struct {
    TrainFlags::Text dtype, bf16, becomes;
  } cases[] = {{"float32", {}, "fp32"},     {"bfloat16", {}, "bf16"}, {"float16", {}, "fp16"},
               {"float32", "true", "bf16"}, {"auto", {}, {}},         {"auto", "true", "bf16"}};
  for (const auto& c : cases) {
    TrainFlags flags;
    flags.dtype = c.dtype;
    flags.bf16 = c.bf16;
    ASSERT_TRUE(Translated(&flags).ok());
    EXPECT_EQ(flags.dtype, c.becomes) << *c.dtype;
    EXPECT_EQ(flags.without_effect.empty(), !c.bf16 && c.becomes);
  }
}

TEST(TrainerFlags, UsePeftHasTrlsDefaults) {
  TrainFlags flags;
  flags.use_peft = "true";
  flags.lora_r = "8";
  ASSERT_TRUE(Translated(&flags).ok());
  EXPECT_EQ(flags.lora_r, "8");
  EXPECT_EQ(flags.lora_alpha, "32");
  EXPECT_EQ(flags.lora_dropout, "0.05");
  flags.use_peft = "false";
  ASSERT_TRUE(Translated(&flags).ok());
  EXPECT_EQ(flags.lora_r, std::nullopt);
  EXPECT_THAT(flags.without_effect, testing::Contains("--lora-r 8"));
}

TEST(TrainerFlags, StrategiesAreIntervals) {
  TrainFlags flags;
  flags.eval_strategy = "steps";
  ASSERT_TRUE(Translated(&flags).ok());
  EXPECT_EQ(flags.eval_every, "500") << "the Trainer's --logging_steps";
  flags.logging_steps = "10";
  flags.eval_every = "50";
  ASSERT_TRUE(Translated(&flags).ok());
  EXPECT_EQ(flags.eval_every, "50");
  EXPECT_THAT(flags.without_effect, testing::ElementsAre("--logging_steps 10"));
  flags = TrainFlags();
  flags.eval_strategy = "epoch";
  flags.save_strategy = "no";
  flags.logging_steps = "10";
  ASSERT_TRUE(Translated(&flags).ok());
  EXPECT_EQ(flags.eval_every, "epoch");
  EXPECT_EQ(flags.commit_every, "0");
  EXPECT_THAT(flags.without_effect, testing::ElementsAre("--logging_steps 10"));
  flags = TrainFlags();
  flags.eval_strategy = "no";
  flags.eval_every = "10";
  flags.commit_every = "0.25";
  ASSERT_TRUE(Translated(&flags).ok());
  EXPECT_EQ(flags.eval_every, std::nullopt);
  EXPECT_EQ(flags.commit_every, "0.25") << "of steps that the data may decide";
  EXPECT_THAT(flags.without_effect, testing::ElementsAre("--eval_steps 10"));
  flags = TrainFlags();
  flags.eval_strategy = "often";
  flags.save_strategy = "best";
  ExpectError(Translated(&flags), StatusCode::kInvalidArgument,
              {"2 things are in the way", "--eval_strategy 'often'", "--save_strategy best"});
  flags = TrainFlags();
  flags.eval_strategy = "steps";
  flags.logging_steps = "0.2";
  ASSERT_TRUE(Translated(&flags).ok());
  EXPECT_EQ(flags.eval_every, "0.2");
}

TEST(TrainerFlags, DecayAndSchedulesAreSaidOnce) {
  TrainFlags flags;
  flags.trainer_weight_decay = "0.1";
  ASSERT_TRUE(Translated(&flags).ok());
  EXPECT_EQ(flags.weight_decay, "0.1");
  flags.schedule = "linear";
  flags.lr_scheduler_type = "cosine";
  ExpectError(Translated(&flags), StatusCode::kInvalidArgument,
              {"--weight-decay and --weight_decay, the Trainer's, say the same",
               "--schedule and --lr_scheduler_type say the same"});
}

TEST(TrainerFlags, OptimizerArgumentsAreSgds) {
  TrainFlags flags;
  flags.optimizer = "sgd";
  flags.optim_args = "momentum=0.9, dampening=0.1,nesterov=True,weight_decay=0.5";
  ASSERT_TRUE(Translated(&flags).ok());
  EXPECT_EQ(flags.momentum, "0.9");
  EXPECT_EQ(flags.dampening, "0.1");
  EXPECT_EQ(flags.nesterov, "true");
  EXPECT_THAT(flags.without_effect, testing::ElementsAre("--optim_args weight_decay=0.5"));
  flags.optim_args = "lr_decay=1";
  ExpectError(Translated(&flags), StatusCode::kInvalidArgument, {"--optim_args 'lr_decay=1'"});
  flags.optimizer = "adafactor";
  ExpectError(Translated(&flags), StatusCode::kInvalidArgument, {"--optim_args lr_decay=1"});
  flags.optim_args = "None";
  ASSERT_TRUE(Translated(&flags).ok());
}

TEST(TrainerFlags, WhatComesToNothingIsSaidAndWhatMattersRefused) {
  TrainFlags flags;
  flags.output = "run";
  flags.report_to = "tensorboard,wandb";
  flags.resume_from_checkpoint = "False";
  flags.save_total_limit = "2";
  flags.data_seed = "42";
  flags.validation_split = "5";
  flags.eval_data = {"held.txt"};
  flags.source_lang = "en_XX";
  ASSERT_TRUE(Translated(&flags).ok());
  EXPECT_EQ(flags.tensorboard, "run/runs");
  EXPECT_EQ(flags.source_key, "translation.en");
  EXPECT_THAT(flags.without_effect,
              testing::UnorderedElementsAre("--report_to wandb", "--resume_from_checkpoint False",
                                            "--save_total_limit 2", "--data_seed 42",
                                            "--validation_split_percentage 5"));
  flags = TrainFlags();
  flags.refused = {"--dpo: not there"};
  flags.resume_from_checkpoint = "other/checkpoint-5";
  flags.data_seed = "1";
  flags.validation_split = "5";
  flags.do_eval = "true";
  ExpectError(Translated(&flags), StatusCode::kInvalidArgument,
              {"5 things are in the way:\n  --dpo", "\n  --do_eval: ", "--eval-data FILE",
               "\n  --resume_from_checkpoint other/checkpoint-5: use --resume",
               "\n  --validation_split_percentage 5: ", "\n  --data_seed 1: "});
}

TEST(TrainerFlags, OverwriteOutputDirIsOverwrite) {
  for (const auto& [text, expected] :
       {std::pair{"", true}, std::pair{"True", true}, std::pair{"false", false}}) {
    TrainFlags flags;
    flags.overwrite_output_dir = text;
    ASSERT_EQ(Translated(&flags), absl::OkStatus()) << text;
    EXPECT_EQ(flags.overwrite, expected) << text;
  }
  TrainFlags flags;
  flags.overwrite_output_dir = "maybe";
  EXPECT_EQ(Translated(&flags).code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace spillway
