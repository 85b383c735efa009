// A GPU for tests: memory, one stream, a clock. No header of CUDA's needed.
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace spillway {

// Empty when there is a GPU that these programs can use, else why not. Tests without one skip:
//   if (const std::string reason = WhyNoGpu(); !reason.empty()) GTEST_SKIP() << reason;
std::string WhyNoGpu();

// "NVIDIA H200, compute capability 9.0, driver 13.0".
std::string GpuName();

// A cudaStream_t.
void* GpuStream();

// Waits for the stream. What went wrong in it, if anything has.
absl::Status SynchronizeGpu();

// Seconds that the stream takes for `work`, by events: the median of `repeats`, after one to
// warm up.
double SecondsOnGpu(int repeats, const std::function<void()>& work);

// Memory of the GPU's. A failure of CUDA ends the program with its reason.
class GpuBytes {
 public:
  explicit GpuBytes(uint64_t bytes);
  explicit GpuBytes(const std::vector<char>& contents);
  ~GpuBytes();
  GpuBytes(const GpuBytes&) = delete;
  GpuBytes& operator=(const GpuBytes&) = delete;

  char* data() const { return data_; }
  void CopyFrom(const std::vector<char>& contents);
  // After what the stream was given before.
  std::vector<char> Read() const;
  template <typename T>
  T ReadAs() const {
    T value;
    std::memcpy(&value, Read().data(), sizeof(value));
    return value;
  }

 private:
  uint64_t bytes_;
  char* data_ = nullptr;
};

// Puts a copy within the GPU's memory into the stream.
void CopyOnGpu(char* to, const char* from, uint64_t bytes);

}  // namespace spillway
