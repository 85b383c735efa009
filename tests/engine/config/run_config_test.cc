#include "engine/config/run_config.h"

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "tests/engine/format_testing.h"

namespace spillway {
namespace {

using absl::StatusCode;

class RunConfigTest : public testing::Test {
 protected:
  RunConfigTest() {
    flags_.model = "m";
    flags_.output = "o";
    flags_.data = {"d.txt"};
  }
  void Config(const std::string& json) {
    WriteFile(scratch_ / "ds.json", json);
    flags_.config = scratch_ / "ds.json";
  }
  RunConfig Resolve() {
    const auto config = ResolveRunConfig(flags_);
    EXPECT_TRUE(config.ok()) << config.status();
    return config.value_or(RunConfig());
  }
  std::string SourceOf(const std::string& name) {
    return ResolvedConfigJson(Resolve())[name]["source"].get<std::string>();
  }
  void ExpectInvalid(const std::vector<std::string>& parts,
                     StatusCode code = StatusCode::kInvalidArgument) {
    ExpectError(ResolveRunConfig(flags_).status(), code, parts);
  }

  ScratchDirectory scratch_;
  TrainFlags flags_;
};

TEST_F(RunConfigTest, DefaultsAreThoseOfTheContract) {
  const RunConfig config = Resolve();
  const TrainOptions& train = config.train;
  EXPECT_EQ(train.micro_batch, 1);
  EXPECT_EQ(train.accumulate, 1);
  EXPECT_EQ(train.steps, 0);
  EXPECT_EQ(train.epochs, 1);
  EXPECT_EQ(train.seed, 42u);
  EXPECT_EQ(train.order, SampleOrder::kShuffle);
  EXPECT_EQ(train.dtype, DType::kBFloat16);
  EXPECT_EQ(train.optimizer, OptimizerSpec());
  EXPECT_EQ(train.optimizer.learning_rate, 5e-5);
  EXPECT_EQ(train.optimizer.weight_decay, 0.01);
  EXPECT_EQ(train.schedule, ScheduleSpec());
  EXPECT_EQ(train.clip, 1.0);
  EXPECT_EQ(config.seq_len, 0);
  EXPECT_TRUE(config.notes.empty());
  EXPECT_EQ(SourceOf("lr"), "default");
}

TEST_F(RunConfigTest, SettingsOfOtherTasksAreRefusedTogether) {
  const auto refusal = [&](ModelTask task) {
    return std::string(CheckSettingsFitTask(Resolve(), task, "is another").message());
  };
  for (const auto& [name, task] : ModelTasks()) EXPECT_EQ(refusal(task), "") << name;
  flags_.augment = "crop-flip";
  flags_.picture_size = "64";
  EXPECT_EQ(refusal(ModelTask::kClassifyImage), "");
  EXPECT_EQ(refusal(ModelTask::kCausalLm),
            "--augment, --picture-size are for --task classify-image, and m is another");
  flags_.source_key = "prompt";  // as by default
  flags_.language = "de";
  EXPECT_THAT(refusal(ModelTask::kSeq2Seq), testing::HasSubstr("2 things are in the way"));
  EXPECT_THAT(refusal(ModelTask::kSeq2Seq),
              testing::HasSubstr("--language is for --task transcribe, and"));
  EXPECT_THAT(refusal(ModelTask::kMaskedLm),
              testing::HasSubstr("--source-key is for --task seq2seq, transcribe, and"));
  // A flag that turns something off fits every model.
  flags_ = {};
  flags_.model = "m";
  flags_.output = "o";
  flags_.data = {"d.txt"};
  flags_.augment = "auto";
  flags_.samples = "auto";
  flags_.label_smoothing = "0";
  flags_.pad_to_max_length = "false";
  for (const auto& [name, task] : ModelTasks()) EXPECT_EQ(refusal(task), "") << name;
  flags_.seq_len = "8";
  EXPECT_THAT(refusal(ModelTask::kTranscribe), testing::HasSubstr("--max-target-length"));
  EXPECT_EQ(refusal(ModelTask::kClassify), "");
}

TEST_F(RunConfigTest, EvaluationsAreMeasuredAsAsked) {
  flags_.eval_data = {"held.jsonl"};
  EXPECT_EQ(Resolve().train.metric, "loss");
  EXPECT_FALSE(Resolve().evaluation_texts.made);
  flags_.metric = "eval_rougeL";
  flags_.predict_with_generate = "";
  flags_.num_beams = "4";
  flags_.generation_max_length = "20";
  flags_.label_smoothing = "0.1";
  const RunConfig config = Resolve();
  EXPECT_EQ(config.train.metric, "rougeL");
  EXPECT_TRUE(config.evaluation_texts.made);
  EXPECT_EQ(config.evaluation_texts.sampling.beams, 4);
  EXPECT_EQ(config.evaluation_texts.sampling.min_tokens, std::nullopt);
  EXPECT_EQ(config.evaluation_texts.max_length, 20);
  EXPECT_EQ(config.train.label_smoothing, 0.1);
  flags_.metric = "rouge";
  ExpectInvalid({"--metric", "rougeL"});
  flags_.metric = "bleu";
  flags_.eval_data = {};
  ExpectInvalid({"--metric needs --eval-data"});
  flags_.metric.reset();
  ExpectInvalid({"--predict-with-generate needs --eval-data"});
  flags_.predict_with_generate = "false";
  ExpectInvalid({"--num-beams says how evaluations make texts"});
}

TEST_F(RunConfigTest, PromptsAreContinuedAtEvaluations) {
  flags_.eval_data = {"held.jsonl"};
  EXPECT_EQ(Resolve().sample_prompts.file, "");
  flags_.sample_prompts = "prompts.txt";
  EXPECT_EQ(Resolve().sample_prompts.file, "prompts.txt");
  EXPECT_EQ(Resolve().sample_prompts.new_tokens, 32);
  flags_.sample_tokens = "8";
  EXPECT_EQ(Resolve().sample_prompts.new_tokens, 8);
  flags_.sample_tokens = "0";
  ExpectInvalid({"--sample-tokens"});
  flags_.sample_tokens = "8";
  flags_.eval_data = {};
  ExpectInvalid({"--sample-prompts needs --eval-data"});
  flags_.eval_data = {"held.jsonl"};
  flags_.sample_prompts.reset();
  ExpectInvalid({"--sample-tokens says how long"});
}

TEST_F(RunConfigTest, FlagsAreHonoured) {
  flags_.micro_batch = "4";
  flags_.accumulate = "2";
  flags_.steps = "1k";
  flags_.seed = "18446744073709551615";
  flags_.order = "sequential";
  flags_.dtype = "fp32";
  flags_.lr = "1e-3";
  flags_.betas = "0.8,0.95";
  flags_.eps = "1e-6";
  flags_.weight_decay = "0";
  flags_.decay = "matrices";
  flags_.clip = "0";
  flags_.warmup = "10";
  flags_.schedule = "cosine";
  flags_.device_memory = "1GiB";
  flags_.host_memory = "512MiB";
  flags_.swap = "/a,/b";
  flags_.offload = "nvme";
  flags_.offload_param = "cpu";
  flags_.update = "immediate";
  flags_.io_engine = "threads";
  flags_.commit_every = "5";
  flags_.keep = "3";
  flags_.threads = "2";
  flags_.seq_len = "128";
  flags_.export_dtype = "bf16";
  const RunConfig config = Resolve();
  const TrainOptions& train = config.train;
  EXPECT_EQ(train.micro_batch, 4);
  EXPECT_EQ(train.accumulate, 2);
  EXPECT_EQ(train.steps, 1000);
  EXPECT_EQ(train.seed, UINT64_MAX);
  EXPECT_EQ(train.order, SampleOrder::kSequential);
  EXPECT_EQ(train.dtype, DType::kFloat32);
  EXPECT_EQ(train.optimizer.learning_rate, 1e-3);
  EXPECT_EQ(train.optimizer.beta1, 0.8);
  EXPECT_EQ(train.optimizer.beta2, 0.95);
  EXPECT_EQ(train.optimizer.eps, 1e-6);
  EXPECT_EQ(train.optimizer.weight_decay, 0);
  EXPECT_EQ(train.optimizer.decay, OptimizerSpec::Decay::kMatrices);
  EXPECT_EQ(train.clip, 0);
  EXPECT_EQ(train.schedule.kind, ScheduleSpec::Kind::kCosine);
  EXPECT_EQ(train.schedule.warmup_steps, 10);
  EXPECT_EQ(train.device_memory_bytes, 1ull << 30);
  EXPECT_EQ(train.host_memory_bytes, 512ull << 20);
  EXPECT_EQ(train.swap_paths, (std::vector<std::string>{"/a", "/b"}));
  EXPECT_EQ(train.offload_param, Offload::kCpu);
  EXPECT_EQ(train.offload_optimizer, Offload::kNvme);
  EXPECT_EQ(train.update, UpdateChoice::kImmediate);
  EXPECT_EQ(train.io.kind, IoEngineOptions::Kind::kThreads);
  EXPECT_EQ(train.commit_every, 5);
  EXPECT_EQ(train.keep, 3);
  EXPECT_EQ(train.threads, 2);
  EXPECT_EQ(config.seq_len, 128);
  EXPECT_EQ(config.export_dtype, DType::kBFloat16);
  EXPECT_EQ(SourceOf("lr"), "--lr");
}

TEST_F(RunConfigTest, NamesFlagAndAcceptedValues) {
  const struct {
    TrainFlags::Text TrainFlags::*flag;
    const char* value;
    std::vector<std::string> parts;
  } cases[] = {
      {&TrainFlags::steps, "0", {"--steps '0'", "1 or more"}},
      {&TrainFlags::steps, "ten", {"--steps 'ten'"}},
      {&TrainFlags::steps, "-5", {"--steps"}},
      {&TrainFlags::epochs, "0", {"--epochs"}},
      {&TrainFlags::epochs, "nan", {"--epochs"}},
      {&TrainFlags::seed, "-1", {"--seed"}},
      {&TrainFlags::order, "random", {"--order 'random'", "shuffle, sequential"}},
      {&TrainFlags::dtype, "float", {"--dtype", "bf16, fp16, fp32"}},
      {&TrainFlags::optimizer, "muon", {"--optimizer", "adamw, adam, lion, lamb, adafactor, sgd"}},
      {&TrainFlags::task, "ner", {"--task 'ner'", "auto, causal-lm, seq2seq"}},
      {&TrainFlags::trust_ratio, "1,2", {"--trust-ratio has no meaning", "lamb"}},
      {&TrainFlags::decay_rate, "0.5", {"--decay-rate has no meaning", "adafactor"}},
      {&TrainFlags::clip_threshold, "1", {"--clip-threshold has no meaning", "adafactor"}},
      {&TrainFlags::lr, "fast", {"--lr"}},
      {&TrainFlags::lr, "inf", {"--lr"}},
      {&TrainFlags::betas, "0.9", {"--betas", "0.9,0.999"}},
      {&TrainFlags::betas, "0.9,1", {"--betas"}},
      {&TrainFlags::clip, "-1", {"--clip"}},
      {&TrainFlags::schedule, "step", {"--schedule", "constant, linear, cosine"}},
      {&TrainFlags::device, "tpu", {"--device", "auto, cpu, cuda"}},
      {&TrainFlags::threads, "0", {"--threads"}},
      {&TrainFlags::device_memory, "lots", {"--device-memory", "512MiB"}},
      {&TrainFlags::host_memory, "0", {"--host-memory"}},
      {&TrainFlags::swap, "/a,,/b", {"--swap"}},
      {&TrainFlags::swap, "/a,/a", {"--swap names /a twice"}},
      {&TrainFlags::offload, "disk", {"--offload", "auto, none, cpu, nvme"}},
      {&TrainFlags::offload, "nvme", {"--swap PATH"}},
      {&TrainFlags::offload_activations,
       "disk",
       {"--offload-activations", "auto, none, cpu, nvme"}},
      {&TrainFlags::offload_activations, "nvme", {"offloading to nvme", "--swap PATH"}},
      {&TrainFlags::update, "lazy", {"--update", "auto, immediate, deferred"}},
      {&TrainFlags::update_device, "cuda", {"--update-device", "auto, cpu, gpu"}},
      {&TrainFlags::recompute, "none", {"--recompute", "auto, all"}},
      {&TrainFlags::io_engine, "aio", {"--io-engine", "auto, io_uring, threads"}},
      {&TrainFlags::keep, "0", {"--keep"}},
      {&TrainFlags::eval_every, "5", {"--eval-data"}},
      {&TrainFlags::momentum, "0.9", {"--momentum", "sgd"}},
      {&TrainFlags::export_dtype, "int8", {"--export-dtype"}},
      {&TrainFlags::output, "", {"--output is empty"}},
      {&TrainFlags::config, "/nonexistent.json", {"--config", "/nonexistent.json"}},
      {&TrainFlags::config, "eyJ0cmFpbl9iYXRjaF9zaXplIjogMX0=", {"--config", "base64"}},
  };
  const TrainFlags good = flags_;
  for (const auto& c : cases) {
    SCOPED_TRACE(c.value);
    flags_ = good;
    flags_.*c.flag = c.value;
    ExpectInvalid(c.parts);
  }
  flags_ = good;
  flags_.model.reset();
  ExpectInvalid({"--model DIR is missing"});
}

TEST_F(RunConfigTest, TheDeviceIsAWishUntilTheMachineHasBeenSeen) {
  EXPECT_EQ(Resolve().train.device, "auto");
  flags_.device = "cuda";
  EXPECT_EQ(Resolve().train.device, "cuda");
}

TEST_F(RunConfigTest, ImmediateUpdatesNeedNothingGlobal) {
  flags_.update = "immediate";
  ExpectInvalid({"--update immediate", "clipping at 1", "--clip 0"});
  flags_.clip = "0";
  EXPECT_EQ(Resolve().train.update, UpdateChoice::kImmediate);
  flags_.dtype = "fp16";
  ExpectInvalid({"--update immediate", "fp16", "--update deferred"});
}

TEST_F(RunConfigTest, BatchSizesAreDerivedAsDeepSpeedDoes) {
  const struct {
    const char* json;
    int64_t micro, accumulate;
  } cases[] = {
      {"{}", 1, 1},
      {"{\"train_batch_size\": 8}", 8, 1},
      {"{\"train_batch_size\": 8, \"train_micro_batch_size_per_gpu\": 2}", 2, 4},
      {"{\"train_batch_size\": 8, \"gradient_accumulation_steps\": 2}", 4, 2},
      {"{\"train_micro_batch_size_per_gpu\": 3}", 3, 1},
      {"{\"gradient_accumulation_steps\": 3}", 1, 3},
      {"{\"train_micro_batch_size_per_gpu\": 3, \"gradient_accumulation_steps\": 2}", 3, 2},
      {"{\"train_batch_size\": 6, \"train_micro_batch_size_per_gpu\": 3, "
       "\"gradient_accumulation_steps\": 2}",
       3, 2},
      {"{\"train_batch_size\": \"auto\", \"train_micro_batch_size_per_gpu\": \"auto\"}", 1, 1},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.json);
    Config(c.json);
    const RunConfig config = Resolve();
    EXPECT_EQ(config.train.micro_batch, c.micro);
    EXPECT_EQ(config.train.accumulate, c.accumulate);
  }
}

TEST_F(RunConfigTest, ContradictingBatchSizesShowTheProduct) {
  Config(
      "{\"train_batch_size\": 8,\n\"train_micro_batch_size_per_gpu\": 2,\n"
      "\"gradient_accumulation_steps\": 3}");
  ExpectInvalid({"ds.json:1", "train_batch_size 8", "micro-batch 2", "accumulation 3", "= 6"});
  flags_.accumulate = "4";  // what the product needs
  EXPECT_EQ(Resolve().train.accumulate, 4);
  flags_.accumulate = "5";  // a flag wins over the file, and says so
  const RunConfig config = Resolve();
  EXPECT_EQ(config.train.accumulate, 5);
  EXPECT_THAT(config.notes, testing::Contains(testing::HasSubstr("gives way to the flags")));
  flags_.accumulate.reset();
  Config("{\"train_batch_size\": 8, \"train_micro_batch_size_per_gpu\": 3}");
  ExpectInvalid({"not a multiple"});
}

TEST_F(RunConfigTest, PrecisionFollowsTheFile) {
  const struct {
    const char* json;
    DType dtype;
  } cases[] = {
      {"{}", DType::kFloat32},
      {"{\"bf16\": {\"enabled\": true}}", DType::kBFloat16},
      {"{\"fp16\": {\"enabled\": true}}", DType::kFloat16},
      {"{\"bf16\": {\"enabled\": false}}", DType::kFloat32},
      {"{\"bf16\": {\"enabled\": \"auto\"}}", DType::kBFloat16},
      {"{\"bf16\": {\"enabled\": \"auto\"}, \"fp16\": {\"enabled\": \"auto\"}}", DType::kBFloat16},
  };
  for (const auto& c : cases) {
    Config(c.json);
    EXPECT_EQ(Resolve().train.dtype, c.dtype) << c.json;
  }
  flags_.dtype = "fp16";
  EXPECT_EQ(Resolve().train.dtype, DType::kFloat16);
}

TEST_F(RunConfigTest, LossScaleKnobsReachTheScaler) {
  Config(R"({"fp16": {"enabled": true, "loss_scale": 128, "initial_scale_power": 10,
      "loss_scale_window": 50, "hysteresis": 3, "consecutive_hysteresis": true,
      "min_loss_scale": 2}})");
  const LossScaleSpec scale = Resolve().train.loss_scale;
  EXPECT_EQ(scale, (LossScaleSpec{128, 10, 50, 3, true, 2}));
}

