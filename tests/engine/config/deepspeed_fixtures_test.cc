// Configuration files of the kinds found in the wild (tests/golden/deepspeed): what becomes
// of each, and that it is what DeepSpeed itself reads (tests/golden/make_deepspeed.py).
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "engine/config/deepspeed_keys.h"
#include "engine/config/run_config.h"
#include "io/file.h"
#include "tests/engine/format_testing.h"

namespace spillway {
namespace {

using nlohmann::json;

const std::string kGolden = absl::StrCat(SPILLWAY_SOURCE_DIR, "/tests/golden/deepspeed/");

std::string Text(const std::string& path) {
  auto text = ReadSmallFile(path);
  EXPECT_TRUE(text.ok()) << text.status();
  return text.value_or("");
}

// As train is called with it; "auto" is filled in from the flags that make_deepspeed.py
// gives to transformers' integration.
absl::StatusOr<RunConfig> Resolve(const std::string& name) {
  TrainFlags flags;
  flags.model = "m";
  flags.output = "o";
  flags.data = {"d.txt"};
  flags.config = kGolden + "fixtures/" + name;
  if (absl::StrContains(Text(*flags.config), "\"auto\"")) {
    flags.micro_batch = "4";
    flags.accumulate = "2";
    flags.clip = "0.5";
    flags.lr = "2e-4";
    flags.adam_beta1 = "0.8";
    flags.adam_beta2 = "0.95";
    flags.eps = "1e-7";
    flags.weight_decay = "0.05";
    flags.bf16 = "";
    flags.warmup = "20";
    flags.steps = "100";
  }
  return ResolveRunConfig(flags);
}

// What a user is told: the error, or the notes and every value that is not a default.
std::string Outcome(const absl::StatusOr<RunConfig>& config) {
  std::string text;
  if (config.ok()) {
    for (const std::string& note : config->notes) absl::StrAppend(&text, note, "\n");
    for (const ResolvedValue& value : config->values) {
      if (value.source == "default" || value.name == "config") continue;
      absl::StrAppend(&text, value.name, " = ", value.value.dump(), "  [", value.source, "]\n");
    }
  } else {
    text = absl::StrCat("error: ", config.status().message(), "\n");
  }
  return absl::StrReplaceAll(text, {{kGolden + "fixtures/", ""}});
}

std::vector<std::string> Fixtures() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kGolden + "fixtures")) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

class DeepSpeedFixture : public testing::TestWithParam<std::string> {};

// With SPILLWAY_WRITE_GOLDEN set, writes what it got: read the difference before keeping it.
TEST_P(DeepSpeedFixture, ResolvesAsWritten) {
  const std::string path =
      absl::StrCat(kGolden, "resolved/", absl::StrReplaceAll(GetParam(), {{".json", ".txt"}}));
  const std::string outcome = Outcome(Resolve(GetParam()));
  if (std::getenv("SPILLWAY_WRITE_GOLDEN") != nullptr) {
    WriteFile(path, outcome);
    GTEST_SKIP() << "written anew, and not compared";
  }
  EXPECT_EQ(outcome, Text(path));
}

// Where Spillway does otherwise than DeepSpeed, on purpose.
const std::map<std::string, bool> kAcceptedHereOnly = {
    {"all_reduce_bucket_size.json", true},  // a name of old versions
    {"zero3_nvme_aio_nested.json", true},   // as Hugging Face's documents once had it
};

