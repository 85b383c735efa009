// Every honoured key of a DeepSpeed file changes what the run is told, and nothing else.
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/config/deepspeed_keys.h"
#include "engine/config/run_config.h"
#include "tests/engine/format_testing.h"

namespace spillway {
namespace {

using nlohmann::json;
using Fields = std::map<std::string, std::string>;

Fields FieldsOf(const TrainOptions& train) {
  const auto text = [](auto value) { return absl::StrCat(value); };
  const OptimizerSpec& optimizer = train.optimizer;
  const ScheduleSpec& schedule = train.schedule;
  const ScheduleSpec::RangeTest& test = schedule.range_test;
  const ScheduleSpec::OneCycle& cycle = schedule.one_cycle;
  const LossScaleSpec& scale = train.loss_scale;
  return {
      {"micro_batch", text(train.micro_batch)},
      {"accumulate", text(train.accumulate)},
      {"dtype", std::string(DTypeName(train.dtype))},
      {"clip", text(train.clip)},
      {"tensorboard", train.tensorboard},
      {"optimizer", text(static_cast<int>(optimizer.kind))},
      {"lr", text(optimizer.learning_rate)},
      {"betas", absl::StrCat(optimizer.beta1, ",", optimizer.beta2)},
      {"eps", text(optimizer.eps)},
      {"weight_decay", text(optimizer.weight_decay)},
      {"momentum", text(optimizer.momentum)},
      {"dampening", text(optimizer.dampening)},
      {"nesterov", text(optimizer.nesterov)},
      {"bias_correction", text(optimizer.bias_correction)},
      {"least_trust_ratio", text(optimizer.least_trust_ratio)},
      {"most_trust_ratio", text(optimizer.most_trust_ratio)},
      {"last_step", text(optimizer.second_moments.last_step)},
      {"moves_per_doubling", text(optimizer.second_moments.moves_per_doubling)},
      {"moments", MomentFormatName(optimizer.moments)},
      {"masters", MastersName(optimizer.masters)},
      {"schedule", std::string(ScheduleName(schedule.kind))},
      {"warmup_steps", text(schedule.warmup_steps)},
      {"warmup_type", schedule.warmup_type == ScheduleSpec::WarmupType::kLog ? "log" : "linear"},
      {"warmup_min_lr", text(schedule.warmup_min_lr)},
      {"warmup_max_lr", text(schedule.warmup_max_lr.value_or(-1))},
      {"warmup_min_ratio", text(schedule.warmup_min_ratio)},
      {"cos_min_ratio", text(schedule.cos_min_ratio)},
      {"total_num_steps", text(schedule.total_num_steps.value_or(-1))},
      {"range_test",
       absl::StrCat(test.min_lr, ",", test.step_size, ",", test.step_rate, ",", test.staircase)},
      {"cycle_rates", absl::StrCat(cycle.min_lr, ",", cycle.max_lr)},
      {"cycle_steps", absl::StrCat(cycle.first_steps, ",", cycle.second_steps)},
      {"cycle_stairs", absl::StrCat(cycle.first_stairs, ",", cycle.second_stairs)},
      {"cycle_decay", absl::StrCat(cycle.decay_rate, ",", cycle.decay_steps)},
      {"cycle_betas", absl::StrCat(cycle.moves_betas, ",", cycle.min_beta1, ",", cycle.max_beta1)},
      {"static_scale", text(scale.static_scale)},
      {"initial_scale_power", text(scale.initial_scale_power)},
      {"scale_window", text(scale.window)},
      {"hysteresis", text(scale.hysteresis)},
      {"consecutive_hysteresis", text(scale.consecutive_hysteresis)},
      {"min_scale", text(scale.min_scale)},
      {"offload_param", text(static_cast<int>(train.offload_param))},
      {"offload_optimizer", text(static_cast<int>(train.offload_optimizer))},
      {"shard", text(static_cast<int>(train.shard))},
      {"communication_dtype", std::string(ExchangeFormatName(train.communication_format))},
      {"swap", absl::StrJoin(train.swap_paths, ",")},
      {"block_bytes", text(train.io.block_bytes)},
      {"depth", text(train.io.depth)},
      {"io_threads", text(train.io.threads)},
  };
}

Fields Resolved(const json& file, const std::optional<std::string>& optimizer = {}) {
  const ScratchDirectory scratch;
  WriteFile(scratch / "ds.json", file.dump(1));
  TrainFlags flags;
  flags.model = "m";
  flags.output = "o";
  flags.data = {"d.txt"};
  flags.config = scratch / "ds.json";
  flags.optimizer = optimizer;
  const auto config = ResolveRunConfig(flags);
  EXPECT_TRUE(config.ok()) << config.status() << file;
  for (const std::string& note : config.ok() ? config->notes : std::vector<std::string>()) {
    EXPECT_FALSE(optimizer && absl::StrContains(note, "stand still")) << note;
  }
  return config.ok() ? FieldsOf(config->train) : Fields();
}

struct Case {
  std::string key;
  const char* file;   // without the key
  const char* value;  // of the key
  Fields changes;     // the fields that the key changes, and to what
};

const char* const kAdamW = R"({"optimizer": {"type": "AdamW", "params": {"lr": 0.001}}})";
const char* const kSgd =
    R"({"optimizer": {"type": "SGD", "params": {"lr": 0.001, "momentum": 0.9}}})";
const char* const kLamb = R"({"optimizer": {"type": "Lamb", "params": {"lr": 0.001}}})";
const char* const kOneBit = R"({"optimizer": {"type": "OneBitAdam", "params": {"lr": 0.001}}})";
const char* const kZeroOne = R"({"optimizer": {"type": "ZeroOneAdam", "params": {"lr": 0.001}}})";
const char* const kWarmup = R"({"scheduler": {"type": "WarmupLR", "params": {}}})";
const char* const kDecay = R"({"scheduler": {"type": "WarmupDecayLR", "params": {}}})";
const char* const kCosine = R"({"scheduler": {"type": "WarmupCosineLR", "params": {}}})";
const char* const kRangeTest = R"({"scheduler": {"type": "LRRangeTest", "params": {}}})";
const char* const kOneCycle = R"({"scheduler": {"type": "OneCycle", "params":
    {"cycle_min_lr": 0.25, "cycle_max_lr": 0.5, "cycle_first_step_size": 9}}})";
