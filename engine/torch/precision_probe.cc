#include "engine/torch/precision_probe.h"

#include <ATen/Context.h>
#include <ATen/Version.h>
#include <torch/autograd.h>
#include <torch/types.h>
#include <torch/version.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "engine/estimate/profile_file.h"
#include "engine/machine/machine_facts.h"
#include "engine/torch/block_attention.h"
#include "engine/torch/cross_entropy.h"
#include "engine/torch/guarded.h"
#include "engine/torch/tensor_views.h"
#include "io/base/clock.h"
#include "io/base/log.h"
#include "io/base/status.h"

namespace spillway {
namespace {

using Kind = MeasuredProduct::Kind;
using torch::Tensor;

// Larger products run at the same rate as these.
constexpr int64_t kMostRows = 256, kMostFeatures = 1024, kMostVocabulary = 4096;
constexpr int64_t kMostChannels = 128, kMostPictures = 4;
constexpr int64_t kLossRows = 128;
constexpr int64_t kMeasuredHeads = 4, kMeasuredHeadSize = 64;
// Rounds over all products in both precisions; the first one starts threads and builds kernels.
constexpr int kMostRounds = 5;
constexpr double kMostProbeSeconds = 0.8;

// Adds a product of the full sizes to a measured product with the same shape.
class ProductList {
 public:
  void Add(Kind kind, double rows, double in, double out, int64_t kernel = 1) {
    const int64_t most = kind == Kind::kConvolution ? kMostChannels : kMostFeatures;
    const auto at_most = [](double size, int64_t limit) {
      return std::max<int64_t>(1, static_cast<int64_t>(std::min<double>(size, limit)));
    };
    MeasuredProduct cut;
    cut.kind = kind;
    cut.kernel = kernel;
    cut.rows = at_most(rows, kind == Kind::kConvolution ? kMostPictures
                             : kind == Kind::kLoss      ? kLossRows
                                                        : kMostRows);
    cut.in = at_most(in, most);
    cut.out = at_most(out, kind == Kind::kLoss ? kMostVocabulary : most);
    const double times = rows * in * out / (1.0 * cut.rows * cut.in * cut.out);
    all_[{kind, cut.rows, cut.in, cut.out, kernel}] += times;
  }

  // Adds softmax(q k^T) v of `samples` texts.
  void AddAttention(double samples, double length, double width) {
    const auto rows = std::min<int64_t>(static_cast<int64_t>(length), kMostRows);
    const double whole = samples * length * length * width;
    const double cut = 1.0 * rows * rows * kMeasuredHeads * kMeasuredHeadSize;
    all_[{Kind::kAttention, rows, 0, 0, 1}] += whole / cut;
  }

  std::vector<MeasuredProduct> Take() const {
    std::vector<MeasuredProduct> products;
    for (const auto& [key, times] : all_) {
      const auto& [kind, rows, in, out, kernel] = key;
      products.push_back({kind, rows, in, out, kernel, times});
    }
    return products;
  }

 private:
  std::map<std::tuple<Kind, int64_t, int64_t, int64_t, int64_t>, double> all_;
};

// One forward and backward of `product`, as in a layer of the run.
class ProductRun {
 public:
  ProductRun(const MeasuredProduct& product, torch::ScalarType type) : product_(product) {
    const auto filled = [&](at::IntArrayRef sizes) {
      return torch::full(sizes, 0.01, torch::TensorOptions().dtype(type)).requires_grad_();
    };
    const int64_t size = MeasuredProduct::kPictureSize;
    switch (product.kind) {
      case Kind::kLinear:
        x_ = filled({product.rows, product.in});
        weight_ = filled({product.out, product.in});
        break;
      case Kind::kConvolution:
        x_ = filled({product.rows, product.in, size, size});
        weight_ = filled({product.out, product.in, product.kernel, product.kernel});
        break;
      case Kind::kLoss:
        x_ = filled({product.rows, product.in});
        weight_ = filled({product.out, product.in});
        labels_ = torch::zeros({product.rows}, torch::kLong);
        break;
      case Kind::kAttention:
        x_ = filled({1, product.rows, 3 * kMeasuredHeads * kMeasuredHeadSize});
        break;
    }
  }

  void Run(Products products) {
    const UnitContext context(/*seed=*/0, /*step=*/1, /*unit=*/0, {0}, /*training=*/true, products);
    const Tensor y = Forward(context, products.in_fp32);
    y.backward(torch::ones_like(y));
    x_.mutable_grad() = Tensor();
    if (weight_.defined()) weight_.mutable_grad() = Tensor();
  }

 private:
  Tensor Forward(const UnitContext& context, bool in_fp32) const {
    switch (product_.kind) {
      case Kind::kLinear:
        return context.Linear(x_, weight_);
      case Kind::kConvolution:
        return context.Convolve(x_, weight_, 1, product_.kernel / 2);
      case Kind::kLoss:
        return CrossEntropySum(x_, weight_, labels_, in_fp32);
      case Kind::kAttention:
        break;
    }
    AttentionOptions options;
    options.heads = options.key_value_heads = kMeasuredHeads;
    options.scale = 0.125;
    options.fp32_products = in_fp32;
    if (in_fp32) return AttendInBlocks(context, x_, options);
    const std::vector<Tensor> parts =
        x_.view({1, product_.rows, 3, kMeasuredHeads, kMeasuredHeadSize}).transpose(1, 3).unbind(2);
    return torch::scaled_dot_product_attention(parts[0], parts[1], parts[2], /*attn_mask=*/{},
                                               /*dropout_p=*/0, /*is_causal=*/true, options.scale);
  }

