// How a text is to be continued, and in which memory. Plain values.
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
  // What does not fit, and is not in files in `dtype`, is kept below these; may be empty. Nothing
  // stays there, whatever happens.
  std::vector<std::string> swap_paths;
  IoEngineOptions io;
  ComputePlace place;  // what it points to outlives the generator

  // The positions that the model knows: its longest text.
  int64_t positions = 1024;
  // Texts of more tokens turn all their keys by other angles (RotaryConfig::Scaling::kLong), so
  // that what was kept of them is computed again; 0: none do.
  int64_t angles_change_behind = 0;
  int rows = 1;  // texts at a time
  // What is going to be asked of a row at most: the tokens of its first Append, and those appended
  // later, one at a time. Memory is set aside for them.
  int64_t prompt_tokens = 1;
  int64_t new_tokens = 0;
  // Of a model with an encoder: the positions of its output, at most, and the elements of each.
  int64_t source_positions = 0, source_width = 0;
};

}  // namespace spillway
