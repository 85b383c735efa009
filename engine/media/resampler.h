// Converts audio to another rate with soxr's best quality. soxr is loaded on first use: it brings
// OpenMP along, which reads its wait policy when it is loaded (engine/machine/process_setup.h).
#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

struct soxr;

namespace spillway {

// Converts one channel in fp32. One thread.
class Resampler {
 public:
  // Rates in samples a second, above 0. kUnavailable without soxr, with the remedy.
  static absl::StatusOr<std::unique_ptr<Resampler>> Create(double from_rate, double to_rate);

  // Converts `samples` and appends the output that is available. kInternal if soxr fails.
  absl::Status Convert(absl::Span<const float> samples, std::vector<float>* converted);
  // Ends the audio and appends the rest.
  absl::Status Finish(std::vector<float>* converted);

 private:
  using Converter = std::unique_ptr<soxr, void (*)(soxr*)>;

  Resampler(Converter converter, double ratio) : converter_(std::move(converter)), ratio_(ratio) {}
  // Passes `samples` to soxr; null at the end.
  absl::Status Process(const float* samples, size_t count, std::vector<float>* converted);

  const Converter converter_;
  const double ratio_;  // output samples per input sample
};

}  // namespace spillway
