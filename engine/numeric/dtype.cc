#include "engine/numeric/dtype.h"

#include "io/base/check.h"

namespace spillway {

absl::string_view DTypeName(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return "fp32";
    case DType::kBFloat16:
      return "bf16";
    case DType::kFloat16:
      return "fp16";
  }
  SPILLWAY_CHECK(false);
}

std::optional<DType> DTypeFromName(absl::string_view name) {
  for (DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    if (name == DTypeName(dtype)) {
      return dtype;
    }
  }
  return std::nullopt;
}

}  // namespace spillway