  MeasuredProduct product_;
  Tensor x_, weight_, labels_;
};

// Everything that affects the measured seconds, as a key of the machine's profile.
std::string ProfileKeyOf(const std::vector<MeasuredProduct>& products,
                         const TrainOptions& options) {
  std::string key = absl::StrCat(
      ProbeProcessor().cpu, ", LibTorch ", TORCH_VERSION, ", ", at::get_cpu_capability(), ", ",
      options.threads, options.threads == 1 ? " thread, " : " threads, ", DTypeName(options.dtype));
  for (const char* name : {"ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"}) {
    if (const char* value = std::getenv(name)) absl::StrAppend(&key, ", at most ", value);
  }
  for (const MeasuredProduct& p : products) {
    absl::StrAppendFormat(&key, ", %.3g x %dx%dx%d", p.times, p.rows, p.in, p.out);
    if (p.kind == Kind::kConvolution) absl::StrAppend(&key, " kernels of ", p.kernel);
  }
  return key;
}

// The shape of the largest matrix that `unit` reads, its own or a borrowed one; {}: none.
std::vector<int64_t> LargestMatrix(const ModelDescription& model, int unit) {
  std::vector<int64_t> largest;
  int64_t most = 0;
  const auto look = [&](const ParameterDescription& parameter) {
    const std::vector<int64_t>& shape = parameter.shape;
    if (shape.size() != 2 || shape[0] * shape[1] <= most) return;
    most = shape[0] * shape[1];
    largest = shape;
  };
  if (unit < 0) return largest;
  for (const ParameterDescription& parameter : model.units[unit].parameters) look(parameter);
  for (const int other : model.units[unit].borrows) {
    for (const ParameterDescription& parameter : model.units[other].parameters) look(parameter);
  }
  return largest;
}

// Samples and length of a micro-batch, from the data's largest batch.
absl::StatusOr<std::pair<int64_t, int64_t>> BatchShapeOf(Dataset& data, int64_t micro_batch) {
  ASSIGN_OR_RETURN(const std::optional<Batch> largest, data.Largest(1));
  Tensor inputs;
  if (largest) {
    inputs = largest->inputs;
  } else {
    ASSIGN_OR_RETURN(const Batch first, data.Get({0}));
    inputs = first.inputs;
  }
  const bool has_tokens = inputs.dim() == 2;
  return std::make_pair(micro_batch, has_tokens ? inputs.size(1) : int64_t{1});
}

// The times in the profile, or new ones, which are saved there.
absl::StatusOr<PrecisionSeconds> FindPrecisions(const std::vector<MeasuredProduct>& products,
                                                const TrainOptions& options,
                                                const std::string& profile_path) {
  const std::string key = ProfileKeyOf(products, options);
  const MachineIdentity machine = ThisMachine();
  const LoadedProfile loaded = LoadProfile(profile_path, machine);
  const int64_t now = absl::ToUnixSeconds(absl::Now());
  if (const auto kept = loaded.profile.FindProducts(key, now)) {
    return PrecisionSeconds{kept->own_seconds, kept->fp32_seconds};
  }
  ASSIGN_OR_RETURN(const PrecisionSeconds seconds,
                   MeasurePrecisions(products, options.dtype, MonotonicSeconds));
  MachineProfile measured;
  measured.SetProducts(key, {seconds.own, seconds.fp32, now});
  // Without a profile each run measures them.
  if (!profile_path.empty()) {
    if (const absl::Status saved = SaveProfile(profile_path, machine, measured); !saved.ok()) {
      LogInfo(absl::StrCat("measured rates of products are not kept: ", saved.message()));
    }
  }
  return seconds;
}

// The dtype of products in an identity; none if it has none.
std::optional<DType> ComputeIn(const std::vector<std::pair<std::string, std::string>>& identity) {
  for (const auto& [name, value] : identity) {
    if (name != "compute") continue;
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
      if (absl::EndsWith(value, DTypeName(dtype))) return dtype;
    }
  }
  return std::nullopt;
}

// Encoded for FromFirstRank: the dtype and, after a colon, the reason.
absl::StatusOr<std::string> Decide(const ModelDescription& model, Dataset& data, bool on_gpu,
                                   const std::vector<std::pair<std::string, std::string>>* identity,
                                   const TrainOptions& options, const NativeProducts& native) {
  if (!IsComputeMeasured(options.dtype, on_gpu, native)) {
    return std::string(DTypeName(ChooseCompute(std::nullopt, options.dtype, on_gpu, native)));
  }
  if (const auto kept = identity ? ComputeIn(*identity) : std::nullopt) {
    return absl::StrCat(DTypeName(*kept), ":as in the commit that the run resumes");
  }
  const ProfilePlace profile = FindProfile();
  if (profile.off) return std::string(DTypeName(options.dtype));
  ASSIGN_OR_RETURN(const auto shape, BatchShapeOf(data, options.micro_batch));
  const std::vector<MeasuredProduct> products = ProductsOf(model, shape.first, shape.second);
  if (products.empty()) return std::string(DTypeName(options.dtype));
  ASSIGN_OR_RETURN(const PrecisionSeconds seconds, FindPrecisions(products, options, profile.path));
  const bool fp32 = seconds.fp32 < seconds.own;
  const absl::string_view own = DTypeName(options.dtype);
  return absl::StrFormat(
      "%s:measured here, this model's products take %.2f times as long in %s", fp32 ? "fp32" : own,
      fp32 ? seconds.own / seconds.fp32 : seconds.fp32 / seconds.own, fp32 ? own : "fp32");
}

}  // namespace

