#include "engine/torch/packed_product.h"

#include <ATen/Parallel.h>
#include <torch/autograd.h>
#include <torch/utils.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "engine/torch/product.h"
#include "engine/torch/tensor_kernels.h"
#include "io/base/mutex.h"

namespace spillway {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Number of rows or columns, out of `size` with `other` elements each, that are unpacked at once:
// equal pieces, of whole blocks if possible.
int64_t PieceOf(int64_t size, int64_t other) {
  const int64_t most =
      std::max<int64_t>(1, PackedShape::kMostUnpacked / std::max<int64_t>(1, other));
  if (size <= most) return std::max<int64_t>(1, size);
  const int64_t pieces = (size + most - 1) / most;
  constexpr auto kBlock = static_cast<int64_t>(PackedShape::kBlock);
  return ((size + pieces - 1) / pieces + kBlock - 1) / kBlock * kBlock;
}

// The values of a code's table on a device. They are copied once and stay: a copy from memory that
// is not pinned waits for all work in the stream.
Tensor TableOn(const torch::Device& device, const float* values, int64_t count) {
  struct Table {
    torch::Device device;
    const float* values;
    Tensor tensor;
  };
  static Mutex& mutex = *new Mutex;
  static std::vector<Table>& tables = *new std::vector<Table>;  // two per device
  const MutexLock lock(mutex);
  for (const Table& table : tables) {
    if (table.device == device && table.values == values) return table.tensor;
  }
  // Waits for this copy, so that every stream can use it.
  const Tensor tensor =
      torch::from_blob(const_cast<float*>(values), {count}, torch::kFloat32).to(device);
  tables.push_back({device, values, tensor});
  return tensor;
}

// out = x @ weight + bias
void MultiplyInto(const Tensor& x, const Tensor& weight, const Tensor& bias, bool in_fp32,
                  Tensor out) {
  if (in_fp32) {
    MultiplyInFp32(x, weight, /*scale=*/{}, bias, out);
  } else if (bias.defined()) {
    torch::addmm_out(out, bias, x, weight);
  } else {
    torch::mm_out(out, x, weight);
  }
}

class PackedProjection : public torch::autograd::Function<PackedProjection> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& bytes,
                        const std::optional<Tensor>& bias, const PackedShape& shape, bool in_fp32) {
    context->save_for_backward({bytes});
    context->saved_data["format"] = static_cast<int64_t>(shape.format);
    context->saved_data["rows"] = shape.rows;
    context->saved_data["columns"] = shape.columns;
    context->saved_data["in_fp32"] = in_fp32;
    context->saved_data["bias"] = bias.has_value();
    const Tensor y = torch::empty({x.size(0), shape.rows}, x.options());
    const int64_t piece = PieceOf(shape.rows, shape.columns);
    for (int64_t row = 0; row < shape.rows; row += piece) {
      const int64_t rows = std::min(piece, shape.rows - row);
      const Tensor weight =
          UnpackPart(bytes, shape, {row, rows, 0, shape.columns}, x.scalar_type());
      MultiplyInto(x, weight.t(), bias ? bias->narrow(0, row, rows) : Tensor(), in_fp32,
                   y.narrow(1, row, rows));
    }
    return y;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const Tensor bytes = context->get_saved_variables()[0];
    const Tensor& y = gradients[0];
    const auto integer = [&](const char* name) { return context->saved_data[name].toInt(); };
    const PackedShape shape{static_cast<PackedFormat>(integer("format")), integer("rows"),
                            integer("columns")};
    Tensor of_x, of_bias;
    if (context->needs_input_grad(0)) {
      of_x = torch::empty({y.size(0), shape.columns}, y.options());
      const int64_t piece = PieceOf(shape.columns, shape.rows);
      for (int64_t column = 0; column < shape.columns; column += piece) {
        const int64_t columns = std::min(piece, shape.columns - column);
        const Tensor weight =
            UnpackPart(bytes, shape, {0, shape.rows, column, columns}, y.scalar_type());
        MultiplyInto(y, weight, Tensor(), context->saved_data["in_fp32"].toBool(),
                     of_x.narrow(1, column, columns));
      }
    }
    if (context->saved_data["bias"].toBool() && context->needs_input_grad(2)) of_bias = y.sum(0);
    return {of_x, Tensor(), of_bias, Tensor(), Tensor()};
  }
};

}  // namespace

