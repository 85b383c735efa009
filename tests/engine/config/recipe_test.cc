#include "engine/config/recipe.h"

#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "engine/config/other_flags.h"
#include "engine/config/run_config.h"
#include "engine/config/train_flag_table.h"
#include "tests/engine/format_testing.h"

namespace spillway {
namespace {

using testing::HasSubstr;

class RecipeTest : public testing::Test {
 protected:
  RecipeTest() { std::filesystem::current_path(scratch_ / "."); }
  ~RecipeTest() override { std::filesystem::current_path(before_); }

  void Write(const std::string& text, const std::string& name = "run.yaml") {
    WriteFile(name, text);
    flags_.config = name;
  }
  // The flags after the recipe was read.
  TrainFlags Taken() {
    TrainFlags flags = flags_;
    const absl::Status status = TakeConfigFile(&flags);
    EXPECT_TRUE(status.ok()) << status;
    return flags;
  }
  std::string Refusal(const std::string& text) {
    Write(text);
    TrainFlags flags = flags_;
    return std::string(TakeConfigFile(&flags).message());
  }
  nlohmann::json Resolved() {
    const auto config = ResolveRunConfig(flags_);
    EXPECT_TRUE(config.ok()) << config.status();
    return config.ok() ? ResolvedConfigJson(*config) : nlohmann::json();
  }

