#include "engine/torch/product.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "engine/torch/projection.h"

namespace spillway {
namespace {

using torch::Tensor;

// The fp32 copy of a block of a matrix, kept while the same block is requested.
class ConvertedBlock {
 public:
  explicit ConvertedBlock(const Tensor& whole) : whole_(whole) {}

  const Tensor& At(int64_t row, int64_t rows, int64_t column, int64_t columns) {
    if (!copy_.defined() || row != row_ || column != column_) {
      copy_ = Tensor();  // frees its memory for the next one
      copy_ = whole_.narrow(0, row, rows).narrow(1, column, columns).to(torch::kFloat32);
      std::tie(row_, column_) = std::pair(row, column);
    }
    return copy_;
  }

 private:
  const Tensor whole_;
  Tensor copy_;
  int64_t row_ = 0, column_ = 0;
};

struct Fp32Arithmetic {
  static const Tensor& Rounded(const Tensor& x) { return x; }
  static const Tensor& RoundedGradient(const Tensor& y) { return y; }
  static Tensor Multiply(const Tensor& a, const Tensor& b, const Tensor& bias, torch::ScalarType) {
    return ProductInFp32(a, b, bias);
  }
};

}  // namespace

void MultiplyInFp32(const Tensor& a, const Tensor& b, const Tensor& scale, const Tensor& bias,
                    Tensor out, int64_t most) {
  const int64_t m = a.size(0), n = b.size(1), depth = a.size(1);
  if (depth == 0) {
    out.zero_();
    if (bias.defined()) out.add_(bias);
    return;
  }
  const ProductBlocks blocks(m, n, depth, most);
  ConvertedBlock left(a), right(b);
  Tensor sums;
  for (int64_t row = 0; row < m; row += blocks.rows) {
    const int64_t rows = std::min(blocks.rows, m - row);
    for (int64_t column = 0; column < n; column += blocks.columns) {
      const int64_t columns = std::min(blocks.columns, n - column);
      for (int64_t k = 0; k < depth; k += blocks.depth) {
        const int64_t some = std::min(blocks.depth, depth - k);
        const Tensor& x = left.At(row, rows, k, some);
        const Tensor& y = right.At(k, some, column, columns);
        if (k > 0) {
          sums.addmm_(x, y);
          continue;
        }
        sums = Tensor();
        sums = torch::mm(x, y);
      }
      if (scale.defined()) sums.mul_(scale);
      if (bias.defined()) sums.add_(bias.narrow(0, column, columns));
      out.narrow(0, row, rows).narrow(1, column, columns).copy_(sums);
    }
  }
}

Tensor ProductInFp32(const Tensor& a, const Tensor& b, const Tensor& bias, int64_t most) {
  const Tensor out = torch::empty({a.size(0), b.size(1)}, a.options());
  MultiplyInFp32(a, b, /*scale=*/{}, bias, out, most);
  return out;
}

Tensor Project(const Tensor& x, const Tensor& weight, const Tensor& bias, bool in_fp32) {
  if (in_fp32) {
    return Projection<Fp32Arithmetic>::Of(x, weight, bias);
  }
  return bias.defined() ? torch::addmm(bias, x, weight) : torch::mm(x, weight);
}

}  // namespace spillway