const char* const kFp16 = R"({"fp16": {"enabled": true}})";
const char* const kParamNvme = R"({"zero_optimization": {"offload_param":
    {"device": "nvme", "nvme_path": "/a"}, "offload_optimizer": {"device": "cpu"}}})";
const char* const kOptimizerNvme = R"({"zero_optimization": {"offload_optimizer":
    {"device": "nvme", "nvme_path": "/a"}}})";

std::vector<Case> Cases() {
  const std::string cpu = absl::StrCat(static_cast<int>(Offload::kCpu));
  const std::string none = absl::StrCat(static_cast<int>(Offload::kNone));
  const std::string adam = absl::StrCat(static_cast<int>(OptimizerSpec::Kind::kAdam));
  const std::string sgd = absl::StrCat(static_cast<int>(OptimizerSpec::Kind::kSgd));
  const std::string gradients = absl::StrCat(static_cast<int>(Shard::kGradients));
  std::vector<Case> cases = {
      {"/train_batch_size", "{}", "8", {{"micro_batch", "8"}}},
      {"/train_micro_batch_size_per_gpu", "{}", "4", {{"micro_batch", "4"}}},
      {"/gradient_accumulation_steps", "{}", "2.0", {{"accumulate", "2"}}},
      {"/gradient_clipping", "{}", "0.5", {{"clip", "0.5"}}},
      {"/communication_data_type", "{}", "\"bf16\"", {{"communication_dtype", "bf16"}}},
      {"/zero_optimization/stage", "{}", "2", {{"shard", gradients}}},
      {"/tensorboard/enabled",
       R"({"tensorboard": {"output_path": "tb", "job_name": "j"}})",
       "true",
       {{"tensorboard", "tb/j"}}},
      {"/tensorboard/output_path",
       R"({"tensorboard": {"enabled": true}})",
       "\"logs/\"",
       {{"tensorboard", "logs/DeepSpeedJobName"}}},
      {"/tensorboard/job_name",
       R"({"tensorboard": {"enabled": "true", "output_path": "x"}})",
       "\"a b\"",
       {{"tensorboard", "x/a b"}}},

      {"/optimizer/type", kAdamW, "\"SGD\"", {{"optimizer", sgd}, {"weight_decay", "0"}}},
      {"/optimizer/params/lr", kAdamW, "0.25", {{"lr", "0.25"}}},
      {"/optimizer/params/betas", kAdamW, "[0.8, 0.95]", {{"betas", "0.8,0.95"}}},
      {"/optimizer/params/eps", kAdamW, "1e-6", {{"eps", "1e-06"}}},
      {"/optimizer/params/weight_decay", kAdamW, "0.1", {{"weight_decay", "0.1"}}},
      {"/optimizer/params/momentum", kSgd, "0.5", {{"momentum", "0.5"}}},
      {"/optimizer/params/dampening", kSgd, "0.1", {{"dampening", "0.1"}}},
      {"/optimizer/params/nesterov", kSgd, "\"True\"", {{"nesterov", "1"}}},
      {"/optimizer/params/bias_correction", kAdamW, "false", {{"bias_correction", "0"}}},
      {"/optimizer/params/min_coeff", kLamb, "0.5", {{"least_trust_ratio", "0.5"}}},
      {"/optimizer/params/max_coeff", kLamb, "0.5", {{"most_trust_ratio", "0.5"}}},
      {"/optimizer/params/freeze_step", kOneBit, "7", {{"last_step", "7"}}},
      {"/optimizer/params/var_freeze_step", kZeroOne, "7", {{"last_step", "8"}}},
      {"/optimizer/params/var_update_scaler", kZeroOne, "3", {{"moves_per_doubling", "3"}}},
      {"/optimizer/params/adam_w_mode",
       R"({"optimizer": {"type": "Adam", "params":
          {"weight_decay": 0.1}}})",
       "false",
       {{"optimizer", adam}}},

      {"/scheduler/type",
       kWarmup,
       "\"WarmupCosineLR\"",
       {{"schedule", "WarmupCosineLR"}, {"warmup_max_lr", "-1"}}},
      {"/scheduler/params/warmup_min_lr", kWarmup, "0.25", {{"warmup_min_lr", "0.25"}}},
      {"/scheduler/params/warmup_max_lr", kWarmup, "0.5", {{"warmup_max_lr", "0.5"}}},
      {"/scheduler/params/warmup_num_steps", kWarmup, "1e2", {{"warmup_steps", "100"}}},
      {"/scheduler/params/warmup_type", kWarmup, "\"linear\"", {{"warmup_type", "linear"}}},
      {"/scheduler/params/total_num_steps", kDecay, "5000", {{"total_num_steps", "5000"}}},
      {"/scheduler/params/warmup_min_ratio", kCosine, "0.1", {{"warmup_min_ratio", "0.1"}}},
      {"/scheduler/params/cos_min_ratio", kCosine, "0.2", {{"cos_min_ratio", "0.2"}}},
      {"/scheduler/params/lr_range_test_min_lr",
       kRangeTest,
       "0.25",
       {{"range_test", "0.25,2000,1,0"}}},
      {"/scheduler/params/lr_range_test_step_size",
       kRangeTest,
       "30",
       {{"range_test", "0.001,30,1,0"}}},
      {"/scheduler/params/lr_range_test_step_rate",
       kRangeTest,
       "2.5",
       {{"range_test", "0.001,2000,2.5,0"}}},
      {"/scheduler/params/lr_range_test_staircase",
       kRangeTest,
       "true",
       {{"range_test", "0.001,2000,1,1"}}},
      {"/scheduler/params/cycle_min_lr", kOneCycle, "0.125", {{"cycle_rates", "0.125,0.5"}}},
      {"/scheduler/params/cycle_max_lr", kOneCycle, "0.75", {{"cycle_rates", "0.25,0.75"}}},
      {"/scheduler/params/cycle_first_step_size", kOneCycle, "8", {{"cycle_steps", "8,8"}}},
      {"/scheduler/params/cycle_second_step_size", kOneCycle, "0", {{"cycle_steps", "9,0"}}},
      {"/scheduler/params/cycle_first_stair_count", kOneCycle, "4", {{"cycle_stairs", "4,4"}}},
      {"/scheduler/params/cycle_second_stair_count", kOneCycle, "3", {{"cycle_stairs", "0,3"}}},
      {"/scheduler/params/decay_lr_rate", kOneCycle, "0.5", {{"cycle_decay", "0.5,0"}}},
      {"/scheduler/params/decay_step_size", kOneCycle, "7", {{"cycle_decay", "0,7"}}},
      {"/scheduler/params/cycle_momentum", kOneCycle, "false", {{"cycle_betas", "0,0.8,0.9"}}},
      {"/scheduler/params/cycle_min_mom", kOneCycle, "0.5", {{"cycle_betas", "1,0.5,0.9"}}},
      {"/scheduler/params/cycle_max_mom", kOneCycle, "0.95", {{"cycle_betas", "1,0.8,0.95"}}},

      {"/bf16/enabled", "{}", "true", {{"dtype", "bf16"}}},
      {"/torch_autocast/enabled", "{}", "true", {{"dtype", "bf16"}}},
      {"/bf16/bf16_master_weights_and_grads",
       R"({"bf16":{"enabled":true}})",
       "true",
       {{"masters", "none"}}},
      {"/bf16/bf16_optimizer_states",
       R"({"bf16":{"enabled":true}})",
       "true",
       {{"moments", "bf16"}}},
      {"/bfloat16/enabled", "{}", "\"true\"", {{"dtype", "bf16"}}},
      {"/fp16/enabled", "{}", "true", {{"dtype", "fp16"}}},
      {"/fp16/loss_scale", kFp16, "128", {{"static_scale", "128"}}},
      {"/fp16/initial_scale_power", kFp16, "10", {{"initial_scale_power", "10"}}},
      {"/fp16/loss_scale_window", kFp16, "50", {{"scale_window", "50"}}},
      {"/fp16/hysteresis", kFp16, "3", {{"hysteresis", "3"}}},
      {"/fp16/consecutive_hysteresis", kFp16, "true", {{"consecutive_hysteresis", "1"}}},
      {"/fp16/min_loss_scale", kFp16, "4", {{"min_scale", "4"}}},

      {"/zero_optimization/offload_param/device",
       kParamNvme,
       "\"none\"",
       {{"offload_param", none}, {"swap", ""}}},
      {"/zero_optimization/offload_param/nvme_path", kParamNvme, "\"/b\"", {{"swap", "/b"}}},
      {"/zero_optimization/offload_optimizer/device",
       kOptimizerNvme,
       "\"cpu\"",
       {{"offload_optimizer", cpu}, {"swap", ""}}},
      {"/zero_optimization/offload_optimizer/nvme_path",
       kOptimizerNvme,
       "\"/b\"",
       {{"swap", "/b"}}},
      {"/zero_optimization/cpu_offload", "{}", "true", {{"offload_optimizer", cpu}}},
      {"/zero_optimization/cpu_offload_param", "{}", "true", {{"offload_param", cpu}}},
      {"/zero_optimization/cpu_offload_params", "{}", "true", {{"offload_param", cpu}}},
  };
  for (const char* block : {"/aio", "/zero_optimization/aio"}) {
    for (const auto& [name, value, field] : {std::tuple{"block_size", "262144", "block_bytes"},
                                             std::tuple{"queue_depth", "64", "depth"},
                                             std::tuple{"intra_op_parallelism", "3", "io_threads"},
                                             std::tuple{"thread_count", "3", "io_threads"}}) {
      cases.push_back({absl::StrCat(block, "/", name), "{}", value, {{field, value}}});
    }
  }
  return cases;
}

