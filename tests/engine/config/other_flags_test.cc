#include "engine/config/other_flags.h"

#include <set>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "engine/config/train_flag_table.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace spillway {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TranslatedWords Train(absl::string_view line) {
  return TranslateWords(absl::StrSplit(line, ' '), OwnTrainFlags(), OtherTrainFlags());
}

std::string Words(absl::string_view line) {
  const TranslatedWords found = Train(line);
  EXPECT_TRUE(found.refused.empty()) << absl::StrJoin(found.refused, "\n");
  return absl::StrJoin(found.words, " ");
}

TEST(TrainFlagTable, EachFlagIsThereOnce) {
  std::set<std::string> seen;
  for (const TrainFlagGroup& group : TrainFlagGroups()) {
    for (const TrainFlag& flag : group.flags) {
      EXPECT_TRUE(seen.insert(flag.name).second) << flag.name;
      EXPECT_EQ(FindTrainFlag(flag.name), &flag);
      EXPECT_EQ(std::string(flag.name).find('_'), std::string::npos) << flag.name;
      EXPECT_EQ(*flag.type == '\0', std::holds_alternative<bool TrainFlags::*>(flag.field));
    }
  }
  EXPECT_EQ(FindTrainFlag("--nonsense"), nullptr);
}

TEST(OtherFlags, EachNameIsKnownInOneWay) {
  for (const auto table : {OtherTrainFlags(), OtherTextFlags()}) {
    std::set<std::string> seen;
    for (const OtherFlag& flag : table) {
      EXPECT_TRUE(seen.insert(flag.name).second) << flag.name;
      EXPECT_EQ(std::string(flag.name).find('-', 2), std::string::npos) << flag.name;
      EXPECT_EQ(flag.field != nullptr, flag.kind == OtherFlag::Kind::kSetting) << flag.name;
      EXPECT_NE(*flag.text, '\0');
      // A flag of ours by this name would win.
      std::string ours = flag.name;
      std::replace(ours.begin() + 2, ours.end(), '_', '-');
      if (table.data() != OtherTrainFlags().data()) continue;
      // --weight-decay is ours, and --weight_decay the Trainer's, which means less.
      EXPECT_EQ(FindTrainFlag(ours) != nullptr, ours == "--weight-decay") << flag.name;
      if (flag.kind != OtherFlag::Kind::kAlias) continue;
      const std::vector<std::string> to = absl::StrSplit(flag.text, ' ');
      EXPECT_NE(FindTrainFlag(to[0]), nullptr) << flag.name;
      EXPECT_EQ(to.size() > 1, flag.values == OtherFlag::Values::kSwitch) << flag.name;
    }
  }
}

TEST(OtherFlags, AreSaidInTrainsOwn) {
  EXPECT_EQ(Words("--learning_rate 1e-3 --output-dir run --seq_len=8"),
            "--lr=1e-3 --output=run --seq-len=8");
  EXPECT_EQ(Words("--train_file a.txt b.txt --lr 1"), "--data a.txt b.txt --lr=1");
  EXPECT_EQ(Words("--lora_target_modules q_proj v_proj --lora-targets a b,c"),
            "--lora-targets=q_proj,v_proj --lora-targets=a,b,c");
  EXPECT_EQ(Words("--load_in_4bit --use_cpu True"), "--base-dtype=nf4 --device=cpu");
  EXPECT_EQ(Words("--bf16 --fp16 False --max_steps -1 --betas 0.9 0.95"),
            "--bf16 true --fp16 false --max_steps -1 --betas=0.9,0.95");
  EXPECT_EQ(Words("--use-rslora True --resume --no_use_rslora"),
            "--use-rslora=True --resume --use-rslora=false");
  EXPECT_EQ(Words("--weight_decay 0.1"), "--weight_decay 0.1");
  EXPECT_EQ(Words("--weight_decay=0.1"), "--weight_decay 0.1");
  EXPECT_EQ(Words("--weight-decay 0.1"), "--weight-decay=0.1");
  EXPECT_EQ(Words("--lr-scheduler-type cosine --lr_scheduler_kwargs {}"),
            "--lr_scheduler_type cosine --schedule-args={}");
  EXPECT_EQ(Words("--ignore_mismatched_sizes --no_ignore_mismatched_sizes"),
            "--ignore-mismatched-sizes --ignore-mismatched-sizes=false");
  EXPECT_EQ(Words("--no_packing --report_to tensorboard wandb"),
            "--packing false --report_to tensorboard,wandb");
}