TEST_F(RunConfigTest, OptimizerFollowsTheFileAndItsDefaults) {
  Config(R"({"optimizer": {"type": "AdamW", "params": {"lr": "auto"}}})");
  EXPECT_EQ(Resolve().train.optimizer.learning_rate, 5e-5);
  Config(R"({"optimizer": {"type": "AdamW", "params": {}}})");
  EXPECT_EQ(Resolve().train.optimizer.learning_rate, 1e-3) << "DeepSpeed's";
  EXPECT_EQ(Resolve().train.optimizer.weight_decay, 0.01);
  Config(R"({"optimizer": {"type": "SGD", "params": {"lr": 0.1, "momentum": 0.9,
      "nesterov": "true"}}})");
  const OptimizerSpec sgd = Resolve().train.optimizer;
  EXPECT_EQ(sgd.kind, OptimizerSpec::Kind::kSgd);
  EXPECT_EQ(sgd.momentum, 0.9);
  EXPECT_TRUE(sgd.nesterov);
  EXPECT_EQ(sgd.weight_decay, 0);
  flags_.lr = "0.2";
  EXPECT_EQ(Resolve().train.optimizer.learning_rate, 0.2);
  EXPECT_EQ(SourceOf("lr"), "--lr");
  EXPECT_EQ(SourceOf("momentum"), *flags_.config + ":1");
}