std::vector<MeasuredProduct> ProductsOf(const ModelDescription& model, int64_t samples,
                                        int64_t length) {
  ProductList list;
  const double rows = static_cast<double>(samples) * static_cast<double>(length);
  const int last = model.num_computing() - 1;
  for (int unit = 0; unit <= last; ++unit) {
    int matrices = 0;
    int64_t width = 0;
    for (int i = 0; i < model.NumParameters(unit); ++i) {
      const ParameterPlace place = model.PlaceOf(unit, i);
      const ParameterDescription& parameter = model.units[place.unit].parameters[place.parameter];
      const std::vector<int64_t>& shape = parameter.shape;
      if (shape.size() == 4) {
        list.Add(Kind::kConvolution, static_cast<double>(samples), static_cast<double>(shape[1]),
                 static_cast<double>(shape[0]), shape[2]);
      }
      if (shape.size() != 2 || unit == 0 || unit == last) continue;
      const bool transposed = parameter.linear == LinearWeight::kInOut;
      const int64_t in = shape[transposed ? 0 : 1], out = shape[transposed ? 1 : 0];
      if (++matrices == 1) width = in;
      list.Add(Kind::kLinear, rows, static_cast<double>(in), static_cast<double>(out));
    }
    // Queries, keys and values, their output, and an MLP.
    constexpr int kMatricesOfLayer = 4;
    if (matrices >= kMatricesOfLayer && length > 1) {
      list.AddAttention(static_cast<double>(samples), static_cast<double>(length),
                        static_cast<double>(width));
    }
  }
  const std::vector<int64_t> head = LargestMatrix(model, last);
  if (!head.empty()) {
    list.Add(Kind::kLoss, rows, static_cast<double>(head[1]), static_cast<double>(head[0]));
  }
  return list.Take();
}

absl::StatusOr<PrecisionSeconds> MeasurePrecisions(const std::vector<MeasuredProduct>& products,
                                                   DType dtype,
                                                   const std::function<double()>& clock) {
  struct Least {
    double own = 0, fp32 = 0;
  };
  std::vector<Least> least(products.size());
  const auto measure = [&]() -> absl::Status {
    const double began = clock();
    for (int round = 0; round < kMostRounds; ++round) {
      for (size_t i = 0; i < products.size(); ++i) {
        ProductRun run(products[i], ScalarTypeOf(dtype));
        const auto timed = [&](bool in_fp32, double& seconds) {
          const double start = clock();
          run.Run({.in_fp32 = in_fp32});
          const double taken = clock() - start;
          seconds = round < 2 ? taken : std::min(seconds, taken);
        };
        timed(false, least[i].own);
        timed(true, least[i].fp32);
      }
      if ((clock() - began) * (round + 2) / (round + 1) > kMostProbeSeconds) break;
    }
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(Guarded(*HostTorchMemory(), "measuring products for --compute auto", measure));
  PrecisionSeconds seconds;
  for (size_t i = 0; i < products.size(); ++i) {
    seconds.own += least[i].own * products[i].times;
    seconds.fp32 += least[i].fp32 * products[i].times;
  }
  return seconds;
}

absl::Status ChooseComputeByMeasuring(
    const ModelDescription& model, Dataset& data, bool on_gpu,
    const std::vector<std::pair<std::string, std::string>>* identity, Collectives* world,
    TrainOptions* options, const NativeProducts& native) {
  if (options->compute) return absl::OkStatus();
  std::string decided;
  absl::Status status;
  if (options->rank == 0) {
    const absl::StatusOr<std::string> chosen =
        Decide(model, data, on_gpu, identity, *options, native);
    if (chosen.ok()) decided = *chosen;
    status = chosen.status();
  }
  RETURN_IF_ERROR(AgreeAll(world, status));
  if (world != nullptr) {
    ASSIGN_OR_RETURN(decided, FromFirstRank(*world, decided));
  }
  const size_t colon = decided.find(':');
  options->compute = absl::StartsWith(decided, "fp32") ? DType::kFloat32 : options->dtype;
  options->compute_reason = colon == std::string::npos ? "" : decided.substr(colon + 1);
  return absl::OkStatus();
}

}  // namespace spillway
