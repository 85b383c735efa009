// The precision of matrix products: --compute, and the formats that this processor supports.
#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "engine/numeric/dtype.h"

namespace spillway {

// The products that are not computed in the weights' own dtype.
struct Products {
  bool in_fp32 = false;        // all of 16 bits, unless layers have another
  bool layers_in_fp8 = false;  // a layer's matrices (UnitContext::Linear)

  friend bool operator==(const Products&, const Products&) = default;
};

// The 16-bit formats for which LibTorch (oneDNN) has product instructions. Without them it converts
// to fp32 and back at every use of a number if there is AVX-512, a fifth of fp32's rate, and
// elsewhere multiplies in plain loops, a tenth to an eightieth of it.
struct NativeProducts {
  bool bf16 = false;
  bool fp16 = false;
  bool avx512 = false;

  bool Of(DType dtype) const;
};

// This processor's formats, limited by ONEDNN_MAX_CPU_ISA as in oneDNN. Any thread.
NativeProducts NativeProductsHere();
// The formats of a processor that has `all`, limited by that variable's value `most` ("": not set).
NativeProducts HeldBack(const NativeProducts& all, absl::string_view most);

// kInvalidArgument if `asked` is less precise than `dtype`, or as precise in another way.
absl::Status CheckCompute(std::optional<DType> asked, DType dtype);

// The precision of a run in `dtype`: `asked`, or else (--compute auto without a measurement)
// `dtype` itself on a GPU or with the processor's instructions, and fp32 otherwise.
DType ChooseCompute(std::optional<DType> asked, DType dtype, bool on_gpu,
                    const NativeProducts& native = NativeProductsHere());

// Whether --compute auto needs a measurement: on a CPU that has instructions for a 16-bit `dtype`,
// whose rate differs between processors and shapes (engine/torch/precision_probe.h).
bool IsComputeMeasured(DType dtype, bool on_gpu,
                       const NativeProducts& native = NativeProductsHere());

// "bf16", "fp32"; with layers in fp8 "fp8" (all else in `dtype`) or "fp8, else fp32".
std::string ComputeName(DType compute, DType dtype, bool layers_in_fp8);

// Why the precision is not the fastest one, or not `dtype`: one line for people; "" if there is
// nothing to explain.
std::string ComputeRemark(DType compute, DType dtype, bool on_gpu,
                          const NativeProducts& native = NativeProductsHere());

// The remark on --compute fp8 on a CPU.
inline constexpr absl::string_view kFp8Emulated =
    "no processor has matrix products of 8 bits: they are made in fp32 of the same numbers, which "
    "is slower than without, and says what a GPU would learn";

}  // namespace spillway
