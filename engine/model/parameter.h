// A parameter and a buffer of a model, as families make them and units declare them. Plain values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace spillway {

// How a layer multiplies its input by a parameter.
enum class LinearWeight : uint8_t {
  kNone,     // something else
  kOutIn,    // [out, in], as torch.nn.Linear has it
  kInOut,    // [in, out], as transformers' Conv1D has it
  kKernels,  // [out, in, height, width], as torch.nn.Conv2d has it
};

// How a parameter starts when no weights are given. Values come from a
// counter-based generator keyed by (seed, parameter, element), so they do not
// depend on tiles, order or placement.
struct Init {
  enum class Kind { kConstant, kNormal, kUniform, kWaves };
  Kind kind = Kind::kConstant;
  double a = 0;  // constant: the value; normal: mean; uniform: low
  double b = 0;  // normal: standard deviation; uniform: high
  // Of a matrix: this row is zero, as torch::nn::Embedding's of its padding index; -1: none.
  int64_t zero_row = -1;

  static Init Constant(double value) { return {Kind::kConstant, value}; }
  static Init Normal(double mean, double std) { return {Kind::kNormal, mean, std}; }
  static Init Uniform(double low, double high) { return {Kind::kUniform, low, high}; }
  // [positions, width]: a row of sines and one of cosines beside it, of lengths from 2 pi to 10,000
  // times that ("Attention Is All You Need", section 3.5, as Whisper orders them). Width is even.
  static Init Waves() { return {Kind::kWaves}; }
};

struct ParameterSpec {
  // Unique in the model; the name under which it is loaded, exported and digested.
  std::string name;
  std::vector<int64_t> shape;  // empty: a scalar
  Init init;
  bool frozen = false;  // it is read, and never updated
  // How UnitContext::Linear or Convolve multiplies by it, if one does: then an adapter can be put
  // beside it (LoRA: engine/torch/adapted_model.h).
  LinearWeight linear = LinearWeight::kNone;
};

// A tensor in fp32 that forwards change, such as a running mean: see UnitContext::buffers().
struct BufferSpec {
  std::string name;            // as a parameter's
  std::vector<int64_t> shape;  // empty: a scalar
  double init = 0;             // of every element, where no weights are loaded
  // It holds whole numbers, of magnitudes below 2^24: files have it as int64.
  bool whole = false;
};

}  // namespace spillway
