#include "engine/numeric/optimizer_state.h"

#include "engine/numeric/moment_code.h"
#include "io/base/check.h"

namespace spillway {

WeightFormat WeightFormatOf(const OptimizerSpec& spec, DType dtype) {
  if (dtype == DType::kFloat32) return WeightFormat::kFloat32;
  if (dtype == DType::kFloat16) return WeightFormat::kFloat16;
  switch (spec.masters) {
    case OptimizerSpec::Masters::kExact:
      return WeightFormat::kBFloat16;
    case OptimizerSpec::Masters::k24Bit:
      return WeightFormat::kBFloat16Byte;
    case OptimizerSpec::Masters::kNone:
      return WeightFormat::kBFloat16Alone;
  }
  SPILLWAY_CHECK(false);
}

std::vector<PlaneSpec> StatePlanes(const OptimizerSpec& spec, DType dtype) {
  std::vector<PlaneSpec> planes = {{Plane::kWeight, DTypeBytes(dtype)}};
  const WeightFormat format = WeightFormatOf(spec, dtype);
  if (format == WeightFormat::kBFloat16) planes.push_back({Plane::kResidual, 2});
  if (format == WeightFormat::kBFloat16Byte) planes.push_back({Plane::kResidual, 1});
  if (format == WeightFormat::kFloat16) planes.push_back({Plane::kMaster, 4});
  const auto add = [&](Plane moment, Plane scale, uint32_t float8_bytes) {
    switch (spec.moments) {
      case MomentFormat::kFloat32:
        return planes.push_back({moment, 4});
      case MomentFormat::kBFloat16:
        return planes.push_back({moment, 2});
      case MomentFormat::kEightBit:
        planes.push_back({moment, 1});
        return planes.push_back({scale, 4, kMomentBlock});
      case MomentFormat::kFloat8:
        planes.push_back({moment, float8_bytes});
        return planes.push_back({scale, 4, kMomentBlock});
    }
  };
  if (spec.kind == OptimizerSpec::Kind::kAdafactor) return planes;
  if (spec.kind != OptimizerSpec::Kind::kSgd) {
    add(Plane::kExpAvg, Plane::kExpAvgScale, 1);
    if (spec.kind != OptimizerSpec::Kind::kLion) add(Plane::kExpAvgSq, Plane::kExpAvgSqScale, 2);
  } else if (spec.momentum != 0) {
    add(Plane::kMomentum, Plane::kMomentumScale, 1);
  }
  return planes;
}

}  // namespace spillway
