// Products with packed matrices, against those with the unpacked ones.
#include "engine/torch/packed_product.h"

#include <gtest/gtest.h>
#include <torch/autograd.h>
#include <torch/utils.h>

#include <vector>

#include "engine/torch/product.h"
#include "engine/torch/tensor_views.h"

namespace spillway {
namespace {

using torch::Tensor;

constexpr PackedFormat kFormats[] = {PackedFormat::kInt8, PackedFormat::kNf4,
                                     PackedFormat::kNf4Nested};
constexpr torch::ScalarType kDTypes[] = {torch::kFloat32, torch::kBFloat16, torch::kFloat16};

Tensor Packed(const PackedShape& shape) {
  const Tensor values = torch::randn({shape.rows, shape.columns});
  Tensor bytes = torch::empty(static_cast<int64_t>(shape.bytes()), torch::kUInt8);
  MatrixPacker packer(shape, static_cast<char*>(bytes.data_ptr()));
  const int64_t whole = shape.rows / MatrixPacker::kRows * MatrixPacker::kRows;
  packer.Add(values.data_ptr<float>(), whole);
  packer.Add(values.data_ptr<float>() + whole * shape.columns, shape.rows - whole);
  packer.Finish();
  return bytes;
}

TEST(PackedProduct, LibTorchsOperationsUnpackToTheSameBits) {
  torch::manual_seed(3);
  for (PackedFormat format : kFormats) {
    const PackedShape shape{format, 70, 45};
    const Tensor bytes = Packed(shape);
    for (torch::ScalarType dtype : kDTypes) {
      for (const MatrixPart& part : {MatrixPart{0, 70, 0, 45}, MatrixPart{7, 40, 3, 22}}) {
        EXPECT_TRUE(torch::equal(UnpackPart(bytes, shape, part, dtype),
                                 UnpackByOperations(bytes, shape, part, dtype)))
            << PackedFormatName(format) << " " << dtype;
      }
    }
  }
}

// To kMeta no two copies are the same tensor.
TEST(PackedProduct, CodesAreBroughtToADeviceOnce) {
  for (const torch::Device device : {torch::Device(torch::kMeta), torch::Device(torch::kCPU)}) {
    EXPECT_TRUE(Nf4ValuesOn(device).is_same(Nf4ValuesOn(device)));
    EXPECT_TRUE(DynamicMapOn(device).is_same(DynamicMapOn(device)));
    EXPECT_EQ(Nf4ValuesOn(device).device(), device);
    EXPECT_EQ(DynamicMapOn(device).numel(), 256);
  }
  EXPECT_EQ(Nf4ValuesOn(torch::kCPU)[15].item<float>(), Nf4Values()[15]);
  EXPECT_EQ(DynamicMapOn(torch::kCPU)[255].item<float>(), DynamicMap()[255]);
}

// One that is unpacked at once, and one in blocks.
TEST(PackedProduct, IsTheProductWithTheUnpackedMatrixAndSoAreItsGradients) {
  torch::manual_seed(4);
  for (const PackedShape& shape : {PackedShape{PackedFormat::kNf4Nested, 70, 45},
                                   PackedShape{PackedFormat::kInt8, 2200, 2100}}) {
    const Tensor bytes = Packed(shape);
    const Tensor matrix =
        UnpackPart(bytes, shape, {0, shape.rows, 0, shape.columns}, torch::kFloat32);
    const auto leaf = [](std::vector<int64_t> sizes) {
      return torch::randn(sizes).requires_grad_();
    };
    const Tensor x = leaf({5, shape.columns}), bias = leaf({shape.rows});
    const Tensor direction = torch::randn({5, shape.rows});
    const auto gradients = [&](const Tensor& y) {
      return torch::autograd::grad({y}, {x, bias}, {direction});
    };
    const Tensor y = ProjectPacked(x, bytes, shape, bias, /*in_fp32=*/false);
    const Tensor expected = Project(x, matrix.t(), bias, false);
    EXPECT_TRUE(torch::allclose(y, expected, 1e-5, 1e-4));
    const auto found = gradients(y), wanted = gradients(expected);
    EXPECT_TRUE(torch::allclose(found[0], wanted[0], 1e-5, 1e-3));
    EXPECT_TRUE(torch::equal(found[1], wanted[1]));
    const Tensor alone = ProjectPacked(x, bytes, shape, {}, false);
    EXPECT_TRUE(torch::allclose(alone + bias, expected, 1e-5, 1e-4));
  }
}

TEST(PackedProduct, InFp32ItIsWhatItIsOfTheUnpackedMatrix) {
  torch::manual_seed(5);
  const PackedShape shape{PackedFormat::kNf4Nested, 70, 45};
  const Tensor bytes = Packed(shape);
  const Tensor matrix = UnpackPart(bytes, shape, {0, 70, 0, 45}, torch::kBFloat16);
  const Tensor x = torch::randn({5, 45}).to(torch::kBFloat16).requires_grad_();
  const Tensor y = ProjectPacked(x, bytes, shape, {}, /*in_fp32=*/true);
  const Tensor expected = Project(x, matrix.t(), {}, true);
  EXPECT_TRUE(torch::equal(y, expected));
  const Tensor direction = torch::randn({5, 70}).to(torch::kBFloat16);
  EXPECT_TRUE(torch::equal(torch::autograd::grad({y}, {x}, {direction})[0],
                           torch::autograd::grad({expected}, {x}, {direction})[0]));
}

// A unit gets something of the matrix's shape that no sum survives, and multiplies by Linear.
TEST(PackedProduct, OnlyLinearMultipliesByWhatAUnitIsGiven) {
  torch::manual_seed(6);
  const PackedShape shape{PackedFormat::kInt8, 6, 4};
  ParameterView view;
  view.weights = Packed(shape);
  view.packed = shape;
  view.shape = {4, 6};  // declared [in, out]
  view.dtype = torch::kFloat32;
  const GivenParameters given = Give({view});
  ASSERT_EQ(given.tensors[0].sizes(), torch::IntArrayRef({4, 6}));
  EXPECT_TRUE(given.tensors[0].isnan().all().item<bool>());
  const UnitContext context =
      UnitContext(1, 1, 0, {0}, /*training=*/false).WithPacked(given.packed);
  const Tensor x = torch::randn({2, 3, 4});
  const Tensor expected =
      torch::linear(x, UnpackPart(view.weights, shape, {0, 6, 0, 4}, torch::kFloat32));
  EXPECT_TRUE(torch::allclose(context.Linear(x, given.tensors[0].t()), expected));
  EXPECT_ANY_THROW(context.Linear(x, given.tensors[0].t().narrow(0, 0, 3)));
  // An adapter beside it finds it by the same.
  LinearAdapter adapter{given.tensors[0].t(), torch::randn({2, 4}), torch::randn({6, 2}), 0.5};
  const Tensor more = torch::linear(torch::linear(x, adapter.a), adapter.b) * 0.5;
  EXPECT_TRUE(torch::allclose(context.WithAdapters({adapter}).Linear(x, given.tensors[0].t()),
                              expected + more, 1e-5, 1e-6));
}

}  // namespace
}  // namespace spillway
