#include "engine/config/deepspeed_config.h"

#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "engine/config/deepspeed_keys.h"
#include "tests/engine/format_testing.h"

namespace spillway {
namespace {

absl::StatusOr<DeepSpeedConfig> Parse(const std::string& text) {
  return ParseDeepSpeedConfig(text, "ds.json");
}

TEST(DeepSpeedConfig, ReadsWhatItHonours) {
  const auto config = Parse(R"({
  "train_batch_size": 16,
  "train_micro_batch_size_per_gpu": 2.0,
  "gradient_accumulation_steps": "auto",
  "optimizer": {"type": "AdamW", "params": {"lr": 1e-4, "betas": [0.8, 0.9], "eps": 1e-6,
                                            "weight_decay": 0, "torch_adam": true}},
  "scheduler": {"type": "WarmupDecayLR", "params": {"warmup_num_steps": 1e2,
      "total_num_steps": 1000, "warmup_min_lr": 0, "warmup_type": "linear"}},
  "gradient_clipping": 0.5,
  "fp16": {"enabled": "True", "initial_scale_power": 12, "min_loss_scale": 0.00001},
  "zero_optimization": {"stage": 3, "sub_group_size": 1e9,
      "offload_param": {"device": "nvme", "nvme_path": "/n", "buffer_count": 5},
      "offload_optimizer": {"device": "cpu", "pin_memory": true}},
  "aio": {"block_size": 262144, "queue_depth": 32, "thread_count": 2},
  "steps_per_print": 10
})");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(*config->train_batch_size.value, 16);
  EXPECT_EQ(config->train_batch_size.where, "ds.json:2");
  EXPECT_EQ(*config->micro_batch.value, 2);
  EXPECT_TRUE(config->accumulate.is_auto());
  EXPECT_EQ(config->optimizer.value, OptimizerSpec::Kind::kAdamW);
  EXPECT_EQ(*config->lr.value, 1e-4);
  EXPECT_EQ((*config->betas.value)[1], 0.9);
  EXPECT_EQ(*config->warmup_num_steps.value, 100);
  EXPECT_EQ(*config->warmup_type.value, ScheduleSpec::WarmupType::kLinear);
  EXPECT_EQ(*config->gradient_clipping.value, 0.5);
  EXPECT_TRUE(*config->fp16.value);
  EXPECT_EQ(*config->min_loss_scale.value, 0.00001);
  EXPECT_EQ(*config->shard.value, Shard::kFull);
  EXPECT_EQ(*config->offload_param.value, Offload::kNvme);
  EXPECT_EQ(*config->offload_optimizer.value, Offload::kCpu);
  EXPECT_EQ(*config->aio_threads.value, 2);
  EXPECT_THAT(config->decided_by_plan,
              testing::UnorderedElementsAre("zero_optimization.sub_group_size",
                                            "zero_optimization.offload_param.buffer_count",
                                            "zero_optimization.offload_optimizer.pin_memory"));
  EXPECT_THAT(config->without_effect,
              testing::UnorderedElementsAre("optimizer.params.torch_adam", "steps_per_print"));
}

TEST(DeepSpeedConfig, AdamIsAdamWUnlessToldOtherwise) {
  using Kind = OptimizerSpec::Kind;
  const auto kind = [](const std::string& type, const std::string& params) {
    return *Parse(
                absl::StrCat("{\"optimizer\":{\"type\":\"", type, "\",\"params\":{", params, "}}}"))
                ->optimizer.value;
  };
  EXPECT_EQ(kind("Adam", ""), Kind::kAdamW);
  EXPECT_EQ(kind("adam", "\"adam_w_mode\":true"), Kind::kAdamW);
  EXPECT_EQ(kind("Adam", "\"adam_w_mode\":false"), Kind::kAdam);
  EXPECT_EQ(kind("AdamW", ""), Kind::kAdamW);
  EXPECT_EQ(kind("SGD", "\"momentum\":0.9"), Kind::kSgd);
}

TEST(DeepSpeedConfig, OldSpellingsAreReadWithANote) {
  const auto config = Parse(R"({"zero_optimization": {"stage": 2, "cpu_offload": true,
      "cpu_offload_params": "true", "all_reduce_bucket_size": 5e8,
      "aio": {"queue_depth": 16}}, "bfloat16": {"enabled": true}})");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(*config->offload_optimizer.value, Offload::kCpu);
  EXPECT_EQ(*config->offload_param.value, Offload::kCpu);
  EXPECT_EQ(*config->aio_queue_depth.value, 16);
  EXPECT_TRUE(*config->bf16.value);
  EXPECT_EQ(config->notes.size(), 4u);
  EXPECT_EQ(Parse("{\"zero_optimization\": true}")->shard.value, Shard::kOptimizer)
      << "the oldest form";
}

