// A unit in memory, or a rank's shard of it, whose optimizer measures tensors before it updates.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "engine/numeric/optimizer.h"
#include "engine/numeric/optimizer_state.h"
#include "engine/numeric/split_master.h"
#include "gtest/gtest.h"

namespace spillway {

// In fp32, or bf16 with residuals.
class MeasuredUnit {
 public:
  struct Cut {
    uint64_t begin = 0;  // of the whole unit's parameters
    uint64_t parameters = 0;
    uint64_t tile = 0;
    int portions = 1;
  };
  // Nothing decays but `decayed`.
  MeasuredUnit(const OptimizerSpec& spec, DType dtype, const std::vector<FactoredTensor>& tensors,
               const Cut& cut, std::vector<ParameterRange> decayed = {})
      : begin_(cut.begin),
        layout_({{"u", cut.parameters}}, StatePlanes(spec, dtype), DTypeBytes(dtype), cut.tile),
        tiles_(spec, dtype, layout_, {std::move(decayed)}),
        dtype_(dtype) {
    TensorRatios::Shard shard;
    for (const FactoredTensor& tensor : tensors) {
      const auto here = [&](uint64_t at) {
        return std::min(std::max(at, cut.begin) - cut.begin, cut.parameters);
      };
      const uint64_t count = tensor.rows * tensor.columns;
      shard.tensors.push_back({here(tensor.begin), here(tensor.begin + count)});
      shard.parameters.push_back(count);
    }
    shard.tiles = layout_.NumTiles(0);
    if (cut.portions > 1) shard.portion_parameters = cut.parameters / cut.portions;
    std::unique_ptr<FactoredMoments> moments;
    if (FactorsMoments(spec)) {
      moments = std::make_unique<FactoredMoments>(std::vector<std::vector<FactoredTensor>>{tensors},
                                                  std::vector{cut.begin}, spec);
    }
    tiles_.SetMeasured(
        std::make_unique<TensorRatios>(std::vector{shard}, cut.portions, TensorRatioOf(spec)),
        std::move(moments));
    for (int plane = 0; plane < layout_.num_planes(); ++plane) {
      planes_.emplace_back(layout_.UnitPlanesBytes(0, plane, plane + 1));
    }
    gradient_.resize(layout_.PaddedParameters(0) * DTypeBytes(dtype));
  }

  void Set(uint64_t i, float weight, float gradient) {
    if (dtype_ == DType::kFloat32) {
      reinterpret_cast<float*>(planes_[0].data())[i] = weight;
      reinterpret_cast<float*>(gradient_.data())[i] = gradient;
      return;
    }
    const SplitMaster split = Split(weight);
    reinterpret_cast<uint16_t*>(planes_[0].data())[i] = split.weight;
    reinterpret_cast<uint16_t*>(planes_[1].data())[i] = split.residual;
    reinterpret_cast<uint16_t*>(gradient_.data())[i] = BFloat16FromFloat(gradient);
  }
  float Master(uint64_t i) const {
    if (dtype_ == DType::kFloat32) return reinterpret_cast<const float*>(planes_[0].data())[i];
    return Join(reinterpret_cast<const uint16_t*>(planes_[0].data())[i],
                reinterpret_cast<const uint16_t*>(planes_[1].data())[i]);
  }

  void Measure(const UpdateScalars& scalars, int measure, bool backwards = false) {
    for (int i = 0; i < layout_.NumTiles(0); ++i) {
      const int tile = backwards ? layout_.NumTiles(0) - 1 - i : i;
      std::vector<char*> planes;
      tiles_.Measure(View(tile, planes), scalars, measure);
    }
  }
  void Update(const UpdateScalars& scalars) {
    for (int tile = 0; tile < layout_.NumTiles(0); ++tile) {
      std::vector<char*> planes;
      ASSERT_EQ(tiles_.Update(View(tile, planes), scalars), absl::OkStatus());
    }
  }
  TensorRatios& ratios() { return *tiles_.tensor_ratios(); }
  FactoredMoments& moments() { return *tiles_.factored_moments(); }
  uint64_t begin() const { return begin_; }

 private:
  TileView View(int tile, std::vector<char*>& planes) {
    for (int plane = 0; plane < layout_.num_planes(); ++plane) {
      const uint64_t before = layout_.TileBegin(tile);
      const PlaneSpec& spec = layout_.planes()[plane];
      planes.push_back(planes_[plane].data() + before / spec.parameters * spec.bytes);
    }
    return {.unit = 0,
            .tile = tile,
            .first_parameter = layout_.TileBegin(tile),
            .parameters = layout_.TileParameters(0, tile),
            .planes = planes.data(),
            .gradient = gradient_.data() + layout_.TileBegin(tile) * DTypeBytes(dtype_)};
  }

  const uint64_t begin_;
  const StateLayout layout_;
  OptimizerTiles tiles_;
  const DType dtype_;
  std::vector<std::vector<char>> planes_;
  std::vector<char> gradient_;
};

}  // namespace spillway
