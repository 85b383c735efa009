#include "engine/torch/sparse_gradient.h"

#include <ATen/Parallel.h>

#include "engine/numeric/gradient_loops.h"
#include "engine/numeric/optimizer_spec.h"
#include "engine/torch/tensor_kernels.h"

namespace spillway {

bool HasSparseRows(const torch::Tensor& gradient) {
  return gradient.is_sparse() && gradient.is_cpu() && gradient.sparse_dim() == 1;
}

void AccumulateSparse(const torch::Tensor& gradient, char* sums, bool rounded, bool first) {
  TORCH_CHECK(HasSparseRows(gradient), "AccumulateSparse: not sparse in the first dimension");
  const DType dtype = DTypeOf(gradient, "AccumulateSparse");
  const uint64_t each = DTypeBytes(dtype), sum_each = rounded ? each : sizeof(float);
  if (first) KernelsOf(torch::kCPU).FillZero(sums, gradient.numel() * sum_each);
  const torch::Tensor rows = gradient.coalesce();
  const torch::Tensor values = rows.values().contiguous();
  const torch::Tensor indices = rows.indices().contiguous();
  const int64_t count = values.size(0);
  if (count == 0) return;
  const int64_t width = values.numel() / count;
  const auto* const data = static_cast<const char*>(values.const_data_ptr());
  const int64_t* const row_of = indices.const_data_ptr<int64_t>();
  at::parallel_for(0, count, 16, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const char* const from = data + i * width * each;
      char* const to = sums + row_of[i] * width * sum_each;
      if (rounded) {
        AccumulateRounded(dtype, from, width, to, first);
      } else {
        AccumulateGradient(dtype, from, width, reinterpret_cast<float*>(to), first);
      }
    }
  });
}

}  // namespace spillway