TEST(DeepSpeedHonouredKeys, EachChangesWhatItSaysAndNothingElse) {
  for (const Case& c : Cases()) {
    SCOPED_TRACE(c.key);
    const json without = json::parse(c.file);
    json with = without;
    with[json::json_pointer(c.key)] = json::parse(c.value);
    const Fields before = Resolved(without), after = Resolved(with);
    Fields changed;
    for (const auto& [field, value] : after) {
      if (before.at(field) != value) changed[field] = value;
    }
    EXPECT_EQ(changed, c.changes);
  }
}

// Without bias correction and decay, and with second moments that stand still, are those types
// alone.
TEST(DeepSpeedHonouredKeys, WhatATypeImpliesIsNotOfTheCommandsOptimizer) {
  for (const char* type : {"OneBitAdam", "ZeroOneAdam"}) {
    for (const char* optimizer : {"adamw", "lamb"}) {
      json file = json::parse(kOneBit);
      file["optimizer"]["type"] = type;
      const Fields bits = Resolved(file, optimizer);
      EXPECT_EQ(bits, Resolved(json::parse(kAdamW), optimizer)) << type;
      EXPECT_EQ(bits.at("bias_correction"), "1");
      EXPECT_EQ(bits.at("weight_decay"), "0.01");
      file["optimizer"]["params"]["bias_correction"] = false;
      EXPECT_EQ(Resolved(file, optimizer).at("bias_correction"), "0");
    }
    EXPECT_EQ(Resolved(json::parse(kOneBit)).at("weight_decay"), "0");
  }
}

TEST(DeepSpeedHonouredKeys, EachHasACase) {
  const std::vector<Case> cases = Cases();
  std::map<std::string, int> honoured;
  for (const KeyRule& rule : DeepSpeedKeyRules()) {
    if (rule.treatment == KeyTreatment::kHonoured) honoured[std::string(rule.pointer)] = 0;
  }
  for (const Case& c : cases) {
    ASSERT_EQ(honoured.count(c.key), 1u) << c.key << " is not honoured";
    ++honoured[c.key];
  }
  for (const auto& [key, count] : honoured) {
    EXPECT_GE(count, 1) << key << " is honoured: show what it changes";
  }
}

}  // namespace
}  // namespace spillway