TEST_F(RunConfigTest, ShowsFlagAndFileWhereTheFlagWins) {
  Config(R"({
"train_batch_size": 8, "train_micro_batch_size_per_gpu": 2,
"gradient_clipping": 0.25,
"bf16": {"enabled": true},
"optimizer": {"type": "AdamW", "params": {"lr": 0.1}},
"scheduler": {"type": "WarmupLR", "params": {"warmup_max_lr": 0.5}},
"zero_optimization": {"offload_param": {"device": "nvme", "nvme_path": "/file"}}
})");
  flags_.clip = "1";
  flags_.dtype = "fp32";
  flags_.micro_batch = "1";
  flags_.accumulate = "1";
  flags_.lr = "1e-3";
  flags_.offload_optimizer = "nvme";
  flags_.swap = "/flag";
  const nlohmann::json shown = ResolvedConfigJson(Resolve());
  const auto overridden = [&](const std::string& name) -> nlohmann::json {
    EXPECT_EQ(shown[name].count("overrides"), 1u) << name << shown[name];
    return shown[name].value("overrides", nlohmann::json());
  };
  const std::string file = *flags_.config;
  EXPECT_EQ(overridden("clip"), (nlohmann::json{{"value", 0.25}, {"source", file + ":3"}}));
  EXPECT_EQ(overridden("dtype"), (nlohmann::json{{"value", "bf16"}, {"source", file + ":4"}}));
  EXPECT_EQ(overridden("micro-batch")["value"], 2);
  EXPECT_EQ(overridden("train_batch_size")["value"], 8);
  EXPECT_EQ(overridden("lr")["value"], 0.1);
  EXPECT_EQ(overridden("warmup_max_lr")["value"], 0.5);
  EXPECT_EQ(overridden("swap")["value"], nlohmann::json({"/file"}));
  EXPECT_EQ(shown["clip"]["value"], 1.0);
  EXPECT_EQ(shown["offload-param"].count("overrides"), 0u) << "nothing was overridden";
  flags_.offload_param = "cpu";
  flags_.schedule = "linear";
  const nlohmann::json again = ResolvedConfigJson(Resolve());
  EXPECT_EQ(again["offload-param"]["overrides"]["value"], "nvme");
  EXPECT_EQ(again["schedule"]["overrides"]["value"], "WarmupLR");
}

