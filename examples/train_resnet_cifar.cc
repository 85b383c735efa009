// Trains a ResNet18 for CIFAR-10 (He et al., 2015; a first convolution of 3 x 3, as pictures of 32
// points a side need it) through the swap engine: a model with batch norms, whose running
// statistics are buffers, and a dataset that reads files and changes pictures at random. Nothing in
// the engine knows of it.
//
//   train_resnet_cifar --make-data made.bin
//   train_resnet_cifar --data made.bin --eval-data made.bin --output /tmp/cifar --swap /mnt/nvme
#include <torch/types.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <optional>

#include "engine/base/size.h"
#include "engine/machine/memory_limits.h"
#include "engine/machine/process_setup.h"
#include "engine/numeric/random.h"
#include "engine/ranks/join_launcher.h"
#include "engine/torch/train.h"
#include "io/checksum.h"

namespace {

using spillway::Batch;
using spillway::BufferSpec;
using spillway::Init;
using spillway::ParameterSpec;
using spillway::UnitContext;
using torch::Tensor;

constexpr int64_t kSide = 32, kBorder = 4, kClasses = 10;
constexpr int64_t kRecordBytes = 1 + 3 * kSide * kSide;  // a label, then red, green and blue planes

// Convolutions of 3 x 3, each with its batch norm: alone (the first unit), or two of them added to
// their input, which goes through a convolution of 1 x 1 where its shape changes.
class ConvUnit : public spillway::Unit {
 public:
  ConvUnit(std::string name, int64_t in, int64_t out, int64_t stride, bool residual)
      : name_(std::move(name)), stride_(stride), residual_(residual) {
    convolutions_ = {{name_ + ".0", in, out, 3}};
    if (residual) convolutions_.push_back({name_ + ".1", out, out, 3});
    if (residual && (in != out || stride != 1)) {
      convolutions_.push_back({name_ + ".shortcut", in, out, 1});
    }
  }

  std::string name() const override { return name_; }
  std::string kind() const override { return "conv/" + std::to_string(stride_); }

  std::vector<ParameterSpec> parameters() const override {
    std::vector<ParameterSpec> specs;
    for (const Convolution& c : convolutions_) {
      const double std = std::sqrt(2.0 / static_cast<double>(c.out * c.side * c.side));
      specs.push_back({c.name + ".weight", {c.out, c.in, c.side, c.side}, Init::Normal(0, std)});
      specs.push_back({c.name + ".gain", {c.out}, Init::Constant(1)});
      specs.push_back({c.name + ".bias", {c.out}, Init::Constant(0)});
    }
    return specs;
  }

  std::vector<BufferSpec> buffers() const override {
    std::vector<BufferSpec> specs;
    for (const Convolution& c : convolutions_) {
      specs.push_back({c.name + ".running_mean", {c.out}, 0});
      specs.push_back({c.name + ".running_var", {c.out}, 1});
    }
    return specs;
  }

  Tensor Forward(const UnitContext& context, const std::vector<Tensor>& p,
                 const Tensor& pictures) const override {
    const auto convolve = [&](size_t i, const Tensor& x, int64_t stride) {
      // Processors without products of 16 bits take many times as long for them: --compute.
      const auto product = context.fp32_products() ? torch::kFloat32 : p[0].scalar_type();
      const Tensor y = torch::conv2d(x.to(product), p[3 * i].to(product), /*bias=*/{}, stride,
                                     /*padding=*/convolutions_[i].side / 2)
                           .to(p[0].scalar_type());
      // In training it also moves the buffers by a tenth; the engine keeps them.
      return torch::batch_norm(y, p[3 * i + 1].to(torch::kFloat32),
                               p[3 * i + 2].to(torch::kFloat32), context.buffers()[2 * i],
                               context.buffers()[2 * i + 1], context.training(), /*momentum=*/0.1,
                               /*eps=*/1e-5, /*cudnn_enabled=*/false);
    };
    const Tensor first = torch::relu(convolve(0, pictures, stride_));
    if (!residual_) return first;
    const Tensor y = convolve(1, first, 1);
    return torch::relu(y + (convolutions_.size() > 2 ? convolve(2, pictures, stride_) : pictures));
  }

 private:
  struct Convolution {
    std::string name;
    int64_t in, out, side;
  };

  const std::string name_;
  const int64_t stride_;
  const bool residual_;
  std::vector<Convolution> convolutions_;
};

// Ends the model: the mean over each picture, a linear layer, cross-entropy.
class Classifier : public spillway::LossUnit {
 public:
  explicit Classifier(int64_t features) : features_(features) {}

  std::string name() const override { return "classifier"; }

  std::vector<ParameterSpec> parameters() const override {
    const double bound = 1 / std::sqrt(static_cast<double>(features_));
    return {{"classifier.weight", {kClasses, features_}, Init::Uniform(-bound, bound)},
            {"classifier.bias", {kClasses}, Init::Uniform(-bound, bound)}};
  }

