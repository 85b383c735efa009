// Trains a small convolutional classifier through the swap engine: what a model, a
// dataset and a loss of one's own look like. Nothing in the engine knows of it.
//
//   train_cnn --output /tmp/cnn --swap /mnt/nvme --steps 120
//
// The data is made here: noisy gratings, eight classes by direction and frequency.
#include <torch/types.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>

#include "engine/base/size.h"
#include "engine/machine/memory_limits.h"
#include "engine/machine/process_setup.h"
#include "engine/ranks/join_launcher.h"
#include "engine/torch/train.h"

namespace {

using spillway::Batch;
using spillway::Init;
using spillway::ParameterSpec;
using spillway::UnitContext;
using torch::Tensor;

constexpr int64_t kSide = 32;
constexpr int64_t kClasses = 8;

// A convolution, a group norm (no running statistics: a unit is a pure function), a
// ReLU; where the shape allows it, added to its input.
class ConvUnit : public spillway::Unit {
 public:
  ConvUnit(std::string name, int64_t in, int64_t out, int64_t stride)
      : name_(std::move(name)), in_(in), out_(out), stride_(stride) {}

  std::string name() const override { return name_; }

  std::vector<ParameterSpec> parameters() const override {
    return {{name_ + ".weight", {out_, in_, 3, 3}, Init::Normal(0, std::sqrt(2.0 / (9.0 * in_)))},
            {name_ + ".gain", {out_}, Init::Constant(1)},
            {name_ + ".bias", {out_}, Init::Constant(0)}};
  }

  Tensor Forward(const UnitContext& context, const std::vector<Tensor>& parameters,
                 const Tensor& images) const override {
    const Tensor x = images.to(parameters[0].dtype());  // the first unit's input is fp32
    // Processors without products of 16 bits take many times as long for them: --compute.
    const auto product = context.fp32_products() ? torch::kFloat32 : x.scalar_type();
    Tensor y = torch::conv2d(x.to(product), parameters[0].to(product), /*bias=*/{}, stride_,
                             /*padding=*/1);
    y = y.to(x.dtype());
    y = torch::relu(torch::group_norm(y, /*num_groups=*/8, parameters[1], parameters[2]));
    y = context.Dropout(y, 0.05, /*site=*/0);
    return in_ == out_ && stride_ == 1 ? x + y : y;
  }

 private:
  const std::string name_;
  const int64_t in_, out_, stride_;
};

// Ends the model: features averaged over the image, a linear layer, cross-entropy.
class Classifier : public spillway::LossUnit {
 public:
  explicit Classifier(int64_t features) : features_(features) {}

  std::string name() const override { return "classifier"; }

  std::vector<ParameterSpec> parameters() const override {
    const double bound = 1 / std::sqrt(static_cast<double>(features_));
    return {{"classifier.weight", {kClasses, features_}, Init::Uniform(-bound, bound)},
            {"classifier.bias", {kClasses}, Init::Constant(0)}};
  }

  Tensor LossSum(const UnitContext& context, const std::vector<Tensor>& parameters, const Tensor& x,
                 const Tensor& labels) const override {
    const Tensor logits = Logits(context, parameters, x).to(torch::kFloat32);
    return torch::cross_entropy_loss(logits, labels, /*weight=*/{}, at::Reduction::Sum,
                                     spillway::kIgnoredLabel);
  }

  Tensor Logits(const UnitContext& context, const std::vector<Tensor>& parameters,
                const Tensor& x) const override {
    const Tensor means = x.view({x.size(0), features_, -1}).mean(2);  // x: [rows, features * area]
    return context.Linear(means, parameters[0], parameters[1]);
  }

 private:
  const int64_t features_;
};

spillway::Model BuildModel() {
  spillway::Model model;
  int64_t channels = 1;
  const auto add = [&](int64_t out, int64_t stride) {
    const std::string name = "conv" + std::to_string(model.units.size());
    model.units.push_back(std::make_shared<ConvUnit>(name, channels, out, stride));
    channels = out;
  };
  add(32, 1);
  for (const int64_t out : {64, 128, 256}) {  // 16 x 16, 8 x 8, 4 x 4
    add(out, 2);
    add(out, 1);
  }
  model.loss = std::make_shared<Classifier>(channels);
  return model;
}

// Image `first + n` is a function of its number, so nothing is stored.
class Gratings : public spillway::Dataset {
 public:
  Gratings(int64_t first, int64_t size) : first_(first), size_(size) {}

  int64_t size() const override { return size_; }
  std::string fingerprint() const override { return "gratings " + std::to_string(first_); }