  const std::filesystem::path before_ = std::filesystem::current_path();
  ScratchDirectory scratch_;
  TrainFlags flags_;
};

constexpr char kUsual[] = "model: m\noutput: o\ndata: [d.txt, e.txt]\n";

TEST_F(RecipeTest, KeysAreNamesOfFlagsWithDashesOrUnderscores) {
  Write(absl::StrCat("# a run\n", kUsual, R"(
micro-batch: 4
host_memory: 3GiB
learning_rate: 2e-5
betas:
  - 0.8
  - '0.95'
warmup: 0.1
schedule: cosine_with_min_lr
schedule_args: {min_lr_rate: 0.1, num_cycles: "0.5"}
source-prefix: "summarize: "
tokenizer: ~
resume: no
no_export: yes
use-rslora: true
lora_target_modules: [q, v]
bf16: True
)"));
  const TrainFlags flags = Taken();
  EXPECT_EQ(flags.model, "m");
  EXPECT_EQ(flags.data, (std::vector<std::string>{"d.txt", "e.txt"}));
  EXPECT_EQ(flags.micro_batch, "4");
  EXPECT_EQ(flags.host_memory, "3GiB");
  EXPECT_EQ(flags.lr, "2e-5");
  EXPECT_EQ(flags.betas, "0.8,0.95");
  EXPECT_EQ(flags.warmup, "0.1");
  EXPECT_EQ(nlohmann::json::parse(*flags.schedule_args),
            (nlohmann::json{{"min_lr_rate", 0.1}, {"num_cycles", "0.5"}}));
  EXPECT_EQ(flags.source_prefix, "summarize: ");
  EXPECT_EQ(flags.tokenizer, std::nullopt);
  EXPECT_FALSE(flags.resume);
  EXPECT_TRUE(flags.no_export);
  EXPECT_EQ(flags.use_rslora, "true");
  EXPECT_EQ(flags.lora_targets, "q,v");
  EXPECT_EQ(flags.bf16, "true");
  EXPECT_EQ(flags.config, std::nullopt);
  EXPECT_EQ(flags.recipe, "run.yaml");
}

// Every flag: from a recipe as from the command line.
TEST_F(RecipeTest, TakesEveryFlagOfTrain) {
  for (const TrainFlagGroup& group : TrainFlagGroups()) {
    for (const TrainFlag& flag : group.flags) {
      const std::string name = flag.name;
      if (name == "--config" || name == "--hostfile" || name == "--launch") continue;
      // --weight_decay is the Trainer's.
      Write(absl::StrCat(name.substr(2), ": true\n"));
      const nlohmann::json given = GivenFlags(Taken());
      ASSERT_TRUE(given.contains(name)) << name;
      EXPECT_EQ(given.size(), 1u) << given;
    }
  }
}

TEST_F(RecipeTest, FlagsWinAndBothAreShown) {
  Write(absl::StrCat(kUsual, "lr: 0.1\nclip: 0.5\nschedule: cosine\nsteps: 7\npacking: true\n"));
  flags_.lr = "0.2";
  flags_.lr_scheduler_type = "linear";
  flags_.epochs = "2";
  flags_.samples = "windows";
  const nlohmann::json resolved = Resolved();
  EXPECT_EQ(resolved["lr"], nlohmann::json::parse(R"({"value": 0.2, "source": "--lr",
                                      "overrides": {"value": "0.1", "source": "run.yaml:4"}})"));
  EXPECT_EQ(resolved["clip"]["source"], "run.yaml:5");
  EXPECT_EQ(resolved["clip"]["value"], 0.5);
  EXPECT_EQ(resolved["schedule"]["value"], "linear");
  EXPECT_EQ(resolved["steps"]["value"], 0);
  EXPECT_EQ(resolved["samples"]["value"], "windows");
  EXPECT_EQ(resolved["data"]["source"], "run.yaml:3");
  EXPECT_EQ(resolved["recipe"]["value"], "run.yaml");
  EXPECT_FALSE(resolved.contains("config"));
  // A part of what --bf16 comes to.
  flags_ = {};
  Write(absl::StrCat(kUsual, "fp16: true\nadam_beta2: 0.95\n"));
  EXPECT_EQ(Resolved()["dtype"]["source"], "run.yaml:4");
  EXPECT_EQ(Resolved()["betas"]["source"], "run.yaml:5");
}

TEST_F(RecipeTest, NamesADeepSpeedFile) {
  WriteFile("ds.json", R"({"optimizer": {"type": "AdamW", "params": {"lr": 0.01}}})");
  for (const char* key : {"deepspeed", "config"}) {
    Write(absl::StrCat(kUsual, key, ": ds.json\nlr: 0.02\n"));
    const nlohmann::json resolved = Resolved();
    EXPECT_EQ(resolved["lr"]["value"], 0.02);
    EXPECT_EQ(resolved["lr"]["overrides"]["source"], "ds.json:1");
    EXPECT_EQ(resolved["config"]["source"], "run.yaml:4");
  }
  EXPECT_THAT(Refusal("deepspeed: other.yaml\n"),
              HasSubstr("run.yaml:1: other.yaml is a recipe, too"));
  EXPECT_THAT(Refusal("deepspeed:\n  stage: 3\n"), HasSubstr("run.yaml:1: deepspeed is a block"));
}

TEST_F(RecipeTest, EverythingWrongIsSaidWithItsLine) {
  const std::string said = Refusal(
      "modle: x\nlerning_rate: 1\nrl: dpo\nlr: [1, 2]\ndatasets:\n  - path: a.jsonl\n"
      "hostfile: hosts\nresume: perhaps\nqlora: true\n");
  for (const char* part :
       {"run.yaml:1: unknown key modle; did you mean model?",
        "run.yaml:2: unknown key lerning_rate; did you mean learning_rate?",
        "run.yaml:3: --rl dpo: preference", "run.yaml:4: --lr takes one value",
        "run.yaml:5: --datasets", "use --data FILE...", "run.yaml:7: hostfile starts ranks",
        "run.yaml:8: --resume 'perhaps' is not accepted",
        "run.yaml:9: --qlora true: use --lora-r 16"}) {
    EXPECT_THAT(said, HasSubstr(part));
  }
  EXPECT_THAT(Refusal("lr: 1\nlearning_rate: 2\n"),
              HasSubstr("run.yaml:2: learning_rate is --lr, which is said at run.yaml:1 already"));
  // Values are checked as those of flags, and have their places.
  Write(absl::StrCat(kUsual, "keep: 0\n"));
  EXPECT_THAT(std::string(ResolveRunConfig(flags_).status().message()),
              HasSubstr("run.yaml:4: --keep '0' is not accepted"));
  EXPECT_EQ(Refusal("adapter: lora\nlora_r: 8\n"), "");
  EXPECT_THAT(Refusal("adapter: lora\n"), HasSubstr("use --lora-r 16"));
}

TEST_F(RecipeTest, WhatIsNoYamlIsRefused) {
  const std::pair<std::string, const char*> bad[] = {
      {"a: 1\na: 2\n", "run.yaml:2: 'a' is there twice"},
      {"lr: 1\nx: {b: 1, b: 2}\n", "run.yaml:2: 'b' is there twice"},
      {"lr: &a 1\nclip: *a\n", "run.yaml:2: an alias"},
      {"lr: !!python/object 1\nclip: !x 2\n", "run.yaml:2: a tag"},
      {"lr: 1\n---\nlr: 2\n", "a second document"},
      {"- a\n- b\n", "a list"},
      {"just words\n", "lines of KEY: VALUE"},
      {"lr: 1\nclip: \xff\n", "run.yaml:2: this is not a text in UTF-8"},
      {std::string("lr: 1\nclip: \0\n", 14), "run.yaml:2: this is not"},
      {absl::StrCat("lr: ", std::string(40000, '[')), "run.yaml:1: "},
      {absl::StrCat("lr: ", std::string(40000, '{')), "run.yaml:1: "},
      {"data: \"a\\0b\"\n", "run.yaml:1: a character"},
      {"{1: 2}: 3\n", "a key is a word"},
      {absl::StrCat("lr: 1\n", std::string(1 << 20, '#')), "at most 256 KiB"},
  };
  for (const auto& [text, part] : bad) {
    EXPECT_THAT(Refusal(text), HasSubstr(part)) << text.substr(0, 40);
  }
  EXPECT_EQ(Refusal(""), "");
  EXPECT_EQ(Refusal("\xef\xbb\xbf# nothing\n"), "");
}

TEST_F(RecipeTest, AcceleratesIsSaidAsFlags) {
  const std::string said = Refusal(
      "compute_environment: LOCAL_MACHINE\nmixed_precision: bf16\nnum_processes: 2\n"
      "deepspeed_config:\n  zero_stage: 3\nmicro_batch_size: '2'\n");
  EXPECT_THAT(said, HasSubstr("run.yaml is a configuration of accelerate, which is not read"));
  EXPECT_THAT(said, HasSubstr("\n  as flags: --micro-batch=2"));
  EXPECT_THAT(said, HasSubstr("\n  to be said as flags by hand: deepspeed_config"));
  EXPECT_THAT(said, HasSubstr("--num_processes 2: use --ranks"));
}

TEST_F(RecipeTest, IsKnownByItsNameOrItsFirstLine) {
  EXPECT_TRUE(LooksLikeYaml("a.yml", ""));
  EXPECT_TRUE(LooksLikeYaml("a", "# axolotl\nbase_model: x\n"));
  EXPECT_TRUE(LooksLikeYaml("a", "---\nbase_model:\n  x\r\n"));
  EXPECT_FALSE(LooksLikeYaml("ds.json", "{\n \"stage\": 3}"));
  EXPECT_FALSE(LooksLikeYaml("ds.json", "eyJhIjogMX0="));
}

// An earlier run's config.resolved.json as --config: the same run.
class ResolvedAgainTest : public RecipeTest {
 protected:
  nlohmann::json WithoutSources(nlohmann::json resolved) {
    for (const char* once : {"recipe", "given", "resume", "overwrite", "allow-change"}) {
      resolved.erase(once);
    }
    for (auto& [name, entry] : resolved.items()) {
      const std::string source = entry["source"];
      entry["source"] = source.starts_with("default") || source == "derived";
      entry.erase("overrides");
    }
    return resolved;
  }
  void Again(const nlohmann::json& resolved) {
    flags_ = {};
    Write(resolved.dump(2), "config.resolved.json");
  }
};

TEST_F(ResolvedAgainTest, EveryFlagComesBack) {
  // Texts that the values in the file do not show, and one of each kind.
  flags_.model = "m";
  flags_.output = "o";
  flags_.data = {"a.txt", "b,c.txt"};
  flags_.eval_data = {"e.txt"};
  flags_.optimizer = "paged_adamw_8bit";
  flags_.lr_scheduler_type = "constant";
  flags_.trainer_weight_decay = "0.1";
  flags_.warmup_ratio = "0.25";
  flags_.shard = "FULL_SHARD";
  flags_.seed = "18446744073709551615";
  flags_.betas = "0.9,0.95";
  flags_.swap = "p,q";
  flags_.device_memory = "3GiB";
  flags_.commit_every = "15m";
  flags_.eval_every = "0.5";
  flags_.compute = "fp8";
  flags_.collective_timeout = "90s";
  flags_.schedule_args = "{}";
  flags_.no_export = true;
  flags_.use_rslora = "";
  flags_.lora_r = "4";
  flags_.lora_targets = "q,v";
  flags_.resume = true;
  flags_.allow_change = "lr";
  const nlohmann::json first = Resolved();
  Again(first);
  const TrainFlags taken = Taken();
  EXPECT_EQ(taken.data, (std::vector<std::string>{"a.txt", "b,c.txt"}));
  EXPECT_FALSE(taken.resume);
  EXPECT_EQ(taken.allow_change, std::nullopt);
  const nlohmann::json second = Resolved();
  EXPECT_EQ(WithoutSources(second), WithoutSources(first));
  EXPECT_EQ(second["lr"]["source"], "default");
  EXPECT_THAT(second["betas"]["source"].get<std::string>(),
              testing::MatchesRegex("config.resolved.json:[0-9]+"));
  Again(second);
  EXPECT_EQ(WithoutSources(Resolved()), WithoutSources(first));
}

// Each flag by itself; those that need others are refused before and after alike.
TEST_F(ResolvedAgainTest, FlagsAreReadAsTheyAreWritten) {
  TrainFlags all;
  for (const TrainFlagGroup& group : TrainFlagGroups()) {
    for (const TrainFlag& flag : group.flags) {
      const std::string name = flag.name;
      if (name == "--config" || name == "--hostfile" || name == "--launch") continue;
      if (const auto* text = std::get_if<TrainFlags::Text TrainFlags::*>(&flag.field)) {
        all.*(*text) = absl::StrCat(name, " 'x, y'");
      } else if (const auto* texts =
                     std::get_if<std::vector<std::string> TrainFlags::*>(&flag.field)) {
        all.*(*texts) = {name, "x, y"};
      } else {
        all.*std::get<bool TrainFlags::*>(flag.field) = true;
      }
    }
  }
  for (const OtherFlag& flag : OtherTrainFlags()) {
    if (flag.field != nullptr) all.*flag.field = flag.name;
  }
  nlohmann::json given = GivenFlags(all);
  nlohmann::json file = {{"given", {{"value", given}, {"source", "flags"}}}};
  Write(file.dump(), "config.resolved.json");
  for (const char* anew : {"--resume", "--overwrite", "--allow-change", "--resume_from_checkpoint",
                           "--overwrite_output_dir"}) {
    ASSERT_EQ(given.erase(anew), 1u) << anew;
  }
  EXPECT_EQ(GivenFlags(Taken()), given);
}

TEST_F(ResolvedAgainTest, FlagsWinOverIt) {
  flags_.model = "m";
  flags_.output = "o";
  flags_.data = {"d.txt"};
  flags_.lr = "0.1";
  Again(Resolved());
  flags_.output = "p";
  flags_.lr = "0.2";
  const nlohmann::json resolved = Resolved();
  EXPECT_EQ(resolved["output"]["value"], "p");
  EXPECT_EQ(resolved["lr"]["value"], 0.2);
  EXPECT_EQ(resolved["lr"]["overrides"]["value"], "0.1");
}

TEST_F(ResolvedAgainTest, AChangedFileIsNoticed) {
  WriteFile("ds.json", R"({"gradient_clipping": 0.5})");
  flags_.model = "m";
  flags_.output = "o";
  flags_.data = {"d.txt"};
  flags_.keep = "3";
  flags_.config = "ds.json";
  const nlohmann::json first = Resolved();
  Again(first);
  EXPECT_EQ(Resolved()["clip"], first["clip"]);
  nlohmann::json edited = first;
  edited["keep"]["value"] = 4;
  Again(edited);
  EXPECT_THAT(std::string(ResolveRunConfig(flags_).status().message()),
              HasSubstr("keep was 4, and is now 3"));
  flags_.keep = "4";
  EXPECT_EQ(Resolved()["keep"]["value"], 4);
  Again(first);
  WriteFile("ds.json", R"({"gradient_clipping": 0.25})");
  EXPECT_THAT(std::string(ResolveRunConfig(flags_).status().message()),
              HasSubstr("clip was 0.5, and is now 0.25 (ds.json:1)"));
}

TEST_F(ResolvedAgainTest, OddValuesAreRefused) {
  for (const char* text :
       {R"({"config": {"value": 3, "source": []}, "given": {"value": [1], "source": 2}})",
        R"({"given": {"value": {"--nosuch": "1"}, "source": "flags"}})",
        R"({"given": {"value": {"--lr": ["1", "2"]}, "source": "flags"}})"}) {
    Write(text, "config.resolved.json");
    TrainFlags flags = flags_;
    ExpectError(TakeConfigFile(&flags), absl::StatusCode::kInvalidArgument,
                {"config.resolved.json:1: "});
  }
}

// Files of before flags were noted in them.
TEST_F(ResolvedAgainTest, AnOlderFileIsReadByItsValues) {
  WriteFile("ds.json", R"({"gradient_clipping": 0.5})");
  flags_.model = "m";
  flags_.output = "o";
  flags_.data = {"d.txt", "e.txt"};
  flags_.lr = "3e-4";
  flags_.betas = "0.8,0.9";
  flags_.steps = "12";
  flags_.config = "ds.json";
  flags_.host_memory = "2GiB";
  flags_.no_commit = true;
  nlohmann::json first = Resolved();
  first.erase("given");
  first["threads"] = {{"value", 2}, {"source", "derived"}};
  Again(first);
  nlohmann::json second = Resolved();
  EXPECT_EQ(second["threads"]["value"], 0);
  first.erase("threads");
  second.erase("threads");
  EXPECT_EQ(WithoutSources(second), WithoutSources(first));
}

}  // namespace
}  // namespace spillway
