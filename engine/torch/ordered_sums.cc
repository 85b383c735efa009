#include "engine/torch/ordered_sums.h"

#include <algorithm>
#include <optional>

namespace spillway {
namespace {

using torch::Tensor;

// to[rows[i]] += values[i], for equal rows in order of i, by a stable sort. Rows are not checked:
// LibTorch would wait for their maximum.
void AddInOrder(Tensor& to, const Tensor& rows, const Tensor& values) {
  const c10::List<std::optional<Tensor>> indices({std::optional<Tensor>(rows)});
  torch::_index_put_impl_(to, indices, values, /*accumulate=*/true, /*unsafe=*/true);
}

}  // namespace

Tensor SumRowsByToken(const Tensor& gradient, const Tensor& ids, int64_t rows) {
  // fp32 sums computed at once: 64 MiB; all at once would be twice the result.
  constexpr int64_t kMostElements = int64_t{1} << 24;
  const int64_t width = gradient.size(1);
  const int64_t at_once = std::clamp<int64_t>(kMostElements / std::max<int64_t>(1, rows), 1, width);
  const Tensor flat = ids.flatten();
  Tensor out = torch::empty({rows, width}, gradient.options());
  for (int64_t first = 0; first < width; first += at_once) {
    const int64_t columns = std::min(at_once, width - first);
    Tensor sums = torch::zeros({rows, columns}, gradient.options().dtype(torch::kFloat32));
    AddInOrder(sums, flat, gradient.narrow(1, first, columns).to(torch::kFloat32));
    out.narrow(1, first, columns).copy_(sums);
  }
  return out;
}

void SubtractPerRow(Tensor& values, const Tensor& index, double amount) {
  const Tensor row_starts = torch::arange(values.size(0), index.options()).mul_(values.size(1));
  const Tensor added = torch::full({values.size(0)}, -amount, values.options());
  Tensor flat = values.view({-1});
  AddInOrder(flat, row_starts + index.squeeze(1), added);
}

}  // namespace spillway