  absl::StatusOr<Batch> Get(absl::Span<const int64_t> samples) override {
    const int64_t count = static_cast<int64_t>(samples.size());
    Batch batch{torch::empty({count, 1, kSide, kSide}), torch::empty({count}, torch::kInt64)};
    const Tensor across = torch::arange(kSide).to(torch::kFloat32).unsqueeze(0);
    const Tensor down = across.t();
    for (int64_t i = 0; i < count; ++i) {
      const int64_t number = first_ + samples[i];
      auto random = at::make_generator<at::CPUGeneratorImpl>(number);
      const int64_t label = number % kClasses;
      const double angle = (label % 4) * M_PI / 4, frequency = label < 4 ? 0.5 : 0.8;
      const double phase = torch::rand({1}, random).item<double>() * 2 * M_PI;
      const Tensor wave =
          torch::sin(frequency * (std::cos(angle) * across + std::sin(angle) * down) + phase);
      batch.inputs[i][0] = wave + 0.7 * torch::randn({kSide, kSide}, random);
      batch.labels[i] = label;
    }
    return batch;
  }

 private:
  const int64_t first_, size_;
};

}  // namespace

int main(int argc, char** argv) {
  spillway::SleepingOpenMpThreads(argv);
  spillway::TrainOptions options;
  options.steps = 120;
  options.micro_batch = 32;
  options.optimizer.kind = spillway::OptimizerSpec::Kind::kSgd;
  options.optimizer.learning_rate = 0.03;
  options.optimizer.momentum = 0.9;
  options.optimizer.weight_decay = 1e-4;
  options.schedule.kind = spillway::ScheduleSpec::Kind::kCosine;
  options.schedule.warmup_steps = 10;
  options.clip = 0;  // so a unit is updated as soon as its gradient is there
  options.device_memory_bytes = options.host_memory_bytes = 512 << 20;
  std::string device_memory, host_memory;

  CLI::App app{"Trains a small convolutional classifier with SGD through the swap engine"};
  app.add_option("--output", options.output, "Directory for metrics and commits")->required();
  app.add_option("--steps", options.steps, "Training steps")->capture_default_str();
  app.add_option("--lr", options.optimizer.learning_rate, "Highest learning rate")
      ->capture_default_str();
  app.add_option("--swap", options.swap_paths, "Parents for swap files; all state goes there")
      ->delimiter(',');
  app.add_option("--device-memory", device_memory, "Budget of LibTorch's memory [512MiB]");
  app.add_option("--host-memory", host_memory, "Budget of everything else [512MiB]");
  app.add_flag("--no-commit", options.no_commit, "Keep nothing to resume from");
  app.add_flag("--resume", options.resume, "Continue from the last commit");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  for (auto [text, bytes] : {std::pair{&device_memory, &options.device_memory_bytes},
                             {&host_memory, &options.host_memory_bytes}}) {
    if (text->empty()) continue;
    const absl::StatusOr<uint64_t> size = spillway::ParseSize(*text);
    if (!size.ok()) return std::fprintf(stderr, "%s\n", size.status().ToString().c_str()), 2;
    *bytes = *size;
  }
  if (!options.swap_paths.empty()) {
    options.offload_param = options.offload_optimizer = spillway::Offload::kNvme;
  }

  // Under torchrun, srun or mpirun: one of several ranks, each with batches of its own.
  const absl::Status joined = spillway::JoinLauncher(&options);
  if (!joined.ok()) return std::fprintf(stderr, "%s\n", joined.ToString().c_str()), 2;

  Gratings data(/*first=*/0, /*size=*/1 << 20), held_out(/*first=*/1 << 20, /*size=*/256);
  const auto result = spillway::Train(BuildModel(), data, &held_out, /*weights=*/nullptr, options);
  if (!result.ok()) {
    std::fprintf(stderr, "train_cnn: %s\n", std::string(result.status().message()).c_str());
    return spillway::ExitCodeOf(result.status());
  }
  if (options.rank > 0) return result->end == spillway::TrainResult::End::kStopped ? 75 : 0;
  std::printf(
      "step %ld: loss %.3f -> %.3f, held out %.3f; %.1f MB read from and %.1f MB written "
      "to swap\n",
      static_cast<long>(result->step), result->first_loss.value_or(NAN),
      result->last_loss.value_or(NAN), result->evaluation_loss.value_or(NAN),
      result->nvme_read_bytes / 1e6, result->nvme_written_bytes / 1e6);
  return result->end == spillway::TrainResult::End::kStopped ? 75 : 0;
}
