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

// Initial values of a parameter without given weights. They come from a counter-based generator
// keyed by (seed, parameter, element), so they do not depend on tiles, order or placement.
struct Init {
  enum class Kind { kConstant, kNormal, kUniform, kWaves };
  Kind kind = Kind::kConstant;
  double a = 0;  // constant: the value; normal: mean; uniform: low
  double b = 0;  // normal: standard deviation; uniform: high
  // Row of a matrix that is set to zero, like the padding index of torch::nn::Embedding; -1: none.
  int64_t zero_row = -1;

  static Init Constant(double value) { return {Kind::kConstant, value}; }
  static Init Normal(double mean, double std) { return {Kind::kNormal, mean, std}; }
  static Init Uniform(double low, double high) { return {Kind::kUniform, low, high}; }
  // Sinusoidal positions, [positions, width] with an even width: a row has width / 2 sines, then
  // as many cosines, with wavelengths from 2 pi to 10,000 times that ("Attention Is All You Need",
  // section 3.5, in Whisper's order).
  static Init Waves() { return {Kind::kWaves}; }
};

// Declaration of one parameter of a unit.
struct ParameterSpec {
  // Name in weight files, exports and digests; unique in the model.
  std::string name;
  std::vector<int64_t> shape;  // empty: a scalar
  Init init;
  bool frozen = false;  // read, never updated
  // Layout of the matrix if UnitContext::Linear or Convolve multiplies by it: then it can get a
  // LoRA adapter (engine/torch/adapted_model.h). kNone: it cannot.
  LinearWeight linear = LinearWeight::kNone;
};

// Declaration of an fp32 tensor that forwards change, such as a running mean; see
// UnitContext::buffers().
struct BufferSpec {
  std::string name;            // as ParameterSpec::name
  std::vector<int64_t> shape;  // empty: a scalar
  double init = 0;             // value of every element if no weights are loaded
  // The buffer holds integers of magnitudes below 2^24; files store it as int64.
  bool whole = false;
};

}  // namespace spillway
