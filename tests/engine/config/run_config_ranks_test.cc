// Several ranks as flags, file and launcher say: how many, what each keeps, which batch.
#include "engine/config/run_config.h"
#include "tests/engine/format_testing.h"

namespace spillway {
namespace {

using testing::ElementsAre;

class RunConfigRanksTest : public testing::Test {
 protected:
  RunConfigRanksTest() {
    flags_.model = "m";
    flags_.output = "o";
    flags_.data = {"d.txt"};
  }
  void Config(const std::string& json) {
    WriteFile(scratch_ / "ds.json", json);
    flags_.config = scratch_ / "ds.json";
  }
  // `ranks` ranks on machines of `local`, this being the one before the last.
  void Launched(int ranks, int local) {
    launch_.world = ranks;
    launch_.rank = ranks - 2;
    launch_.local_world = local;
    launch_.local_rank = (ranks - 2) % local;
    launch_.launcher = "srun";
    launch_.world_variable = "SLURM_STEP_NUM_TASKS";
  }
  RunConfig Resolve() {
    const auto config = ResolveRunConfig(flags_, launch_);
    EXPECT_TRUE(config.ok()) << config.status();
    return config.value_or(RunConfig());
  }
  nlohmann::json Shown(const std::string& name) { return ResolvedConfigJson(Resolve())[name]; }
  void ExpectInvalid(const std::vector<std::string>& parts) {
    ExpectError(ResolveRunConfig(flags_, launch_).status(), absl::StatusCode::kInvalidArgument,
                parts);
  }

