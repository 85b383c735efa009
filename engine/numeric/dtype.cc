#include "engine/numeric/dtype.h"

#include "io/base/enum_name.h"

namespace spillway {

absl::string_view DTypeName(DType dtype) { return EnumName(dtype, {"fp32", "bf16", "fp16"}); }

std::optional<DType> DTypeFromName(absl::string_view name) {
  for (DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    if (name == DTypeName(dtype)) {
      return dtype;
    }
  }
  return std::nullopt;
}

}  // namespace spillway