  Tensor LossSum(const UnitContext& context, const std::vector<Tensor>& parameters, const Tensor& x,
                 const Tensor& labels) const override {
    return torch::cross_entropy_loss(Logits(context, parameters, x), labels, /*weight=*/{},
                                     at::Reduction::Sum, spillway::kIgnoredLabel);
  }

  Tensor Logits(const UnitContext& context, const std::vector<Tensor>& parameters,
                const Tensor& x) const override {
    const Tensor means = x.view({x.size(0), features_, -1}).mean(2);  // x: [rows, features * area]
    return context.Linear(means, parameters[0], parameters[1]).to(torch::kFloat32);
  }

  Tensor Judge(const UnitContext& context, const std::vector<Tensor>& parameters, const Tensor& x,
               const Tensor& labels) const override {
    return torch::stack({Logits(context, parameters, x).argmax(1), labels}, 1).to(torch::kFloat32);
  }

  std::vector<spillway::QualityMeasure> Quality(absl::Span<const spillway::Judgement> judgements,
                                                double) const override {
    return spillway::SingleLabelQuality(judgements, kClasses);
  }

 private:
  const int64_t features_;
};

spillway::Model BuildModel(int64_t width) {
  spillway::Model model;
  model.units.push_back(std::make_shared<ConvUnit>("first", 3, width, 1, false));
  int64_t in = width;
  for (int64_t stage = 0; stage < 4; ++stage) {
    for (int64_t layer = 0; layer < 2; ++layer) {
      const int64_t out = width << stage, stride = stage > 0 && layer == 0 ? 2 : 1;
      const std::string name = "stage" + std::to_string(stage) + "." + std::to_string(layer);
      model.units.push_back(std::make_shared<ConvUnit>(name, in, out, stride, true));
      in = out;
    }
  }
  model.loss = std::make_shared<Classifier>(in);
  return model;
}

// The records of CIFAR-10's binary batches (data_batch_1.bin to 5, test_batch.bin), in memory.
class Cifar : public spillway::Dataset {
 public:
  explicit Cifar(bool augment) : augment_(augment) {}

  absl::Status Add(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    if (!in) return absl::NotFoundError("cannot open " + path);
    const size_t before = bytes_.size();
    bytes_.insert(bytes_.end(), std::istreambuf_iterator<char>(in), {});
    if (bytes_.size() == before || (bytes_.size() - before) % kRecordBytes != 0) {
      return absl::InvalidArgumentError(path +
                                        " is no whole records of 3073 bytes, as the binary "
                                        "batches of CIFAR-10 are: fetch them again");
    }
    for (size_t at = before; at < bytes_.size(); at += kRecordBytes) {
      if (bytes_[at] < kClasses) continue;
      return absl::InvalidArgumentError(path + " has a label above 9: it is no CIFAR-10");
    }
    return absl::OkStatus();
  }

  int64_t size() const override { return static_cast<int64_t>(bytes_.size()) / kRecordBytes; }
  std::string fingerprint() const override {
    return "cifar " + std::to_string(spillway::Checksum(bytes_.data(), bytes_.size()));
  }

  absl::StatusOr<Batch> Get(absl::Span<const int64_t> samples) override {
    return Read(samples, std::nullopt);
  }
  absl::StatusOr<Batch> Draw(absl::Span<const int64_t> samples, int64_t first_draw) override {
    return Read(samples, augment_ ? std::optional(first_draw) : std::nullopt);
  }

 private:
  absl::StatusOr<Batch> Read(absl::Span<const int64_t> samples, std::optional<int64_t> first_draw) {
    const auto count = static_cast<int64_t>(samples.size());
    Batch batch{torch::empty({count, 3, kSide, kSide}), torch::empty({count}, torch::kInt64)};
    for (int64_t i = 0; i < count; ++i) {
      uint8_t* const record = &bytes_[samples[i] * kRecordBytes];
      batch.labels[i] = record[0];
      Tensor picture = torch::from_blob(record + 1, {3, kSide, kSide}, torch::kUInt8);
      if (first_draw) picture = Changed(picture, *first_draw + i);
      batch.inputs[i].copy_(picture.to(torch::kFloat32).div(127.5).sub(1));
    }
    return batch;
  }

  // Cut out of the picture with a black border, mirrored or not: by the number of the draw, so that
  // a run that is resumed makes the same.
  static Tensor Changed(const Tensor& picture, int64_t draw) {
    const uint64_t bits = spillway::RandomBits(/*seed=*/42, /*stream=*/0, draw);
    const Tensor wide = torch::constant_pad_nd(picture, {kBorder, kBorder, kBorder, kBorder});
    const Tensor cut = wide.narrow(1, static_cast<int64_t>(bits % (2 * kBorder + 1)), kSide)
                           .narrow(2, static_cast<int64_t>((bits >> 8) % (2 * kBorder + 1)), kSide);
    return (bits >> 63) != 0 ? cut.flip(2) : cut;
  }