TEST_F(RunConfigTest, ClippingSaysWhichDefaultApplies) {
  Config("{}");
  EXPECT_EQ(Resolve().train.clip, 1.0);
  EXPECT_THAT(Resolve().notes, testing::Contains(testing::HasSubstr("since mid-2026")));
  Config("{\"gradient_clipping\": 0}");
  EXPECT_EQ(Resolve().train.clip, 0);
  EXPECT_THAT(Resolve().notes, testing::Not(testing::Contains(testing::HasSubstr("mid-2026"))));
}

TEST_F(RunConfigTest, SchedulersFollowTheFile) {
  using Kind = ScheduleSpec::Kind;
  Config(R"({"scheduler": {"type": "WarmupLR", "params": {"warmup_max_lr": 0.01}}})");
  ScheduleSpec schedule = Resolve().train.schedule;
  EXPECT_EQ(schedule.kind, Kind::kWarmupLr);
  EXPECT_EQ(schedule.warmup_steps, 1000);
  EXPECT_EQ(schedule.warmup_max_lr, 0.01);
  EXPECT_EQ(schedule.warmup_type, ScheduleSpec::WarmupType::kLog);
  flags_.lr = "0.5";
  EXPECT_EQ(Resolve().train.schedule.warmup_max_lr, 0.5) << "a flag wins over the file";
  Config(R"({"scheduler": {"type": "WarmupDecayLR", "params": {"warmup_max_lr": "auto",
      "warmup_num_steps": "auto", "total_num_steps": "auto"}}})");
  schedule = Resolve().train.schedule;
  EXPECT_EQ(schedule.warmup_max_lr, 0.5);
  EXPECT_EQ(schedule.warmup_steps, 0);
  EXPECT_FALSE(schedule.total_num_steps.has_value());
  flags_.lr.reset();
  Config(R"({"scheduler": {"type": "WarmupDecayLR", "params": {"total_num_steps": 50}}})");
  EXPECT_EQ(Resolve().train.schedule.warmup_max_lr, 0.001) << "DeepSpeed's";
  EXPECT_EQ(Resolve().train.schedule.total_num_steps, 50);
  Config(R"({"scheduler": {"type": "WarmupCosineLR", "params": {"total_num_steps": 50,
      "warmup_min_ratio": 0.1, "cos_min_ratio": 0.2, "warmup_num_steps": 5}}})");
  schedule = Resolve().train.schedule;
  EXPECT_EQ(schedule.warmup_min_ratio, 0.1);
  EXPECT_EQ(schedule.cos_min_ratio, 0.2);
  EXPECT_EQ(schedule.warmup_steps, 5);
  flags_.schedule = "linear";
  EXPECT_EQ(Resolve().train.schedule.kind, Kind::kLinear);
  EXPECT_THAT(Resolve().notes, testing::Contains(testing::HasSubstr("gives way to --schedule")));
}

