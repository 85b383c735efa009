// Options that affect the numbers of a run: batches, steps, arithmetic, optimizer and schedule.
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
  int64_t micro_batch = 1;  // samples computed at once, on each rank
  int64_t accumulate = 1;   // micro-batches of a step, on each rank
  int64_t steps = 0;        // total, also on resume; 0: computed from `epochs`
  double epochs = 1;
  SampleCursor cursor;  // of a resumed run: its commit's
  uint64_t seed = 42;
  SampleOrder order = SampleOrder::kShuffle;
  DType dtype = DType::kBFloat16;
  // Precision of matrix products: `dtype` or fp32. None: chosen for this machine
  // (engine/machine/compute_precision.h).
  std::optional<DType> compute;
  std::string compute_reason;  // explanation of an automatic choice, for the log; "": none
  bool layers_in_fp8 = false;  // layers' products in 8 bits (engine/torch/float8_product.h)
  int threads = 0;             // LibTorch's threads; 0: the number of cores

  OptimizerSpec optimizer;
  ScheduleSpec schedule;
  double clip = 1.0;  // limit of the global gradient norm; 0: none
  // Fraction of each label that is distributed over all classes, in training and evaluation; for
  // models that generate texts.
  double label_smoothing = 0;
  LossScaleSpec loss_scale;

  FreezeRule freeze;  // untrained parameters

  // (name, value) pairs that must be equal on resume: model, data, tokenizer, ... The engine adds
  // dtype, batch shape, seed, optimizer, schedule and threads.
  std::vector<std::pair<std::string, std::string>> identity;

  Products products() const {
    return {compute == DType::kFloat32 && dtype != DType::kFloat32, layers_in_fp8};
  }
  // Name of the precision, for example "bf16"; see ComputeName.
  std::string compute_name() const {
    return ComputeName(compute.value_or(dtype), dtype, layers_in_fp8);
  }
};

}  // namespace spillway
