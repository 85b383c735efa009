// What a run computes: its batches and steps, arithmetic, optimizer and schedule. Plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/machine/compute_precision.h"
#include "engine/numeric/loss_scale.h"
#include "engine/numeric/lr_schedule.h"
#include "engine/numeric/optimizer_spec.h"
#include "engine/options/freeze_rule.h"
#include "engine/options/run_change.h"

namespace spillway {

enum class SampleOrder { kShuffle, kSequential };

struct ShapeOptions {
  int64_t micro_batch = 1;  // these two are each rank's
  int64_t accumulate = 1;
  int64_t steps = 0;  // total; resolved from epochs where that was given; 0: epochs decides
  double epochs = 1;
  SampleCursor cursor;  // of a run that goes on: that of its commit
  uint64_t seed = 42;
  SampleOrder order = SampleOrder::kShuffle;
  DType dtype = DType::kBFloat16;
  // In which matrices are multiplied: the dtype or fp32. None: as suits this machine
  // (engine/machine/compute_precision.h).
  std::optional<DType> compute;
  std::string compute_reason;  // why `auto` chose it, for people; "": nothing is to be said
  bool layers_in_fp8 = false;  // but those of layers in 8 bits (engine/torch/float8_product.h)
  int threads = 0;             // compute threads; 0: the cores

  OptimizerSpec optimizer;
  ScheduleSpec schedule;
  double clip = 1.0;  // 0: none
  // The part of a label that all classes share, in training and evaluation; of models that make
  // texts.
  double label_smoothing = 0;
  LossScaleSpec loss_scale;

  FreezeRule freeze;  // what is not trained

  // What must be the same on resume, as (name, value): model, data, tokenizer, ...
  // The engine adds its own (dtype, batch shape, seed, optimizer, schedule, threads).
  std::vector<std::pair<std::string, std::string>> identity;

  Products products() const {
    return {compute == DType::kFloat32 && dtype != DType::kFloat32, layers_in_fp8};
  }
  // "bf16": ComputeName.
  std::string compute_name() const {
    return ComputeName(compute.value_or(dtype), dtype, layers_in_fp8);
  }
};

}  // namespace spillway
