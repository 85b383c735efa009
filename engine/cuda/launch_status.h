// A launch that CUDA refused, as a Status: kFailedPrecondition where another GPU or build would
// take it, else kInternal.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "engine/cuda/kernels.h"

namespace spillway {

inline absl::Status LaunchStatus(absl::string_view kernel, LaunchError error) {
  if (error == nullptr) {
    return absl::OkStatus();
  }
  const absl::StatusCode code = absl::string_view(error) == kNoKernels
                                    ? absl::StatusCode::kFailedPrecondition
                                    : absl::StatusCode::kInternal;
  return absl::Status(code, absl::StrCat("CUDA did not take the kernel for ", kernel, ": ", error));
}

}  // namespace spillway
