// Sound at another rate, by soxr at its best quality. soxr is loaded by who first needs it: it
// brings OpenMP along, which reads how its threads wait when it is loaded
// (engine/machine/process_setup.h).
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

// One channel, fp32. One thread.
class Resampler {
 public:
  // Rates in samples a second, above 0. kUnavailable without soxr, with what to do about it.
  static absl::StatusOr<std::unique_ptr<Resampler>> Create(double from_rate, double to_rate);

  // Takes all of `samples` and appends what is converted by then. kInternal where soxr fails.
  absl::Status Convert(absl::Span<const float> samples, std::vector<float>* converted);
  // The sound has ended: appends what is left.
  absl::Status Finish(std::vector<float>* converted);

 private:
  using Converter = std::unique_ptr<soxr, void (*)(soxr*)>;

  Resampler(Converter converter, double ratio) : converter_(std::move(converter)), ratio_(ratio) {}
  // Gives soxr `samples`, null at the end.
  absl::Status Process(const float* samples, size_t count, std::vector<float>* converted);

  const Converter converter_;
  const double ratio_;  // samples that come out over those that go in
};

}  // namespace spillway