// --schedule takes a file's place, and the Trainer's name for it does not.
TEST_F(RunConfigTest, TheTrainersScheduleGivesWayToTheFilesScheduler) {
  using Kind = ScheduleSpec::Kind;
  flags_.lr_scheduler_type = "polynomial";
  for (const auto& [type, kind] : {std::pair{"WarmupLR", Kind::kWarmupLr},
                                   {"WarmupDecayLR", Kind::kWarmupDecayLr},
                                   {"OneCycle", Kind::kOneCycle}}) {
    const char* const params = kind == Kind::kWarmupDecayLr ? R"({"total_num_steps": 9})"
                               : kind == Kind::kOneCycle
                                   ? R"({"cycle_min_lr": 1e-5, "cycle_max_lr": 1e-3})"
                                   : "{}";
    Config(absl::StrCat(R"({"scheduler": {"type": ")", type, R"(", "params": )", params, "}}"));
    const RunConfig config = Resolve();
    EXPECT_EQ(config.train.schedule.kind, kind);
    EXPECT_THAT(config.notes, testing::Contains(testing::HasSubstr(
                                  "--lr_scheduler_type polynomial does not; --schedule would")));
  }
  flags_.schedule_args = R"({"power": 2})";
  ExpectInvalid({"--schedule-args has no meaning with the scheduler of"});
  flags_.config.reset();
  EXPECT_EQ(Resolve().train.schedule.power, 2);
}

TEST_F(RunConfigTest, SchedulesHaveTransformersArguments) {
  using Kind = ScheduleSpec::Kind;
  const auto resolve = [&](const char* schedule, const char* arguments) {
    flags_.schedule = schedule;
    flags_.schedule_args = arguments;
    return Resolve().train.schedule;
  };
  EXPECT_EQ(resolve("cosine_with_restarts", "{}").num_cycles, 1);
  EXPECT_EQ(resolve("cosine_with_restarts", R"({"num_cycles": 3})").num_cycles, 3);
  EXPECT_EQ(resolve("cosine", "None").num_cycles, 0.5);
  EXPECT_EQ(resolve("polynomial", R"({"lr_end": "1e-6", "power": 2.5})").lr_end, 1e-6)
      << "numbers may be quoted";
  EXPECT_EQ(resolve("inverse_sqrt", R"({"timescale": 20})").timescale, 20);
  EXPECT_EQ(resolve("inverse_sqrt", R"({"timescale": null})").timescale, std::nullopt);
  EXPECT_EQ(resolve("cosine_with_min_lr", R"({"min_lr": 1e-6})").min_lr, 1e-6);
  const auto warm = resolve("cosine_warmup_with_min_lr",
                            R"({"min_lr_rate": 0.1, "warmup_lr_rate": 0.2, "num_cycles": 1})");
  EXPECT_EQ(warm.min_lr_rate, 0.1);
  EXPECT_EQ(warm.warmup_lr_rate, 0.2);
  EXPECT_EQ(warm.num_cycles, 1);
  const auto wsd = resolve("warmup_stable_decay", R"({"num_decay_steps": 5, "decay_type": "1-sqrt",
      "warmup_type": "cosine", "num_stable_steps": 7, "min_lr_ratio": 0.5})");
  EXPECT_EQ(wsd.num_decay_steps, 5);
  EXPECT_EQ(wsd.num_stable_steps, 7);
  EXPECT_EQ(wsd.decay_curve, ScheduleSpec::Curve::kOneMinusSqrt);
  EXPECT_EQ(wsd.warmup_curve, ScheduleSpec::Curve::kCosine);
  const struct {
    const char *schedule, *arguments, *message;
  } wrong[] = {
      {"warmup_stable_decay", "{}", "num_decay_steps"},
      {"cosine_with_min_lr", "{}", "needs one of min_lr and min_lr_rate"},
      {"cosine_with_min_lr", R"({"min_lr": 0, "min_lr_rate": 0.1})", "needs only one of"},
      {"linear", R"({"num_cycles": 2})", "the schedule linear has no num_cycles"},
      {"polynomial", R"({"lr_end": 1})", "--lr 5e-05 is not above it"},
      {"cosine", R"({"num_cycles": -1})", "num_cycles is -1; expected a number of 0 or more"},
      {"inverse_sqrt", R"({"timescale": 1.5})", "expected a whole number"},
      {"cosine", "[1]", "a JSON object"},
      {"cosine", "num_cycles=2", "a JSON object"},
      {"reduce_lr_on_plateau", "{}", "give --eval-data FILE and --eval-every N"},
  };
  for (const auto& c : wrong) {
    flags_.schedule = c.schedule;
    flags_.schedule_args = c.arguments;
    ExpectInvalid({c.message});
  }
  flags_.eval_data = {"e.txt"};
  flags_.eval_every = "10";
  flags_.warmup = "5";
  const auto plateau = resolve("reduce_lr_on_plateau", R"({"mode": "max", "patience": 1,
      "factor": 0.5, "threshold_mode": "abs", "cooldown": 2, "min_lr": 1e-7, "eps": 0})");
  EXPECT_EQ(plateau.warmup_steps, 0);
  EXPECT_TRUE(plateau.metric.higher_is_better);
  EXPECT_EQ(plateau.metric.patience, 1);
  EXPECT_FALSE(plateau.metric.relative_threshold);
  EXPECT_THAT(Resolve().notes,
              testing::AllOf(testing::Contains(testing::HasSubstr("has no warm-up")),
                             testing::Contains(testing::HasSubstr("takes a higher loss"))));
  const auto greedy = resolve("greedy", R"({"smooth": "true", "window_size": 3, "warmup": 4})");
  EXPECT_EQ(greedy.kind, Kind::kGreedy);
  EXPECT_EQ(greedy.metric.window_size, 3);
  EXPECT_EQ(greedy.metric.warmup, 4);
  EXPECT_EQ(greedy.metric.min_lr, 1e-3) << "transformers'";
}

