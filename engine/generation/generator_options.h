// How to continue texts, and the memory for it. Plain values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/numeric/dtype.h"
#include "engine/torch/compute_place.h"
#include "io/io_engine.h"

namespace spillway {

struct GeneratorOptions {
  DType dtype = DType::kBFloat16;
  bool fp32_products = false;  // UnitContext::fp32_products
  int threads = 1;
  uint64_t device_memory_bytes = uint64_t{512} << 20;
  uint64_t host_memory_bytes = uint64_t{512} << 20;
  // Directories for weights that do not fit in memory and are not in files in `dtype`; may be
  // empty. All files are temporary, and are gone even after a kill.
  std::vector<std::string> swap_paths;
  IoEngineOptions io;
  ComputePlace place;  // referenced objects outlive the generator

  // The model's number of positions: its longest text.
  int64_t positions = 1024;
  // If a text has more tokens, RoPE rotates all its keys by other angles
  // (RotaryConfig::Scaling::kLong), so that its cache is computed again; 0: never.
  int64_t angles_change_behind = 0;
  int rows = 1;  // texts at the same time
  // Upper bounds for a row: the tokens of its first Append, and those appended later, one at a
  // time. Memory is reserved for them.
  int64_t prompt_tokens = 1;
  int64_t new_tokens = 0;
  // For a model with an encoder: the largest number of positions in its output, and their size.
  int64_t source_positions = 0, source_width = 0;
};

}  // namespace spillway
