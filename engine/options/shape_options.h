// Options that determine what a run computes: batches, steps, arithmetic, optimizer and schedule.
// Plain values.
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
  int64_t micro_batch = 1;  // these two are per rank
  int64_t accumulate = 1;
  int64_t steps = 0;  // total, resolved from epochs if those were given; 0: by epochs
  double epochs = 1;
  SampleCursor cursor;  // of a resumed run: from its commit
  uint64_t seed = 42;
  SampleOrder order = SampleOrder::kShuffle;
  DType dtype = DType::kBFloat16;
  // Precision of matrix products: the dtype or fp32. None: chosen for this machine
  // (engine/machine/compute_precision.h).
  std::optional<DType> compute;
  std::string compute_reason;  // why `auto` chose it, for people; may be ""
  bool layers_in_fp8 = false;  // except layers in 8 bits (engine/torch/float8_product.h)
  int threads = 0;             // compute threads; 0: the cores

  OptimizerSpec optimizer;
  ScheduleSpec schedule;
  double clip = 1.0;  // 0: none
  // Label smoothing in training and evaluation, for models that generate text.
  double label_smoothing = 0;
  LossScaleSpec loss_scale;

  FreezeRule freeze;  // selects untrained parameters

  // Values that must be equal on resume, as (name, value): model, data, tokenizer, ... The engine
  // adds its own (dtype, batch shape, seed, optimizer, schedule, threads).
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
