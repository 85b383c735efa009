#include "engine/torch/init_source.h"

#include <algorithm>
#include <cmath>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/numeric/random.h"

namespace spillway {
namespace {

// FNV-1a, implemented here since streams must never change.
uint64_t StreamOf(const std::string& name) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const unsigned char c : name) hash = (hash ^ c) * 0x100000001b3;
  return hash;
}

// Element `at` of sinusoidal rows of `width`.
float WaveAt(uint64_t at, int64_t width) {
  const auto half = static_cast<uint64_t>(width) / 2;
  const uint64_t position = at / width, column = at % width;
  const double step = std::log(10000.0) / static_cast<double>(std::max<uint64_t>(2, half) - 1);
  const double angle =
      static_cast<double>(position) * std::exp(-step * static_cast<double>(column % half));
  return static_cast<float>(column < half ? std::sin(angle) : std::cos(angle));
}

}  // namespace

InitSource::InitSource(const Model& model, uint64_t seed) : seed_(seed) {
  const auto add = [&](const std::vector<ParameterSpec>& specs) {
    for (const ParameterSpec& spec : specs) {
      inits_[spec.name] = {spec.init, spec.shape.empty() ? 1 : spec.shape.back()};
    }
  };
  for (const auto& unit : model.units) {
    add(unit->parameters());
    for (const BufferSpec& buffer : unit->buffers()) {
      inits_[buffer.name] = {Init::Constant(buffer.init), 1};
    }
  }
  add(model.loss->parameters());
}

absl::Status InitSource::Read(const std::string& name, uint64_t first, uint64_t count, float* out) {
  const auto found = inits_.find(name);
  if (found == inits_.end()) {
    return absl::NotFoundError(absl::StrCat("the model has no parameter ", name));
  }
  const Init& init = found->second.init;
  switch (init.kind) {
    case Init::Kind::kConstant:
      std::fill(out, out + count, static_cast<float>(init.a));
      break;
    case Init::Kind::kNormal:
      FillNormal(seed_, StreamOf(name), first, count, init.a, init.b, out);
      break;
    case Init::Kind::kUniform:
      FillUniform(seed_, StreamOf(name), first, count, init.a, init.b, out);
      break;
    case Init::Kind::kWaves:
      for (uint64_t i = 0; i < count; ++i) out[i] = WaveAt(first + i, found->second.width);
      break;
  }
  if (init.zero_row >= 0) {
    const uint64_t width = found->second.width, row = init.zero_row * width;
    for (uint64_t i = std::max(first, row); i < std::min(first + count, row + width); ++i) {
      out[i - first] = 0;
    }
  }
  return absl::OkStatus();
}

}  // namespace spillway