TEST(OtherFlags, WhatChangesNothingIsNamedWithItsValues) {
  const TranslatedWords found = Train(
      "--do_train --logging_first_step True --cache_dir c --tf32 false --lr 1 --use_dora "
      "False --hub_token secret --do_predict --include_for_metrics a b --loss_type nll "
      "--no_remove_unused_columns --attn-implementation=sdpa --load_in_8bit False");
  EXPECT_THAT(found.words, ElementsAre("--lr=1"));
  EXPECT_THAT(
      found.without_effect,
      ElementsAre("--do_train", "--logging_first_step True", "--cache_dir c", "--tf32 false",
                  "--use_dora False", "--hub_token",
                  "--do_predict (spillway predict answers a file)", "--include_for_metrics a b",
                  "--loss_type nll", "--no_remove_unused_columns", "--attn-implementation sdpa",
                  "--load_in_8bit False"));
  EXPECT_TRUE(found.refused.empty());
}

TEST(OtherFlags, WhatChangesTheResultIsRefusedWithAdvice) {
  const TranslatedWords found = Train(
      "m/g2 --dpo --batch-size 4 --lrn 1 --dataset_name a/b --no_save_safetensors --gpus 2 x.txt");
  EXPECT_TRUE(found.words.empty());
  ASSERT_EQ(found.refused.size(), 7u) << absl::StrJoin(found.refused, "\n");
  EXPECT_THAT(found.refused[0], HasSubstr("--dpo: preference"));
  EXPECT_THAT(found.refused[1], HasSubstr("--batch-size 4: use --micro-batch N"));
  EXPECT_THAT(found.refused[2], HasSubstr("unknown argument --lrn; did you mean --lr?"));
  EXPECT_THAT(found.refused[3], HasSubstr("--dataset_name a/b: data comes from files"));
  EXPECT_THAT(found.refused[4], HasSubstr("--no_save_safetensors: models are"));
  EXPECT_THAT(found.refused[5], HasSubstr("--gpus 2: use --ranks N"));
  EXPECT_THAT(found.refused[6], HasSubstr("unknown argument m/g2, x.txt"));
  EXPECT_THAT(Train("--optim --lr 1").refused, ElementsAre("--optim needs a value"));
  EXPECT_THAT(Train("--lr").refused, ElementsAre("--lr needs a value"));
}

// What people mistype, and what is suggested: "" where nothing is near.
TEST(OtherFlags, SuggestWhatIsNear) {
  const std::pair<const char*, const char*> typos[] = {
      {"--modle", "--model"},
      {"--ouput", "--output"},
      {"--sed", "--seed"},
      {"--setps", "--steps"},
      {"--epoch", "--epochs"},
      {"--leraning_rate", "--learning_rate"},
      {"--micro-bacth", "--micro-batch"},
      {"--accumulte", "--accumulate"},
      {"--seqlen", "--seq-len"},
      {"--device-memmory", "--device-memory"},
      {"--host_memroy", "--host-memory"},
      {"--swp", "--swap"},
      {"--ofload", "--offload"},
      {"--lora_alhpa", "--lora-alpha"},
      {"--wieght_decay", "--weight_decay"},
      {"--wieght-decay", "--weight-decay"},
      {"--commit_evry", "--commit-every"},
      {"--resum", "--resume"},
      {"--eval_dta", "--eval-data"},
      {"--optimzer", "--optimizer"},
      {"--shcedule", "--schedule"},
      {"--warm-up", "--warmup"},
      {"--tokenzer", "--tokenizer"},
      {"--persit", "--persist"},
      {"--do_trian", "--do_train"},
      {"--num_trian_epochs", "--num_train_epochs"},
      {"--data_path", "--data"},
      {"--batch", "--micro-batch"},
      {"--number_of_epochs", "--epochs"},
      {"--verbosity", ""},
      {"--dataset_text", ""},
      {"--learn_fast", ""},
      {"--magic", ""},
      {"--xyz", ""},
  };
  for (const auto& [typed, meant] : typos) {
    const TranslatedWords found = Train(typed);
    ASSERT_EQ(found.refused.size(), 1u) << typed;
    const std::string expected = *meant == '\0'
                                     ? std::string(" (spillway train --help-all lists the flags)")
                                     : absl::StrCat("; did you mean ", meant, "?");
    EXPECT_EQ(found.refused[0], absl::StrCat("unknown argument ", typed, expected));
  }
}

}  // namespace
}  // namespace spillway