TEST_F(RunConfigTest, TheTrainersConstantRateHasNoWarmUp) {
  flags_.warmup = "7";
  for (const auto& [name, steps] : {std::pair{"constant", 0}, {"constant_with_warmup", 7}}) {
    flags_.lr_scheduler_type = name;
    EXPECT_EQ(Resolve().train.schedule.warmup_steps, steps) << name;
  }
  flags_.lr_scheduler_type.reset();
  flags_.schedule = "constant";
  EXPECT_EQ(Resolve().train.schedule.warmup_steps, 7) << "ours has one";
}

TEST_F(RunConfigTest, TheTrainersDecaySparesNormsAndBiases) {
  using Decay = OptimizerSpec::Decay;
  flags_.trainer_weight_decay = "0.1";
  EXPECT_EQ(Resolve().train.optimizer.weight_decay, 0.1);
  EXPECT_EQ(Resolve().train.optimizer.decay, Decay::kTrainer);
  EXPECT_THAT(Resolve().notes, testing::Contains(testing::HasSubstr("spares norms and biases")));
  Config(R"({"zero_optimization": {"stage": 3}})");
  EXPECT_EQ(Resolve().train.optimizer.decay, Decay::kTrainer) << "the optimizer is the Trainer's";
  Config(R"({"optimizer": {"type": "AdamW", "params": {"weight_decay": "auto"}}})");
  EXPECT_EQ(Resolve().train.optimizer.weight_decay, 0.1);
  EXPECT_EQ(Resolve().train.optimizer.decay, Decay::kAll) << "the optimizer is DeepSpeed's";
  EXPECT_THAT(Resolve().notes, testing::Contains(testing::HasSubstr("--decay trainer")));
  flags_.optimizer = "sgd";
  EXPECT_EQ(Resolve().train.optimizer.decay, Decay::kTrainer) << "--optim takes its place";
  flags_.decay = "matrices";
  EXPECT_EQ(Resolve().train.optimizer.decay, Decay::kMatrices);
  flags_ = TrainFlags();
  flags_.model = flags_.output = "m";
  flags_.data = {"d.txt"};
  flags_.weight_decay = "0.1";
  EXPECT_EQ(Resolve().train.optimizer.decay, Decay::kAll) << "our own name";
}

TEST_F(RunConfigTest, OptimizersThatAreNotThereHaveANearestOne) {
  for (const char* name : {"rmsprop", "rmsprop_bnb_8bit", "adagrad", "ademamix", "lomo", "adalomo",
                           "galore_adamw_8bit_layerwise", "apollo_adamw", "schedule_free_radam",
                           "stable_adamw", "adamw_torch_4bit", "adamw_anyprecision", "grokadamw",
                           "paged_ademamix_32bit", "adamw_torch_xla"}) {
    flags_.optimizer = name;
    ExpectInvalid({absl::StrCat("--optimizer ", name, " is not there; nearest: ")});
  }
  flags_.optimizer = "muon";
  ExpectInvalid({"adamw, adam, lion"});
}

TEST_F(RunConfigTest, IntervalsMayBeAPartOfTheRun) {
  flags_.eval_data = {"e.txt"};
  flags_.eval_every = "0.5";
  flags_.commit_every = "0.2";
  flags_.epochs = "2";
  const RunConfig config = Resolve();
  EXPECT_EQ(config.train.eval_part, 0.5);
  EXPECT_EQ(config.train.commit_part, 0.2);
  EXPECT_EQ(ResolvedConfigJson(config)["commit-every"]["value"], 0.2);
  flags_.eval_every = "1.5";
  ExpectInvalid({"--eval-every '1.5'"});
}

