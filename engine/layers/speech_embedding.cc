#include "engine/layers/speech_embedding.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "engine/layers/activation.h"
#include "engine/layers/transformer_part.h"
#include "engine/numeric/random.h"

namespace spillway {
namespace {

using torch::Tensor;

constexpr int kDropoutSite = 0;
constexpr int kFramesMaskSite = 1;
constexpr int kBandsMaskSite = 2;

// Where masks of one sample begin, among `length`: as many as the share asks for, the last one by
// chance, none twice.
std::vector<int64_t> MaskStarts(const UnitContext& context, int64_t row, int site,
                                const SpeechMask& mask, int64_t length) {
  const uint64_t chance = context.RandomBits(row, site, 0);
  const double uniform = static_cast<double>(chance >> 11) * 0x1p-53;
  auto count = static_cast<int64_t>(
      mask.share * static_cast<double>(length) / static_cast<double>(mask.length) + uniform);
  count = std::max(count, mask.least);
  const int64_t places = std::max<int64_t>(0, length - (mask.length - 1));
  count = std::min({count, length / mask.length, places});
  const uint64_t key = context.RandomBits(row, site, 1);
  std::vector<int64_t> starts;
  for (int64_t i = 0; i < count; ++i) {
    starts.push_back(static_cast<int64_t>(Permute(i, places, key)));
  }
  return starts;
}

class SpeechEmbeddingUnit : public Unit, TransformerPart {
 public:
  SpeechEmbeddingUnit(std::shared_ptr<const TransformerConfig> config, const TransformerUnit& unit)
      : TransformerPart(std::move(config), unit), name_(unit.name) {}

  std::string name() const override { return name_; }

  std::vector<ParameterSpec> parameters() const override { return specs_; }

  Tensor Forward(const UnitContext& context, const Parameters& p,
                 const Tensor& frames) const override {
    const Tensor heard = MaskSpeech(context, frames, *config_.speech);
    const Tensor once = Convolve(context, p, ParameterRole::kConvolution1, heard, 1);
    const Tensor twice =
        Convolve(context, p, ParameterRole::kConvolution2, once, kSpeechFramesPerPosition);
    const Tensor positions = Weight(p, ParameterRole::kPositions).narrow(0, 0, twice.size(2));
    return context.Dropout(twice.transpose(1, 2) + positions, config_.embedding_dropout,
                           kDropoutSite);
  }

 private:
  Tensor Convolve(const UnitContext& context, const Parameters& p, ParameterRole role,
                  const Tensor& x, int64_t stride) const {
    const Tensor weight = Weight(p, role), bias = Bias(p, role);
    const auto dtype = context.fp32_products() ? torch::kFloat32 : weight.scalar_type();
    const Tensor y = torch::conv1d(x.to(dtype), weight.to(dtype), bias.to(dtype), stride,
                                   /*padding=*/kSpeechKernel / 2);
    return Activate(Activation::kGelu, y.to(weight.scalar_type()));
  }

  const std::string name_;
};

}  // namespace

Tensor MaskSpeech(const UnitContext& context, const Tensor& x, const SpeechConfig& config) {
  const bool masks = config.frames_mask.share > 0 || config.bands_mask.share > 0;
  if (!context.training() || !masks) return x;
  Tensor masked = x.clone();
  const auto silence = [&](const SpeechMask& mask, int site, int64_t dimension) {
    if (mask.share == 0) return;
    for (int64_t row = 0; row < x.size(0); ++row) {
      for (const int64_t start : MaskStarts(context, row, site, mask, x.size(dimension))) {
        masked[row].narrow(dimension - 1, start, mask.length).zero_();
      }
    }
  };
  silence(config.frames_mask, kFramesMaskSite, 2);
  silence(config.bands_mask, kBandsMaskSite, 1);
  return masked;
}

std::shared_ptr<const Unit> NewSpeechEmbeddingUnit(std::shared_ptr<const TransformerConfig> config,
                                                   const TransformerUnit& unit) {
  return std::make_shared<SpeechEmbeddingUnit>(std::move(config), unit);
}

}  // namespace spillway