void ExpectSame(const json& read, const TrainOptions& train) {
  EXPECT_EQ(read["train_batch_size"], train.micro_batch * train.accumulate);
  EXPECT_EQ(read["micro_batch"], train.micro_batch);
  EXPECT_EQ(read["accumulate"], train.accumulate);
  EXPECT_EQ(read["gradient_clipping"], train.clip);
  EXPECT_EQ(read["bf16"], train.dtype == DType::kBFloat16);
  EXPECT_EQ(read["fp16"], train.dtype == DType::kFloat16);
  if (train.dtype == DType::kFloat16) {
    EXPECT_EQ(read["loss_scale"], train.loss_scale.static_scale);
    EXPECT_EQ(read["initial_scale_power"], train.loss_scale.initial_scale_power);
    EXPECT_EQ(read["loss_scale_window"], train.loss_scale.window);
    EXPECT_EQ(read["hysteresis"], train.loss_scale.hysteresis);
    EXPECT_EQ(read["consecutive_hysteresis"], train.loss_scale.consecutive_hysteresis);
    EXPECT_EQ(read["min_loss_scale"], train.loss_scale.min_scale);
  }
  const OptimizerSpec& optimizer = train.optimizer;
  const std::map<std::string, json> params = {
      {"lr", optimizer.learning_rate},  {"betas", {optimizer.beta1, optimizer.beta2}},
      {"eps", optimizer.eps},           {"weight_decay", optimizer.weight_decay},
      {"momentum", optimizer.momentum}, {"dampening", optimizer.dampening},
      {"nesterov", optimizer.nesterov},
  };
  for (const auto& [name, value] : params) {
    if (!read["optimizer_params"].contains(name)) continue;
    EXPECT_EQ(read["optimizer_params"][name], value) << name;
  }
  const ScheduleSpec& schedule = train.schedule;
  if (!read["scheduler"].is_null()) {
    EXPECT_EQ(read["scheduler"], std::string(ScheduleName(schedule.kind)));
  }
  const std::map<std::string, json> schedule_params = {
      {"warmup_num_steps", schedule.warmup_steps},
      {"warmup_min_lr", schedule.warmup_min_lr},
      {"warmup_max_lr", schedule.warmup_max_lr.value_or(-1)},
      {"warmup_min_ratio", schedule.warmup_min_ratio},
      {"cos_min_ratio", schedule.cos_min_ratio},
      {"cycle_first_step_size", schedule.one_cycle.first_steps},
      {"cycle_min_lr", schedule.one_cycle.min_lr},
      {"cycle_max_lr", schedule.one_cycle.max_lr},
      // Absent: the run's own steps, which "auto" means.
      {"total_num_steps", schedule.total_num_steps.value_or(train.steps)},
  };
  for (const auto& [name, value] : schedule_params) {
    if (!read["scheduler_params"].contains(name)) continue;
    EXPECT_EQ(read["scheduler_params"][name], value) << name;
  }
  const std::map<std::string, Offload> devices = {
      {"none", Offload::kAuto}, {"cpu", Offload::kCpu}, {"nvme", Offload::kNvme}};
  EXPECT_EQ(devices.at(read["offload_param"]["device"]), train.offload_param);
  EXPECT_EQ(devices.at(read["offload_optimizer"]["device"]), train.offload_optimizer);
}

TEST_P(DeepSpeedFixture, MeansWhatDeepSpeedReads) {
  const json all = json::parse(Text(kGolden + "read.json"));
  ASSERT_TRUE(all.contains(GetParam())) << "run tests/golden/make_deepspeed.py";
  const json& read = all[GetParam()];
  const auto config = Resolve(GetParam());
  const auto otherwise = kAcceptedHereOnly.find(GetParam());
  if (otherwise != kAcceptedHereOnly.end()) {
    EXPECT_EQ(config.ok(), otherwise->second);
    EXPECT_EQ(read.contains("refused"), otherwise->second) << "no longer an exception";
    return;
  }
  EXPECT_EQ(config.ok(), !read.contains("refused")) << config.status();
  if (config.ok() && !read.contains("refused")) ExpectSame(read, config->train);
}

INSTANTIATE_TEST_SUITE_P(, DeepSpeedFixture, testing::ValuesIn(Fixtures()), [](const auto& info) {
  return absl::StrReplaceAll(info.param, {{".json", ""}, {".", "_"}});
});

// keys.json has what DeepSpeed's classes declare and its code looks up.
TEST(DeepSpeedKeys, EveryKeyOfDeepSpeedIsInTheTable) {
  std::map<std::string, KeyTreatment> table;
  for (const KeyRule& rule : DeepSpeedKeyRules()) table[DottedKey(rule.pointer)] = rule.treatment;
  const json keys = json::parse(Text(kGolden + "keys.json"));
  EXPECT_GT(keys.size(), 300u);
  for (const std::string key : keys) {
    bool known = table.count(key) > 0;
    // A feature that is refused as a whole stands for what is in it.
    for (size_t dot = key.find('.'); dot != std::string::npos; dot = key.find('.', dot + 1)) {
      const auto block = table.find(key.substr(0, dot));
      known = known || (block != table.end() && (block->second == KeyTreatment::kUnlessEnabled ||
                                                 block->second == KeyTreatment::kRefused));
    }
    EXPECT_TRUE(known) << key;
  }
}

}  // namespace
}  // namespace spillway
