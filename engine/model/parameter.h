// Parameters and buffers of a model, as families make them and units declare them. Plain values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace spillway {

// How a layer multiplies its input by a parameter.
enum class LinearWeight : uint8_t {
  kNone,     // any other use
  kOutIn,    // [out, in], as in torch.nn.Linear
  kInOut,    // [in, out], as in transformers' Conv1D
  kKernels,  // [out, in, height, width], as in torch.nn.Conv2d
};

// Initial values of a parameter without loaded weights. They come from a counter-based generator
// keyed by (seed, parameter, element), so they do not depend on tiles, order or placement.
struct Init {
  enum class Kind { kConstant, kNormal, kUniform, kWaves };
  Kind kind = Kind::kConstant;
  double a = 0;  // constant: the value; normal: mean; uniform: low
  double b = 0;  // normal: standard deviation; uniform: high
  // In matrices: the index of a row of zeros, torch::nn::Embedding's padding_idx; -1: none.
  int64_t zero_row = -1;

  static Init Constant(double value) { return {Kind::kConstant, value}; }
  static Init Normal(double mean, double std) { return {Kind::kNormal, mean, std}; }
  static Init Uniform(double low, double high) { return {Kind::kUniform, low, high}; }
  // [positions, width]: sines, then cosines in each row, with wavelengths from 2 pi to 10,000 times
  // that ("Attention Is All You Need", section 3.5, in Whisper's order). Width is even.
  static Init Waves() { return {Kind::kWaves}; }
};

struct ParameterSpec {
  // Unique in the model; the name under which it is loaded, exported and digested.
  std::string name;
  std::vector<int64_t> shape;  // empty: a scalar
  Init init;
  bool frozen = false;  // read, and never updated
  // How UnitContext::Linear or Convolve multiplies by it, if one does. Such a matrix can have an
  // adapter (LoRA: engine/torch/adapted_model.h).
  LinearWeight linear = LinearWeight::kNone;
};

// A tensor in fp32 that forwards change, such as a running mean: see UnitContext::buffers().
struct BufferSpec {
  std::string name;            // unique, as for parameters
  std::vector<int64_t> shape;  // empty: a scalar
  double init = 0;             // initial value of every element without loaded weights
  // Holds whole numbers below 2^24 in magnitude, stored as int64 in files.
  bool whole = false;
};

}  // namespace spillway
