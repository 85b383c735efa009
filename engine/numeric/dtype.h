// Names of a run's number formats (number_formats.h).
#pragma once

#include <optional>

#include "absl/strings/string_view.h"
#include "engine/numeric/number_formats.h"

namespace spillway {

// "fp32", "bf16", "fp16".
absl::string_view DTypeName(DType dtype);
std::optional<DType> DTypeFromName(absl::string_view name);

}  // namespace spillway
