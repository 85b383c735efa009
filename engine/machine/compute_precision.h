// In which precision matrices are multiplied: --compute, and what this processor is good at.
#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "engine/numeric/dtype.h"

namespace spillway {

// What is not multiplied in its own dtype.
struct Products {
  bool in_fp32 = false;        // all of 16 bits, but where layers have another
  bool layers_in_fp8 = false;  // a layer's matrices (UnitContext::Linear)

  friend bool operator==(const Products&, const Products&) = default;
};

// The 16-bit formats of which LibTorch (oneDNN) multiplies matrices with instructions for them.
// Without those it converts to fp32 and back at every use of a number where there is AVX-512, a
// fifth of fp32's rate, and elsewhere it multiplies in plain loops, a tenth to an eightieth of it.
struct NativeProducts {
  bool bf16 = false;
  bool fp16 = false;
  bool avx512 = false;

  bool Of(DType dtype) const;
};

// Of this processor, with ONEDNN_MAX_CPU_ISA obeyed as oneDNN does. Any thread.
NativeProducts NativeProductsHere();
// Of a processor that has `all`, where that variable says `most` ("": it is not set).
NativeProducts HeldBack(const NativeProducts& all, absl::string_view most);

// kInvalidArgument where `asked` is less precise than `dtype`, or otherwise so.
absl::Status CheckCompute(std::optional<DType> asked, DType dtype);

// The precision of a run in `dtype`: what was asked for, or else (--compute auto, where nothing is
// measured) `dtype` itself on a GPU and where the processor has instructions for it, and fp32
// otherwise.
DType ChooseCompute(std::optional<DType> asked, DType dtype, bool on_gpu,
                    const NativeProducts& native = NativeProductsHere());

// Whether only measuring tells which precision `--compute auto` should take: on a CPU that has
// instructions for a `dtype` of 16 bits, whose rate differs between processors and shapes
// (engine/torch/precision_probe.h).
bool IsComputeMeasured(DType dtype, bool on_gpu,
                       const NativeProducts& native = NativeProductsHere());

// "bf16", "fp32"; "fp8" where layers are multiplied in that, and all else in `dtype`, or "fp8, else
// fp32".
std::string ComputeName(DType compute, DType dtype, bool layers_in_fp8);

// Why it is not the fastest, or not `dtype`: for people, in one line; "" where there is nothing to
// say.
std::string ComputeRemark(DType compute, DType dtype, bool on_gpu,
                          const NativeProducts& native = NativeProductsHere());

// What there is to say of --compute fp8 on a CPU.
inline constexpr absl::string_view kFp8Emulated =
    "no processor has matrix products of 8 bits: they are made in fp32 of the same numbers, which "
    "is slower than without, and says what a GPU would learn";

}  // namespace spillway