TEST_F(RunConfigTest, CyclesAndRangeTestsGiveWayToFlags) {
  Config(R"({"scheduler": {"type": "LRRangeTest"}})");
  EXPECT_EQ(Resolve().train.schedule.range_test.min_lr, 1e-3) << "DeepSpeed's";
  flags_.lr = "0.5";
  EXPECT_EQ(Resolve().train.schedule.range_test.min_lr, 0.5);
  const std::string cycle = R"("scheduler": {"type": "OneCycle", "params":
      {"cycle_min_lr": 0.1, "cycle_max_lr": 0.4}}})";
  Config("{" + cycle);
  EXPECT_EQ(Resolve().train.schedule.one_cycle.max_lr, 0.5);
  EXPECT_THAT(Resolve().notes, testing::Contains(testing::HasSubstr("gives way to --lr")));
  EXPECT_TRUE(Resolve().train.schedule.one_cycle.moves_betas);
  flags_.betas = "0.8,0.9";
  EXPECT_FALSE(Resolve().train.schedule.one_cycle.moves_betas);
  EXPECT_THAT(Resolve().notes, testing::Contains(testing::HasSubstr("gives way to --betas")));
  flags_.betas.reset();
  Config(R"({"optimizer": {"type": "SGD", "params": {"lr": 1}}, )" + cycle);
  EXPECT_FALSE(Resolve().train.schedule.one_cycle.moves_betas);
  EXPECT_THAT(Resolve().notes, testing::Contains(testing::HasSubstr("SGD has none")));
  Config(R"({"optimizer": {"type": "AdamW", "params": {"betas": [0.7, 0.8]}}, )" + cycle);
  EXPECT_THAT(Resolve().notes, testing::Contains(testing::HasSubstr("betas give way to")));
  flags_.warmup = "3";
  ExpectInvalid({"--warmup has no meaning with the scheduler OneCycle"});
}

TEST_F(RunConfigTest, OffloadBlocksWinOverAuto) {
  Config(R"({"zero_optimization": {"stage": 3,
      "offload_param": {"device": "cpu", "nvme_path": "/not/used"},
      "offload_optimizer": {"device": "nvme", "nvme_path": "/nvme"}}})");
  TrainOptions train = Resolve().train;
  EXPECT_EQ(train.offload_param, Offload::kCpu);
  EXPECT_EQ(train.offload_optimizer, Offload::kNvme);
  EXPECT_EQ(train.swap_paths, std::vector<std::string>{"/nvme"});
  flags_.offload = "auto";
  EXPECT_EQ(Resolve().train.offload_optimizer, Offload::kNvme);
  flags_.offload = "none";
  EXPECT_EQ(Resolve().train.offload_optimizer, Offload::kNone);
  flags_.offload_optimizer = "cpu";
  EXPECT_EQ(Resolve().train.offload_optimizer, Offload::kCpu);
  flags_.offload.reset();
  flags_.offload_optimizer.reset();
  flags_.swap = "/mine";
  EXPECT_EQ(Resolve().train.swap_paths, std::vector<std::string>{"/mine"});
  flags_.swap.reset();
  Config(R"({"zero_optimization": {"offload_param": {"device": "nvme"}}})");
  ExpectInvalid({":1: 'zero_optimization.offload_param.device'", "--swap", "nvme_path"});
}

TEST_F(RunConfigTest, ActivationsHaveAFlagOfTheirOwn) {
  flags_.swap = "/swap";
  EXPECT_EQ(Resolve().train.offload_activations, Offload::kAuto);
  EXPECT_EQ(SourceOf("offload-activations"), "default");
  // --offload is about state.
  flags_.offload = "nvme";
  EXPECT_EQ(Resolve().train.offload_activations, Offload::kAuto);
  flags_.offload = "none";
  EXPECT_EQ(Resolve().train.offload_activations, Offload::kAuto);
  for (const auto& [value, offload] :
       {std::pair{"none", Offload::kNone}, std::pair{"cpu", Offload::kCpu},
        std::pair{"nvme", Offload::kNvme}, std::pair{"auto", Offload::kAuto}}) {
    flags_.offload_activations = value;
    EXPECT_EQ(Resolve().train.offload_activations, offload);
    EXPECT_EQ(Resolve().train.offload_param, Offload::kNone);
    EXPECT_EQ(SourceOf("offload-activations"), "--offload-activations");
  }
}

TEST_F(RunConfigTest, AioTunesTheEngine) {
  Config(R"({"aio": {"block_size": 262144, "queue_depth": 64, "intra_op_parallelism": 2,
                     "single_submit": false}})");
  const RunConfig config = Resolve();
  EXPECT_EQ(config.train.io.block_bytes, 262144u);
  EXPECT_EQ(config.train.io.depth, 64u);
  EXPECT_EQ(config.train.io.threads, 2u);
  EXPECT_THAT(config.notes,
              testing::Contains(testing::AllOf(testing::HasSubstr("decided by the plan"),
                                               testing::HasSubstr("aio.single_submit"))));
}

TEST_F(RunConfigTest, FrozenWeightsAreHeldInTheRunsDtypeOrPacked) {
  EXPECT_FALSE(Resolve().train.freeze.packing.any());
  flags_.base_dtype = "bf16";
  EXPECT_FALSE(Resolve().train.freeze.packing.any());
  flags_.base_dtype = "fp32";
  ExpectInvalid({"--base-dtype fp32 and --dtype bf16", "int8 or nf4"});
  flags_.dtype = "fp32";
  EXPECT_FALSE(Resolve().train.freeze.packing.any());
  flags_.base_dtype = "int8";
  EXPECT_EQ(Resolve().train.freeze.packing.format, PackedFormat::kInt8);
}

