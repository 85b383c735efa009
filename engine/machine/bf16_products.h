// How LibTorch multiplies matrices of bf16 on this machine's processor.
#pragma once

namespace spillway {

enum class Bf16Products {
  // In place: the processor has bf16 instructions, or LibTorch's own loops do it. Nothing but
  // the result is allocated.
  kInPlace,
  // oneDNN on a processor with AVX-512 but without its bf16 instructions: every product is summed
  // in an fp32 copy of its result before it is rounded. (Such copies are allocated by LibTorch and
  // so count against --device-memory.)
  kThroughFp32,
};

// Whether those are LibTorch's own loops, with neither oneDNN nor instructions for it (processors
// without AVX-512): some fifty times slower than products of fp32. Any thread.
bool Bf16ProductsAreLoops();

// Of this processor, ONEDNN_MAX_CPU_ISA obeyed as oneDNN does. Any thread.
Bf16Products Bf16ProductsHere();

}  // namespace spillway