TEST(DeepSpeedConfig, NamesKeyAndLineOfWhatItRefuses) {
  const struct {
    const char* text;
    std::vector<std::string> parts;
  } cases[] = {
      {"[]", {"ds.json:1", "JSON object"}},
      {"{\n\"optimzer\": {}}", {"ds.json:2", "'optimzer'", "did you mean 'optimizer'?"}},
      {"{\"optimizer\": {\n\"type\": \"AdamW\", \"params\": {\n\"learning_rate\": 1}}}",
       {"ds.json:3", "'learning_rate' in 'optimizer.params'"}},
      {"{\"stage\": 3}", {"'stage'", "did you mean 'zero_optimization.stage'?"}},
      {"{\"zero_optimization\": {\"ofload_param\": {}}}", {"did you mean 'offload_param'?"}},
      {"{\"optimizer\": {\"type\": \"Adam\", \"params\": {\"warmup_max_lr\": 1}}}",
       {"did you mean 'scheduler.params.warmup_max_lr'?"}},
      {"{\"train_batch\": 8}", {"did you mean 'train_batch_size'?"}},
      {"{\"gradient_acumulation_step\": 8}", {"did you mean 'gradient_accumulation_steps'?"}},
      {"{\"optimizer\": {\"type\": \"Muon\"}}", {"'optimizer.type'", "AdamW, Adam, SGD", "Muon"}},
      {"{\"torch_autocast\": {\"enabled\": true, \"dtype\": \"float16\"}}",
       {"needs an fp16 block"}},
      {"{\"torch_autocast\": {\"enabled\": true}, \"fp16\": {\"enabled\": true}}", {"contradict"}},
      {"{\"torch_autocast\": {\"enabled\": true, \"dtype\": \"int8\"}}", {"torch_autocast.dtype"}},
      {"{\"optimizer\": {}}", {"'optimizer' has no 'type'"}},
      {"{\"optimizer\": []}", {"'optimizer' is a block"}},
      {"{\"optimizer\": {\"type\": \"SGD\", \"params\": {\"betas\": [0.9, 0.9]}}}",
       {"'optimizer.params.betas' is not a parameter of SGD"}},
      {"{\"optimizer\": {\"type\": \"Adam\", \"params\": {\"momentum\": 0.9}}}",
       {"'optimizer.params.momentum' is not a parameter of Adam"}},
      {"{\"optimizer\": {\"type\": \"Adam\", \"params\": {\"betas\": [0.9, 1]}}}",
       {"two numbers in [0, 1)"}},
      {"{\"optimizer\": {\"type\": \"Adam\", \"params\": {\"amsgrad\": true}}}",
       {"'optimizer.params.amsgrad': true is not supported", "accepted: false"}},
      {"{\"optimizer\": {\"type\": \"Adam\", \"params\": {\"lr\": \"fast\"}}}",
       {"must be a number", "\"fast\""}},
      {"{\"optimizer\": {\"type\": \"Adam\", \"params\": {\"lr\": -1}}}", {"must be a number"}},
      {"{\"scheduler\": {\"type\": \"StepLR\"}}", {"WarmupLR, WarmupDecayLR, WarmupCosineLR"}},
      {"{\"scheduler\": {\"type\": \"OneCycle\", \"params\": {\"cycle_max_lr\": 1}}}",
       {"ds.json:1", "OneCycle needs 'cycle_min_lr' and 'cycle_max_lr'"}},
      {"{\"scheduler\": {\"type\": \"OneCycle\", \"params\": {\"warmup_num_steps\": 1}}}",
       {"'scheduler.params.warmup_num_steps' is not a parameter of OneCycle"}},
      {"{\"scheduler\": {\"type\": \"OneCycle\", \"params\": {\"cycle_min_lr\": 0, "
       "\"cycle_max_lr\": 1, \"cycle_max_mom\": 1}}}",
       {"ds.json:1", "'scheduler.params.cycle_max_mom' must be below 1"}},
      {"{\"scheduler\": {\"type\": \"LRRangeTest\", \"params\": {\"cycle_max_lr\": 1}}}",
       {"'scheduler.params.cycle_max_lr' is not a parameter of LRRangeTest"}},
      {"{\"scheduler\": {\"type\": \"LRRangeTest\", \"params\": {\"lr_range_test_step_size\": 0}}}",
       {"'scheduler.params.lr_range_test_step_size' must be a whole number of 1 or more"}},
      {"{\"scheduler\": {\"type\": \"WarmupLR\", \"params\": {\"total_num_steps\": 5}}}",
       {"'scheduler.params.total_num_steps' is not a parameter of WarmupLR"}},
      {"{\"train_batch_size\": 1.5}", {"whole number"}},
      {"{\"train_batch_size\": 0}", {"whole number of 1 or more"}},
      {"{\"train_batch_size\": true}", {"whole number"}},
      {"{\"train_batch_size\": 18446744073709551615}", {"whole number"}},
      {"{\"train_batch_size\": 1,\n \"train_batch_size\": 2}", {"ds.json:2", "appears twice"}},
      {"{\"bf16\": {\"enabled\": true},\n\"fp16\": {\"enabled\": true}}",
       {"ds.json:2", "contradict"}},
      {"{\"bf16\": {\"enabled\": \"yes!\"}}", {"'bf16.enabled' must be true or false"}},
      {"{\"zero_optimization\": {\"stage\": 4}}", {"from 0 to 3"}},
      {"{\"zero_optimization\": {\"offload_param\": {\"device\": \"disk\"}}}", {"none, cpu, nvme"}},
      {"{\"zero_optimization\": {\"zero_quantized_weights\": true}}", {"zero_quantized_weights"}},
      {"{\"aio\": {\"block_size\": 5000}}", {"multiple of 4096"}},
      {"{\"data_types\": {\"grad_accum_dtype\": \"bf16\"}}", {"accepted: \"fp32\""}},
      {"{\"sparse_attention\": {\"mode\": \"fixed\"}}", {"'sparse_attention' is not supported"}},
      {"{\"pipeline\": {\"stages\": 2}}", {"'pipeline.stages': 2 is not supported"}},
      {"{\"curriculum_learning\": {\"enabled\": true}}", {"'curriculum_learning'"}},
      {"{\"compression_training\": {\"layer_reduction\": {\"enabled\": false}, "
       "\"weight_quantization\": {\"shared_parameters\": {\"enabled\": true}}}}",
       {"'compression_training'"}},
      {"{\"compression_training\": {\"weight_quantization\": {\"bits\": 8}}}",
       {"'compression_training'"}},
      {"{\"amp\": {\"enabled\": true, \"opt_level\": \"O1\"}}", {"'amp'"}},
      {"{\"optimizer\": {\"type\": \"SGD\", \"params\": {\"bias_correction\": false}}}",
       {"'optimizer.params.bias_correction' is not a parameter of SGD"}},
      {"{\"communication_data_type\": \"fp16\"}", {"'communication_data_type'"}},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.text);
    ExpectError(Parse(c.text).status(), absl::StatusCode::kInvalidArgument, c.parts);
  }
}

