#include "engine/media/log_mel.h"

#include <fftw3.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "io/base/check.h"

namespace spillway {
namespace {

constexpr int64_t kWindow = 400;  // samples of a frame
constexpr int64_t kFrequencies = kWindow / 2 + 1;
constexpr double kSamplesPerSecond = 16000;
constexpr double kPi = 3.14159265358979323846;

// Slaney's scale: linear up to 1 kHz, logarithmic above.
constexpr double kLinearHertz = 1000, kLinearMel = 15, kHertzPerMel = 200.0 / 3;
const double kLogStep = std::log(6.4) / 27;

double MelOf(double hertz) {
  return hertz < kLinearHertz ? hertz / kHertzPerMel
                              : kLinearMel + std::log(hertz / kLinearHertz) / kLogStep;
}
double HertzOf(double mel) {
  return mel < kLinearMel ? mel * kHertzPerMel
                          : kLinearHertz * std::exp(kLogStep * (mel - kLinearMel));
}

// Index of sample `i` in a sound that is padded with its mirror image by half a window on both
// sides.
int64_t Mirrored(int64_t i, int64_t length) {
  const int64_t at = std::abs(i - kWindow / 2);
  return at < length ? at : 2 * (length - 1) - at;
}

}  // namespace

// Created once: any thread may execute FFTW's plans, but only one may create them.
struct LogMel::Transform {
  Transform() {
    std::vector<double> in(kWindow);
    std::vector<fftw_complex> out(kFrequencies);
    static const fftw_plan& once = *new fftw_plan(
        fftw_plan_dft_r2c_1d(kWindow, in.data(), out.data(), FFTW_ESTIMATE | FFTW_UNALIGNED));
    plan = once;
  }
  fftw_plan plan;
};

LogMel::LogMel(int64_t bands) : bands_(bands), transform_(std::make_unique<Transform>()) {
  SPILLWAY_CHECK(bands >= 1);
  for (int64_t i = 0; i < kWindow; ++i) {
    window_.push_back(0.5 - 0.5 * std::cos(2 * kPi * static_cast<double>(i) / kWindow));
  }
  // Triangles between neighbours evenly spaced on the scale, of equal area.
  const double highest = MelOf(kSamplesPerSecond / 2);
  std::vector<double> edges;
  for (int64_t i = 0; i < bands + 2; ++i) {
    edges.push_back(HertzOf(highest * static_cast<double>(i) / static_cast<double>(bands + 1)));
  }
  for (int64_t band = 0; band < bands; ++band) {
    const double low = edges[band], middle = edges[band + 1], high = edges[band + 2];
    Band filter;
    for (int64_t k = 0; k < kFrequencies; ++k) {
      const double hertz = kSamplesPerSecond / kWindow * static_cast<double>(k);
      const double height =
          std::min((hertz - low) / (middle - low), (high - hertz) / (high - middle));
      if (height <= 0) {
        if (filter.weights.empty()) continue;
        break;
      }
      if (filter.weights.empty()) filter.first = k;
      filter.weights.push_back(height * 2 / (high - low));
    }
    filters_.push_back(std::move(filter));
  }
}

LogMel::~LogMel() = default;

void LogMel::Compute(absl::Span<const float> samples, int64_t frames, float* out) const {
  SPILLWAY_CHECK(frames >= 2);
  const int64_t length = frames * kMelHop;
  const auto given = std::min<int64_t>(length, samples.size());
  std::vector<double> frame(kWindow), energy(kFrequencies);
  std::vector<fftw_complex> spectrum(kFrequencies);
  float loudest = -std::numeric_limits<float>::infinity();
  for (int64_t t = 0; t < frames; ++t) {
    for (int64_t i = 0; i < kWindow; ++i) {
      const int64_t at = Mirrored(t * kMelHop + i, length);
      frame[i] = at < given ? window_[i] * static_cast<double>(samples[at]) : 0;
    }
    fftw_execute_dft_r2c(transform_->plan, frame.data(), spectrum.data());
    for (int64_t k = 0; k < kFrequencies; ++k) {
      energy[k] = spectrum[k][0] * spectrum[k][0] + spectrum[k][1] * spectrum[k][1];
    }
    for (int64_t band = 0; band < bands_; ++band) {
      const Band& filter = filters_[band];
      double sum = 0;
      for (size_t k = 0; k < filter.weights.size(); ++k) {
        sum += filter.weights[k] * energy[filter.first + static_cast<int64_t>(k)];
      }
      const auto logarithm = static_cast<float>(std::log10(std::max(sum, 1e-10)));
      out[band * frames + t] = logarithm;
      loudest = std::max(loudest, logarithm);
    }
  }
  for (int64_t i = 0; i < bands_ * frames; ++i) {
    out[i] = (std::max(out[i], loudest - 8) + 4) / 4;
  }
}

}  // namespace spillway