TEST_F(RunConfigTest, AdaptersAreFoundInTheirFolders) {
  const std::string run = scratch_ / "run";
  std::filesystem::create_directories(run + "/adapter");
  WriteFile(run + "/adapter/adapter_config.json", "{}");
  flags_.peft_config = run + "/adapter";
  EXPECT_EQ(Resolve().adapter.config_file, run + "/adapter/adapter_config.json");
  flags_.peft_config = run + "/adapter/adapter_config.json";
  EXPECT_EQ(Resolve().adapter.config_file, *flags_.peft_config);
  flags_.peft_config.reset();
  flags_.adapter = run;
  ExpectInvalid({"has no adapter_config.json", "give --adapter " + run + "/adapter"});
  flags_.adapter = run + "/adapter";
  EXPECT_EQ(Resolve().adapter.directory, run + "/adapter");
}

TEST_F(RunConfigTest, CopiesNeedAnotherDirectoryHoweverItIsSpelt) {
  std::filesystem::create_directory(scratch_ / "run");
  std::filesystem::create_symlink("run", scratch_ / "link");
  flags_.output = scratch_ / "run";
  for (const char* same : {"run", "run/", "./run", "run/../run", "link"}) {
    flags_.persist = scratch_ / same;
    ExpectInvalid({"--persist and --output are the same directory"});
  }
  // Neither needs to be there.
  flags_.output = "o";
  flags_.persist = "./o/";
  ExpectInvalid({"--persist and --output are the same directory"});
  flags_.persist = "o/copies";
  EXPECT_EQ(Resolve().train.persist, "o/copies");
}

TEST_F(RunConfigTest, PathsThatAreWrittenDownAreUtf8) {
  const TrainFlags good = flags_;
  for (const auto& [flag, name] :
       {std::pair{&TrainFlags::output, "--output"}, std::pair{&TrainFlags::swap, "--swap"},
        std::pair{&TrainFlags::persist, "--persist"}}) {
    flags_ = good;
    flags_.*flag = "caf\xe9";
    ExpectInvalid({name, "caf\\xe9", "not UTF-8"});
    flags_.*flag = "caf\xc3\xa9";
    Resolve();
  }
  flags_ = good;
  flags_.model = "caf\xe9";
  Resolve();
  flags_.lora_r = "2";
  ExpectInvalid({"--model", "not UTF-8"});
  // What a link leads to counts.
  flags_ = good;
  std::filesystem::create_directory(scratch_ / "caf\xe9");
  std::filesystem::create_symlink("caf\xe9", scratch_ / "link");
  flags_.output = scratch_ / "link";
  ExpectInvalid({"--output", "not UTF-8"});
}

TEST_F(RunConfigTest, WhatIsFoundOutLaterIsDerived) {
  flags_.threads = "2";
  RunConfig config = Resolve();
  RecordFound(&config, "steps", 12);
  RecordFound(&config, "threads", 2);
  RecordFound(&config, "task", nullptr);
  RecordFound(&config, "nothing", 1);
  const nlohmann::json resolved = ResolvedConfigJson(config);
  EXPECT_EQ(resolved["steps"], (nlohmann::json{{"value", 12}, {"source", "derived"}}));
  EXPECT_EQ(resolved["threads"], (nlohmann::json{{"value", 2}, {"source", "--threads"}}));
  EXPECT_TRUE(resolved["task"]["value"].is_null());
  EXPECT_FALSE(resolved.contains("nothing"));
}

TEST_F(RunConfigTest, CommitFlagsThatContradictEachOther) {
  flags_.no_commit = true;
  EXPECT_TRUE(Resolve().train.no_commit);
  flags_.commit_every = "5";
  ExpectInvalid({"--no-commit", "--commit-every"});
}

TEST_F(RunConfigTest, CommitsAreByTimeByStepsOrNone) {
  const auto resolved = [&](const char* text) {
    flags_.commit_every = text;
    return Resolve();
  };
  RunConfig config = Resolve();
  EXPECT_EQ(config.train.commit_seconds, 900);
  EXPECT_EQ(config.train.commit_cost_part, 0.01);
  EXPECT_EQ(config.train.commit_every, 0);
  EXPECT_EQ(ResolvedConfigJson(config)["commit-every"],
            (nlohmann::json{{"value", "auto"}, {"source", "default"}}));
  EXPECT_EQ(resolved("auto").train.commit_seconds, 900);
  config = resolved("5m");
  EXPECT_EQ(config.train.commit_seconds, 300);
  EXPECT_EQ(config.train.commit_cost_part, 0);
  config = resolved("500");
  EXPECT_EQ(config.train.commit_every, 500);
  EXPECT_EQ(config.train.commit_seconds, 0);
  EXPECT_EQ(ResolvedConfigJson(config)["commit-every"]["value"], 500);
  config = resolved("0");
  EXPECT_EQ(config.train.commit_every, 0);
  EXPECT_EQ(config.train.commit_seconds, 0);
  for (const char* text : {"-1", "often", "s", "", "0s", "1.5"}) {
    flags_.commit_every = text;
    ExpectInvalid({"--commit-every", text, "auto (by time)", "15m"});
  }
  flags_.commit_every.reset();
  flags_.no_commit = true;
  config = Resolve();
  EXPECT_EQ(config.train.commit_seconds, 0);
  EXPECT_EQ(ResolvedConfigJson(config)["commit-every"],
            (nlohmann::json{{"value", 0}, {"source", "--no-commit"}}));
}

TEST_F(RunConfigTest, WhatMayChangeIsNamed) {
  flags_.resume = true;
  flags_.allow_change = "lr,micro-batch";
  EXPECT_EQ(Resolve().train.allow_change, (std::vector<std::string>{"lr", "micro-batch"}));
  flags_.allow_change = "lr,dtype";
  ExpectInvalid({"--allow-change dtype", "spillway export"});
  flags_.allow_change = "seed";
  ExpectInvalid({"--allow-change", "seed", "lr, schedule, clip, micro-batch, threads, data"});
  flags_.allow_change = "lr";
  flags_.resume = false;
  ExpectInvalid({"--allow-change", "--resume"});
}

}  // namespace
}  // namespace spillway