  const bool augment_;
  std::vector<uint8_t> bytes_;
};

// To try it without CIFAR: stripes with noise, each class by direction and colour.
void MakeData(const std::string& path, int64_t records) {
  std::ofstream out(path, std::ios::binary);
  const Tensor across = torch::arange(kSide).to(torch::kFloat32), down = across.unsqueeze(1);
  for (int64_t i = 0; i < records; ++i) {
    auto random = at::make_generator<at::CPUGeneratorImpl>(i);
    const int64_t label = i % kClasses;
    const double angle = static_cast<double>(label) * M_PI / kClasses;
    const Tensor shift = torch::rand({1}, random) * 6;
    const Tensor wave =
        torch::sin(0.6 * (std::cos(angle) * across + std::sin(angle) * down) + shift);
    Tensor picture = 128 + 50 * wave + 40 * torch::randn({3, kSide, kSide}, random);
    picture[label % 3] += 20;
    picture = picture.clamp(0, 255).to(torch::kUInt8).contiguous();
    out.put(static_cast<char>(label));
    out.write(static_cast<const char*>(picture.data_ptr()), kRecordBytes - 1);
  }
}

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "train_resnet_cifar: %s\n", std::string(status.message()).c_str());
  return spillway::ExitCodeOf(status);
}

}  // namespace

int main(int argc, char** argv) {
  spillway::SleepingOpenMpThreads(argv);
  spillway::TrainOptions options;
  options.steps = 400;
  options.micro_batch = 128;
  options.optimizer.kind = spillway::OptimizerSpec::Kind::kSgd;
  options.optimizer.learning_rate = 0.1;
  options.optimizer.momentum = 0.9;
  options.optimizer.weight_decay = 5e-4;
  options.schedule.kind = spillway::ScheduleSpec::Kind::kCosine;
  options.clip = 0;  // so a unit is updated as soon as its gradient is there
  options.device_memory_bytes = options.host_memory_bytes = uint64_t{1} << 30;
  std::string device_memory, host_memory, made;
  std::vector<std::string> data_files, eval_files;
  int64_t width = 64;

  CLI::App app{"Trains ResNet18 on CIFAR-10 with SGD through the swap engine"};
  app.add_option("--make-data", made, "Write 2000 records like CIFAR's to this file, and end");
  app.add_option("--data", data_files, "CIFAR-10's data_batch_1.bin to data_batch_5.bin");
  app.add_option("--eval-data", eval_files, "Its test_batch.bin");
  app.add_option("--output", options.output, "Directory for metrics and commits");
  app.add_option("--steps", options.steps, "Training steps")->capture_default_str();
  app.add_option("--micro-batch", options.micro_batch, "Pictures a step")->capture_default_str();
  app.add_option("--lr", options.optimizer.learning_rate, "Learning rate")->capture_default_str();
  app.add_option("--width", width, "Channels of the first stage")->capture_default_str();
  app.add_option("--swap", options.swap_paths, "Parents for swap files; all state goes there")
      ->delimiter(',');
  app.add_option("--device-memory", device_memory, "Budget of LibTorch's memory [1GiB]");
  app.add_option("--host-memory", host_memory, "Budget of everything else [1GiB]");
  app.add_flag("--resume", options.resume, "Continue from the last commit");
  try {
    app.parse(argc, argv);
    if (made.empty() && (data_files.empty() || options.output.empty())) {
      throw CLI::RequiredError("--data and --output");
    }
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (!made.empty()) {
    MakeData(made, 2000);
    std::printf("2000 records are in %s\n", made.c_str());
    return 0;
  }
  for (auto [text, bytes] : {std::pair{&device_memory, &options.device_memory_bytes},
                             {&host_memory, &options.host_memory_bytes}}) {
    if (text->empty()) continue;
    const absl::StatusOr<uint64_t> size = spillway::ParseSize(*text);
    if (!size.ok()) return Fail(size.status());
    *bytes = *size;
  }
  if (!options.swap_paths.empty()) {
    options.offload_param = options.offload_optimizer = spillway::Offload::kNvme;
  }
  // Under torchrun, srun or mpirun: one of several ranks, each with batches of its own.
  const absl::Status joined = spillway::JoinLauncher(&options);
  if (!joined.ok()) return Fail(joined);

  Cifar data(/*augment=*/true), held_out(/*augment=*/false);
  for (auto& [files, set] : {std::pair{&data_files, &data}, {&eval_files, &held_out}}) {
    for (const std::string& file : *files) {
      if (const absl::Status status = set->Add(file); !status.ok()) return Fail(status);
    }
  }
  const auto result =
      spillway::Train(BuildModel(width), data, eval_files.empty() ? nullptr : &held_out,
                      /*weights=*/nullptr, options);
  if (!result.ok()) return Fail(result.status());
  if (options.rank == 0) {
    std::printf("step %ld: loss %.3f -> %.3f; held out %.3f, %s\n", static_cast<long>(result->step),
                result->first_loss.value_or(NAN), result->last_loss.value_or(NAN),
                result->evaluation_loss.value_or(NAN),
                spillway::QualityText(result->evaluation_quality).c_str());
  }
  return result->end == spillway::TrainResult::End::kStopped ? 75 : 0;
}
