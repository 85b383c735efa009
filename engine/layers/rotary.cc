#include "engine/layers/rotary.h"

#include <torch/autograd.h>

#include <algorithm>
#include <cmath>

namespace spillway {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Scaling = RotaryConfig::Scaling;

constexpr double kPi = 3.14159265358979323846;

// base^(2 i / size) for i from 0 on, in fp32 as in transformers.
Tensor Wavelengths(const RotaryConfig& config, double base, const torch::Device& where) {
  const Tensor exponents =
      torch::arange(0, config.size, 2, torch::TensorOptions(where).dtype(torch::kFloat32)) /
      config.size;
  return torch::pow(base, exponents);
}

// YaRN (arXiv 2309.00071, section 3.2): dimensions with high frequencies keep them, those with low
// frequencies are interpolated.
Tensor YarnFrequencies(const RotaryConfig& config, const torch::Device& where) {
  const auto dimension = [&](double turns) {
    return static_cast<double>(config.size) *
           std::log(static_cast<double>(config.positions) / (turns * 2 * kPi)) /
           (2 * std::log(config.base));
  };
  double low = dimension(config.beta_fast), high = dimension(config.beta_slow);
  if (config.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(config.size - 1));
  if (low == high) high += 0.001;
  const Tensor ramp =
      ((torch::arange(config.size / 2, torch::TensorOptions(where).dtype(torch::kFloat32)) - low) /
       (high - low))
          .clamp(0, 1);
  const Tensor kept = 1 - ramp;
  const Tensor wavelengths = Wavelengths(config, config.base, where);
  return 1 / (config.factor * wavelengths) * (1 - kept) + 1 / wavelengths * kept;
}

Tensor Llama3Frequencies(const RotaryConfig& config, const torch::Device& where) {
  const Tensor plain = 1 / Wavelengths(config, config.base, where);
  const double context = static_cast<double>(config.positions);
  const double low = config.low_frequency_factor, high = config.high_frequency_factor;
  const Tensor wavelength = 2 * kPi / plain;
  const Tensor is_long = wavelength > context / low;
  const Tensor scaled = torch::where(is_long, plain / config.factor, plain);
  const Tensor smooth = (context / wavelength - low) / (high - low);
  const Tensor mixed = (1 - smooth) * scaled / config.factor + smooth * scaled;
  const Tensor between = (wavelength < context / high).logical_or(is_long).logical_not();
  return torch::where(between, mixed, scaled);
}

// LongRoPE, as in transformers' _compute_longrope_parameters: each pair has a factor of its own,
// and a second one for texts longer than those of pre-training.
Tensor LongRopeFrequencies(const RotaryConfig& config, int64_t length, const torch::Device& where) {
  const std::vector<double>& factors =
      length > config.positions ? config.long_factors : config.short_factors;
  const Tensor scales = torch::tensor(factors, torch::kFloat64).to(torch::kFloat32).to(where);
  return 1 / (scales * Wavelengths(config, config.base, where));
}

// `length`: of the text so far.
Tensor FrequenciesOf(const RotaryConfig& config, int64_t length, const torch::Device& where) {
  switch (config.scaling) {
    case Scaling::kNone:
      return 1 / Wavelengths(config, config.base, where);
    case Scaling::kLinear:
      return 1 / Wavelengths(config, config.base, where) / config.factor;
    case Scaling::kDynamic: {
      const double longer = static_cast<double>(std::max(length, config.positions)) /
                            static_cast<double>(config.positions);
      const double size = static_cast<double>(config.size);
      const double stretch = config.factor * longer - (config.factor - 1);
      return 1 / Wavelengths(config, config.base * std::pow(stretch, size / (size - 2)), where);
    }
    case Scaling::kLlama3:
      return Llama3Frequencies(config, where);
    case Scaling::kYarn:
      return YarnFrequencies(config, where);
    case Scaling::kLong:
      return LongRopeFrequencies(config, length, where);
  }
  TORCH_CHECK(false, "unknown RoPE scaling");
}

// `sign` -1 rotates backwards.
Tensor Turn(const Tensor& x, const Tensor& cosines, const Tensor& sines, double sign) {
  const int64_t half = cosines.size(-1);
  const Tensor wide = x.narrow(-1, 0, 2 * half).to(torch::kFloat32);
  const Tensor left = wide.narrow(-1, 0, half), right = wide.narrow(-1, half, half);
  const Tensor c = cosines.unsqueeze(-2), s = sines.unsqueeze(-2) * sign;  // [.., T, 1, half]
  Tensor out = torch::empty(x.sizes(), x.options());
  out.narrow(-1, 0, half).copy_(left * c - right * s);
  out.narrow(-1, half, half).copy_(right * c + left * s);
  const int64_t rest = x.size(-1) - 2 * half;
  if (rest > 0) out.narrow(-1, 2 * half, rest).copy_(x.narrow(-1, 2 * half, rest));
  return out;
}

class RotateFunction : public torch::autograd::Function<RotateFunction> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& cosines,
                        const Tensor& sines) {
    context->save_for_backward({cosines, sines});
    return Turn(x, cosines, sines, 1);
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    return {Turn(gradients[0], saved[0], saved[1], -1), Tensor(), Tensor()};
  }
};

}  // namespace

RotaryAngles AnglesOf(const RotaryConfig& config, int64_t first, int64_t count,
                      const torch::Device& where) {
  torch::NoGradGuard no_grad;
  const Tensor positions =
      torch::arange(first, first + count, torch::TensorOptions(where).dtype(torch::kFloat32));
  const Tensor angles = torch::outer(positions, FrequenciesOf(config, first + count, where));
  const double scale = config.attention_factor;
  return {angles.cos() * scale, angles.sin() * scale};
}

RotaryAngles AnglesOfTexts(const RotaryConfig& config, const std::vector<int64_t>& texts,
                           const torch::Device& where) {
  torch::NoGradGuard no_grad;
  const int64_t longest = *std::max_element(texts.begin(), texts.end());
  const RotaryAngles most = AnglesOf(config, 0, longest, where);
  std::vector<Tensor> cosines, sines;
  for (const int64_t text : texts) {
    const RotaryAngles own = config.by_length() ? AnglesOf(config, 0, text, where)
                                                : RotaryAngles{most.cosines.narrow(0, 0, text),
                                                               most.sines.narrow(0, 0, text)};
    cosines.push_back(own.cosines);
    sines.push_back(own.sines);
  }
  return {torch::cat(cosines), torch::cat(sines)};
}

Tensor Rotate(const Tensor& x, const RotaryAngles& angles) {
  return RotateFunction::apply(x, angles.cosines, angles.sines);
}

}  // namespace spillway
