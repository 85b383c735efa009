// Sounds as files, for tests.
#pragma once

#include <sndfile.h>

#include <cmath>
#include <string>
#include <vector>

#include "io/base/check.h"

namespace spillway {

struct SoundFormat {
  int rate = 16000, channels = 1;
  int format = SF_FORMAT_WAV | SF_FORMAT_FLOAT;
};

// `samples`: frames side by side.
inline void WriteSound(const std::string& path, const std::vector<float>& samples,
                       const SoundFormat& sound = {}) {
  SF_INFO info = {};
  info.samplerate = sound.rate;
  info.channels = sound.channels;
  info.format = sound.format;
  SNDFILE* const file = sf_open(path.c_str(), SFM_WRITE, &info);
  SPILLWAY_CHECK(file != nullptr);
  const auto frames = static_cast<sf_count_t>(samples.size()) / sound.channels;
  SPILLWAY_CHECK(sf_writef_float(file, samples.data(), frames) == frames);
  sf_close(file);
}

// A tone of `hertz`, `count` samples at `rate`.
inline std::vector<float> Tone(double hertz, int64_t count, double rate = 16000) {
  std::vector<float> samples;
  for (int64_t t = 0; t < count; ++t) {
    samples.push_back(static_cast<float>(
        0.5 * std::sin(2 * 3.14159265358979323846 * hertz * static_cast<double>(t) / rate)));
  }
  return samples;
}

}  // namespace spillway