// As DeepSpeed does, but that it says so.
TEST(DeepSpeedConfig, IgnoresAtTheTopWhatIsNobodysSlip) {
  const auto config = Parse(R"({"train_batch_size": 8,
      "cuda_visible_devices": "0,1", "lora": {"r": 8},
      "gradient_slippage": true})");
  ASSERT_TRUE(config.ok()) << config.status();
  using testing::AllOf, testing::HasSubstr;
  EXPECT_THAT(
      config->warnings,
      testing::UnorderedElementsAre(
          AllOf(HasSubstr("ds.json:2: unknown key 'cuda_visible_devices'"), HasSubstr("ignored")),
          HasSubstr("'lora'"), HasSubstr("ds.json:3: unknown key 'gradient_slippage' (ignored")));
  EXPECT_FALSE(Parse(R"({"zero_optimization": {"cuda_visible_devices": 0}})").ok());
}

// The mean of gradients in fp32 is the same wherever they are divided.
TEST(DeepSpeedConfig, PrescaledGradientsAreWithoutEffect) {
  const auto config = Parse(R"({"prescale_gradients": true, "gradient_predivide_factor": 2.0})");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_THAT(config->without_effect,
              testing::UnorderedElementsAre("prescale_gradients", "gradient_predivide_factor"));
}

TEST(DeepSpeedConfig, TakesDisabledFeatures) {
  const auto config = Parse(R"({"amp": {"enabled": "auto", "opt_level": "auto"},
      "curriculum_learning": {"enabled": false},
      "compression_training": {"layer_reduction": {"enabled": false, "keep_number_layer": 5},
          "weight_quantization": {"shared_parameters": {"enabled": false, "rounding": "nearest"},
                                  "different_groups": {"wq1": {"modules": ["attention"]}}}},
      "prescale_gradients": "false",
      "elasticity": {}, "data_types": {"grad_accum_dtype": null},
      "communication_data_type": "auto", "tensorboard": {"enabled": true, "output_path": "x"}})");
  EXPECT_TRUE(config.ok()) << config.status();
}

TEST(DeepSpeedKeys, EveryRuleIsUniqueAndHasItsBlock) {
  std::set<std::string> seen;
  for (const KeyRule& rule : DeepSpeedKeyRules()) {
    EXPECT_TRUE(seen.insert(std::string(rule.pointer)).second) << rule.pointer;
    const std::string parent(rule.pointer.substr(0, rule.pointer.rfind('/')));
    EXPECT_TRUE(parent.empty() || seen.count(parent) == 1) << rule.pointer;
  }
}

// Every key with every kind of value: an answer, never a crash.
TEST(DeepSpeedKeys, AnyValueOfAnyKeyIsAnswered) {
  for (const KeyRule& rule : DeepSpeedKeyRules()) {
    for (const char* value : {"null", "true", "\"auto\"", "\"x\"", "-1", "1e300", "[]", "{}",
                              "[[1]]", "18446744073709551615"}) {
      std::string text = value;
      std::vector<std::string> path = absl::StrSplit(rule.pointer.substr(1), '/');
      for (auto name = path.rbegin(); name != path.rend(); ++name) {
        text = absl::StrCat("{\"", *name, "\":", text, "}");
      }
      const absl::Status status = Parse(text).status();
      EXPECT_TRUE(status.ok() || absl::IsInvalidArgument(status)) << text << status;
    }
  }
}

}  // namespace
}  // namespace spillway
