#include "engine/media/resampler.h"

#include <dlfcn.h>
#include <soxr.h>

#include <cmath>

#include "absl/strings/str_cat.h"
#include "io/base/status.h"

namespace spillway {
namespace {

// The functions of the library that are called here.
struct Soxr {
  decltype(&soxr_create) create = nullptr;
  decltype(&soxr_quality_spec) quality_spec = nullptr;
  decltype(&soxr_process) process = nullptr;
  decltype(&soxr_delete) destroy = nullptr;
};

absl::StatusOr<Soxr> Load() {
  constexpr char kLibrary[] = "libsoxr.so.0";
  Soxr soxr;
  if (void* const library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL)) {
    soxr.create = reinterpret_cast<decltype(soxr.create)>(dlsym(library, "soxr_create"));
    soxr.quality_spec =
        reinterpret_cast<decltype(soxr.quality_spec)>(dlsym(library, "soxr_quality_spec"));
    soxr.process = reinterpret_cast<decltype(soxr.process)>(dlsym(library, "soxr_process"));
    soxr.destroy = reinterpret_cast<decltype(soxr.destroy)>(dlsym(library, "soxr_delete"));
    if (soxr.create && soxr.quality_spec && soxr.process && soxr.destroy) return soxr;
  }
  const char* const why = dlerror();
  return absl::UnavailableError(absl::StrCat(
      "converting a sound to another rate needs ", kLibrary, ": ", why == nullptr ? "" : why,
      "; install libsoxr0 (Debian's name), or convert the files to 16,000 samples a second"));
}

const absl::StatusOr<Soxr>& Loaded() {
  static const absl::StatusOr<Soxr> loaded = Load();
  return loaded;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Resampler>> Resampler::Create(double from_rate, double to_rate) {
  RETURN_IF_ERROR(Loaded().status());
  const soxr_quality_spec_t best = Loaded()->quality_spec(SOXR_VHQ, 0);
  soxr_error_t error = nullptr;
  Converter converter(Loaded()->create(from_rate, to_rate, 1, &error, nullptr, &best, nullptr),
                      Loaded()->destroy);
  if (error != nullptr) return absl::InternalError(absl::StrCat("soxr cannot convert it: ", error));
  return std::unique_ptr<Resampler>(new Resampler(std::move(converter), to_rate / from_rate));
}

absl::Status Resampler::Convert(absl::Span<const float> samples, std::vector<float>* converted) {
  return samples.empty() ? absl::OkStatus() : Process(samples.data(), samples.size(), converted);
}

absl::Status Resampler::Finish(std::vector<float>* converted) {
  return Process(nullptr, 0, converted);
}

absl::Status Resampler::Process(const float* samples, size_t count, std::vector<float>* converted) {
  constexpr size_t kAtOnce = 1 << 14;
  const size_t room = static_cast<size_t>(std::ceil(kAtOnce * ratio_)) + 64;
  size_t used = 0;
  while (true) {
    const size_t begin = converted->size();
    converted->resize(begin + room);
    size_t taken = 0, made = 0;
    const soxr_error_t error =
        Loaded()->process(converter_.get(), samples == nullptr ? nullptr : samples + used,
                          count - used, &taken, converted->data() + begin, room, &made);
    converted->resize(begin + made);
    if (error != nullptr) return absl::InternalError(absl::StrCat("soxr failed: ", error));
    used += taken;
    // At the end (no samples) soxr returns its buffered output, until it returns nothing.
    if (samples == nullptr ? made == 0 : used == count) return absl::OkStatus();
  }
}

}  // namespace spillway