Tensor ProjectPacked(const Tensor& x, const Tensor& bytes, const PackedShape& shape,
                     const Tensor& bias, bool in_fp32) {
  return PackedProjection::apply(x, bytes, bias.defined() ? std::optional(bias) : std::nullopt,
                                 shape, in_fp32);
}

Tensor UnpackPart(const Tensor& bytes, const PackedShape& shape, const MatrixPart& part,
                  torch::ScalarType dtype) {
  if (!bytes.is_cpu()) return UnpackByOperations(bytes, shape, part, dtype);
  Tensor out = torch::empty({part.rows, part.columns}, bytes.options().dtype(dtype));
  const DType kind = DTypeOf(out, "UnpackPart");
  const auto* const packed = static_cast<const char*>(bytes.data_ptr());
  auto* const to = static_cast<char*>(out.data_ptr());
  const int64_t grain = std::max<int64_t>(1, (1 << 16) / std::max<int64_t>(1, part.columns));
  at::parallel_for(0, part.rows, grain, [&](int64_t begin, int64_t end) {
    Unpack(shape, packed, {part.row + begin, end - begin, part.column, part.columns}, kind,
           to + begin * part.columns * DTypeBytes(kind));
  });
  return out;
}

Tensor Nf4ValuesOn(const torch::Device& device) { return TableOn(device, Nf4Values(), 16); }
Tensor DynamicMapOn(const torch::Device& device) { return TableOn(device, DynamicMap(), 256); }

Tensor UnpackByOperations(const Tensor& bytes, const PackedShape& shape, const MatrixPart& part,
                          torch::ScalarType dtype) {
  const auto at = [&](uint64_t offset, uint64_t count, torch::ScalarType type) {
    const auto size = static_cast<int64_t>(count * torch::elementSize(type));
    return bytes.narrow(0, static_cast<int64_t>(offset), size).view(type);
  };
  if (shape.format == PackedFormat::kInt8) {
    const Tensor scales = at(0, shape.scales(), torch::kFloat32).narrow(0, part.row, part.rows);
    const Tensor codes = at(shape.codes_offset(), shape.values(), torch::kInt8)
                             .view({shape.rows, shape.columns})
                             .narrow(0, part.row, part.rows)
                             .narrow(1, part.column, part.columns);
    return (codes.to(torch::kFloat32) * scales.unsqueeze(1) * 7.874015718698502e-3).to(dtype);
  }
  const auto index = torch::TensorOptions(bytes.device()).dtype(torch::kInt64);
  const Tensor places =
      ((torch::arange(part.rows, index) + part.row) * shape.columns).unsqueeze(1) +
      (torch::arange(part.columns, index) + part.column);
  const Tensor flat = places.flatten();
  const Tensor pairs = at(shape.codes_offset(), shape.codes_bytes(), torch::kUInt8)
                           .index_select(0, flat.bitwise_right_shift(1));
  const Tensor codes = torch::where(flat.bitwise_and(1).to(torch::kBool), pairs.bitwise_and(15),
                                    pairs.bitwise_right_shift(4));
  const Tensor blocks = flat.bitwise_right_shift(6);
  Tensor scales;
  if (shape.format == PackedFormat::kNf4) {
    scales = at(0, shape.scales(), torch::kFloat32).index_select(0, blocks);
  } else {
    const Tensor of_blocks = at(shape.block_codes_offset(), shape.blocks(), torch::kUInt8);
    scales =
        DynamicMapOn(bytes.device())
                .index_select(0, of_blocks.index_select(0, blocks).to(torch::kInt32)) *
            at(0, shape.scales(), torch::kFloat32).index_select(0, blocks.bitwise_right_shift(8)) +
        at(shape.mean_offset(), 1, torch::kFloat32);
  }
  return (Nf4ValuesOn(bytes.device()).index_select(0, codes.to(torch::kInt32)) * scales)
      .view({part.rows, part.columns})
      .to(dtype);
}

}  // namespace spillway