  ScratchDirectory scratch_;
  TrainFlags flags_;
  Launch launch_;
};

TEST_F(RunConfigRanksTest, OneRankByDefault) {
  const TrainOptions train = Resolve().train;
  EXPECT_EQ(train.rank, 0);
  EXPECT_EQ(train.ranks, 1);
  EXPECT_EQ(train.shard, Shard::kFull);
  EXPECT_EQ(train.shard_group_size, 1);
  EXPECT_EQ(train.collective_timeout_seconds, 600);
  EXPECT_EQ(train.communication_format, ExchangeFormat::kFloat32);
}

TEST_F(RunConfigRanksTest, TheLauncherSaysHowManyElseTheFlag) {
  Launched(6, 2);
  EXPECT_EQ(Resolve().train.rank, 4);
  EXPECT_EQ(Resolve().train.ranks, 6);
  EXPECT_EQ(Resolve().train.shard_group_size, 6);
  EXPECT_EQ(Shown("ranks"),
            (nlohmann::json{{"value", 6}, {"source", "srun (SLURM_STEP_NUM_TASKS)"}}));
  launch_ = {};
  flags_.ranks = "64";  // of estimate: ranks to reckon with
  EXPECT_EQ(Resolve().train.ranks, 64);
  EXPECT_EQ(Shown("ranks"), (nlohmann::json{{"value", 64}, {"source", "--ranks"}}));
  for (const char* wrong : {"0", "-1", "two", "9999999"}) {
    flags_.ranks = wrong;
    ExpectInvalid({"--ranks", wrong});
  }
}

TEST_F(RunConfigRanksTest, ShardTakesZerosAndFsdpsNames) {
  const std::pair<const char*, Shard> names[] = {{"none", Shard::kNone},
                                                 {"optimizer", Shard::kOptimizer},
                                                 {"gradients", Shard::kGradients},
                                                 {"full", Shard::kFull},
                                                 {"hybrid", Shard::kHybrid},
                                                 {"NO_SHARD", Shard::kNone},
                                                 {"no_shard", Shard::kNone},
                                                 {"SHARD_GRAD_OP", Shard::kGradients},
                                                 {"Full_Shard", Shard::kFull},
                                                 {"HYBRID_SHARD", Shard::kHybrid},
                                                 {"FULL", Shard::kFull}};
  Launched(4, 2);
  for (const auto& [name, shard] : names) {
    flags_.shard = name;
    EXPECT_EQ(Resolve().train.shard, shard) << name;
    EXPECT_EQ(Resolve().train.shard_group_size, shard == Shard::kNone     ? 1
                                                : shard == Shard::kHybrid ? 2
                                                                          : 4)
        << name;
  }
  flags_.shard = "NO_SHARD";
  EXPECT_EQ(Shown("shard")["value"], "none");
  flags_.shard = "zero3";
  ExpectInvalid({"--shard 'zero3'", "optimizer", "HYBRID_SHARD"});
}

TEST_F(RunConfigRanksTest, StagesOfTheFile) {
  const Shard stages[] = {Shard::kNone, Shard::kOptimizer, Shard::kGradients, Shard::kFull};
  for (int stage = 0; stage < 4; ++stage) {
    Config(absl::StrCat("{\"zero_optimization\": {\"stage\": ", stage, "}}"));
    EXPECT_EQ(Resolve().train.shard, stages[stage]) << stage;
  }
  Config("{\n\"zero_optimization\": {\"stage\": 2}}");
  flags_.shard = "full";
  EXPECT_EQ(Resolve().train.shard, Shard::kFull);
  EXPECT_EQ(Shown("shard")["overrides"],
            (nlohmann::json{{"value", "gradients"}, {"source", *flags_.config + ":2"}}));
}

TEST_F(RunConfigRanksTest, HybridGroupsDivideTheRanks) {
  Launched(8, 4);
  flags_.shard = "hybrid";
  EXPECT_EQ(Resolve().train.shard_group_size, 4) << "the ranks of a machine";
  flags_.shard_group_size = "2";
  EXPECT_EQ(Resolve().train.shard_group_size, 2);
  flags_.shard_group_size = "3";
  ExpectInvalid({"groups of 3 (--shard-group-size)", "8 ranks", "one of 1, 2, 4, 8"});
  flags_.shard_group_size = "16";
  ExpectInvalid({"groups of 16", "8 ranks"});
  flags_.shard_group_size = "0";
  ExpectInvalid({"--shard-group-size '0'"});
  flags_.shard_group_size.reset();
  launch_.local_world = 5;
  ExpectInvalid({"groups of 5 (the ranks of this machine)"});
  flags_.shard = "full";
  flags_.shard_group_size = "2";
  ExpectInvalid({"--shard-group-size 2", "--shard hybrid only"});
  // Of ranks that nobody has started, the machines are not known.
  launch_ = {};
  flags_.ranks = "8";
  flags_.shard = "hybrid";
  EXPECT_EQ(Resolve().train.shard_group_size, 2);
  flags_.shard_group_size.reset();
  ExpectInvalid({"--shard hybrid needs --shard-group-size"});
}

TEST_F(RunConfigRanksTest, TimeoutsAreSecondsOrHaveAUnit) {
  const std::pair<const char*, double> times[] = {{"30", 30},   {"90s", 90}, {"5m", 300},
                                                  {"2h", 7200}, {"0.5", .5}, {"1.5m", 90}};
  for (const auto& [text, seconds] : times) {
    flags_.collective_timeout = text;
    EXPECT_EQ(Resolve().train.collective_timeout_seconds, seconds) << text;
  }
  for (const char* text :
       {"", "0", "-1", "m", "5 m", "5d", "5ms", "1e3", "inf", "9999h", "1.2.3"}) {
    flags_.collective_timeout = text;
    ExpectInvalid({"--collective-timeout", "90s, 5m or 2h"});
  }
}

TEST_F(RunConfigRanksTest, GradientsAreExchangedInFp32Bf16OrFp8) {
  for (const char* name : {"bf16", "bfp16", "BF16"}) {
    Config(absl::StrCat("{\"communication_data_type\": \"", name, "\"}"));
    EXPECT_EQ(Resolve().train.communication_format, ExchangeFormat::kBFloat16) << name;
  }
  flags_.communication_dtype = "fp32";
  EXPECT_EQ(Resolve().train.communication_format, ExchangeFormat::kFloat32);
  flags_.communication_dtype = "fp8";
  EXPECT_EQ(Resolve().train.communication_format, ExchangeFormat::kFloat8);
  flags_.communication_dtype = "fp16";
  ExpectInvalid({"--communication-dtype 'fp16'", "fp32, bf16, fp8"});
}

TEST_F(RunConfigRanksTest, BatchesAreDerivedWithTheRanks) {
  Launched(4, 4);
  const struct {
    const char* json;
    int64_t micro, accumulate;
  } cases[] = {
      {"{}", 1, 1},
      {"{\"train_batch_size\": 24}", 6, 1},
      {"{\"train_batch_size\": 24, \"train_micro_batch_size_per_gpu\": 2}", 2, 3},
      {"{\"train_batch_size\": 24, \"gradient_accumulation_steps\": 2}", 3, 2},
      {"{\"train_batch_size\": 24, \"train_micro_batch_size_per_gpu\": 3, "
       "\"gradient_accumulation_steps\": 2}",
       3, 2},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.json);
    Config(c.json);
    const TrainOptions train = Resolve().train;
    EXPECT_EQ(train.micro_batch, c.micro);
    EXPECT_EQ(train.accumulate, c.accumulate);
    EXPECT_EQ(Shown("train_batch_size")["value"], c.micro * c.accumulate * 4);
  }
}

TEST_F(RunConfigRanksTest, ContradictingBatchesShowTheProduct) {
  Launched(4, 4);
  Config(
      "{\"train_batch_size\": 8,\n\"train_micro_batch_size_per_gpu\": 2,\n"
      "\"gradient_accumulation_steps\": 3}");
  ExpectInvalid(
      {"ds.json:1", "train_batch_size 8", "micro-batch 2", "accumulation 3", "ranks 4", "= 24"});
  Config("{\"train_batch_size\": 6}");
  ExpectInvalid({"ds.json:1", "6 is not a multiple", "ranks 4"});
  Config("{\"train_batch_size\": 12, \"train_micro_batch_size_per_gpu\": 2}");
  ExpectInvalid({"12 is not a multiple of micro-batch 2", "x ranks 4"});
}

TEST_F(RunConfigRanksTest, RankInASwapPathIsTheNumberOnTheMachine) {
  flags_.swap = "/nvme{rank}/swap,/spare";
  EXPECT_THAT(Resolve().train.swap_paths, ElementsAre("/nvme0/swap", "/spare"));
  Launched(8, 4);  // rank 6
  EXPECT_THAT(Resolve().train.swap_paths, ElementsAre("/nvme2/swap", "/spare"));
  EXPECT_EQ(Shown("swap")["value"], (nlohmann::json{"/nvme{rank}/swap", "/spare"}))
      << "as it was given";
  flags_.swap = "/nvme{rank},/nvme2";
  ExpectInvalid({"--swap names /nvme2 twice"});
}

}  // namespace
}  // namespace spillway
