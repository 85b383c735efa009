#include "engine/layers/relative_bias.h"

#include <cmath>
#include <utility>

#include "engine/layers/transformer_part.h"

namespace spillway {
namespace {

using torch::Tensor;

class RelativeBiasUnit : public Unit, TransformerPart {
 public:
  RelativeBiasUnit(std::shared_ptr<const TransformerConfig> config, const TransformerUnit& unit,
                   std::string input)
      : TransformerPart(std::move(config), unit), name_(unit.name), input_(std::move(input)) {}

  std::string name() const override { return name_; }

  std::string input() const override { return input_; }

  std::vector<ParameterSpec> parameters() const override { return specs_; }

  Tensor Forward(const UnitContext& context, const Parameters& p, const Tensor& x) const override {
    return BiasesOf(p, x.size(1));
  }

  int64_t KeptPerPosition() const override { return 0; }

  // Of all positions so far.
  Tensor ForwardNext(const UnitContext& context, const Parameters& p, const Tensor& x,
                     const TextPosition& at) const override {
    return BiasesOf(p, at.first + x.size(1));
  }

 private:
  Tensor BiasesOf(const Parameters& p, int64_t positions) const {
    const Tensor table = Weight(p, ParameterRole::kRelativeBias);
    Tensor buckets = BucketsOfDistances(positions, positions, config_.relative_buckets,
                                        config_.relative_distance, config_.causal);
    // A copy from memory that is not pinned would wait for the stream.
    if (table.is_cuda()) buckets = buckets.pin_memory();
    buckets = buckets.to(table.device(), /*non_blocking=*/true);
    // A product with ones and zeros, so that gradients of a bucket are summed in fp32 in an order
    // that nothing changes.
    const Tensor picked = torch::one_hot(buckets, config_.relative_buckets).to(torch::kFloat32);
    return torch::matmul(table.t().to(torch::kFloat32), picked.t()).to(table.scalar_type());
  }

  const std::string name_, input_;
};

}  // namespace

Tensor BucketsOfDistances(int64_t queries, int64_t keys, int64_t buckets, int64_t farthest,
                          bool causal) {
  const Tensor distances = torch::arange(1 - queries, keys, torch::kInt64);
  Tensor first = torch::zeros_like(distances);  // of the buckets of the distance's side
  Tensor far;
  if (causal) {
    far = -distances.clamp_max(0);
  } else {
    buckets /= 2;
    first = distances.gt(0).to(torch::kInt64) * buckets;
    far = distances.abs();
  }
  // In fp32 step by step, as transformers' _relative_position_bucket.
  const int64_t exact = buckets / 2;
  const double ranges = std::log(static_cast<double>(farthest) / static_cast<double>(exact));
  const Tensor ranged =
      exact +
      (torch::log(far.to(torch::kFloat32) / exact) / ranges * (buckets - exact)).to(torch::kInt64);
  return first + torch::where(far.lt(exact), far, ranged.clamp_max(buckets - 1));
}

std::shared_ptr<const Unit> NewRelativeBiasUnit(std::shared_ptr<const TransformerConfig> config,
                                                const TransformerUnit& unit, std::string input) {
  return std::make_shared<RelativeBiasUnit>(std::move(config), unit, std::move(input));
}

}  // namespace spillway
