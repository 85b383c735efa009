#include "engine/machine/compute_precision.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace spillway {
namespace {

#if defined(__x86_64__)
// A bit of EDX in a leaf of CPUID 7, for features that some compilers cannot name.
bool HasFeature(int leaf, int bit) {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, leaf, &a, &b, &c, &d) != 0 && (d >> bit & 1) != 0;
}
#endif

}  // namespace

bool NativeProducts::Of(DType dtype) const {
  return dtype == DType::kBFloat16 ? bf16 : dtype == DType::kFloat16 ? fp16 : true;
}

NativeProducts NativeProductsHere() {
  NativeProducts all;
#if defined(__x86_64__)
  all.avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  const bool converts = HasFeature(1, 5);  // AVX-NE-CONVERT: 16-bit formats without AVX-512
  all.bf16 = converts || (all.avx512 && __builtin_cpu_supports("avx512bf16"));
  all.fp16 = converts || (all.avx512 && HasFeature(0, 23));
#endif
  const char* most = std::getenv("ONEDNN_MAX_CPU_ISA");
  if (most == nullptr) most = std::getenv("DNNL_MAX_CPU_ISA");
  return HeldBack(all, most == nullptr ? "" : most);
}

NativeProducts HeldBack(const NativeProducts& all, absl::string_view most) {
  // In ascending order of features; any other word allows everything.
  constexpr absl::string_view kNames[] = {"SSE41",
                                          "AVX",
                                          "AVX2",
                                          "AVX2_VNNI",
                                          "AVX2_VNNI_2",
                                          "AVX512_CORE",
                                          "AVX512_CORE_VNNI",
                                          "AVX512_CORE_BF16"};
  const auto at = std::find_if(std::begin(kNames), std::end(kNames), [&](absl::string_view name) {
    return absl::EqualsIgnoreCase(name, most);
  });
  if (at == std::end(kNames)) return all;
  NativeProducts left = all;
  left.fp16 = false;
  left.bf16 &= *at == "AVX512_CORE_BF16";
  left.avx512 &= absl::StartsWith(*at, "AVX512");
  // oneDNN's name for a processor with conversions and without AVX-512.
  if (*at == "AVX2_VNNI_2" && !all.avx512) return all;
  return left;
}

absl::Status CheckCompute(std::optional<DType> asked, DType dtype) {
  if (!asked || *asked == dtype || *asked == DType::kFloat32) return absl::OkStatus();
  const std::string name(DTypeName(*asked));
  return absl::InvalidArgumentError(absl::StrCat(
      "--compute ", name, " is not as precise as --dtype ", std::string(DTypeName(dtype)),
      ": give --dtype ", name, " (its masters are fp32), or --compute auto"));
}

DType ChooseCompute(std::optional<DType> asked, DType dtype, bool on_gpu,
                    const NativeProducts& native) {
  if (asked) return *asked;
  return on_gpu || native.Of(dtype) ? dtype : DType::kFloat32;
}

bool IsComputeMeasured(DType dtype, bool on_gpu, const NativeProducts& native) {
  return !on_gpu && dtype != DType::kFloat32 && native.Of(dtype);
}

std::string ComputeName(DType compute, DType dtype, bool layers_in_fp8) {
  const std::string name(DTypeName(compute));
  if (!layers_in_fp8) return name;
  return compute == dtype ? "fp8" : absl::StrCat("fp8, else ", name);
}

std::string ComputeRemark(DType compute, DType dtype, bool on_gpu, const NativeProducts& native) {
  if (on_gpu || native.Of(dtype)) return "";
  const std::string name(DTypeName(dtype));
  if (compute == dtype) {
    const bool converted = dtype == DType::kBFloat16 && native.avx512;
    return absl::StrCat("--compute ", name, ": this processor has no ", name,
                        " instructions, and multiplies its matrices ",
                        converted ? "five" : "ten to eighty",
                        " times slower than those of fp32: --compute fp32 is faster, and at least "
                        "as precise");
  }
  return absl::StrCat("this processor has no ", name, " instructions");
}

}  // namespace spillway
