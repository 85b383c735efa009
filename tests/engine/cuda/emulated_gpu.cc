// tests/gpu/gpu.h without a GPU: with emulated_kernels.cc it runs tests/gpu/kernels_test.cc here,
// so that what is carried to a machine with a GPU has passed once.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>

#include "tests/engine/cuda/emulated_kernels.h"
#include "tests/gpu/gpu.h"

namespace spillway {

std::string WhyNoGpu() { return ""; }

std::string GpuName() { return "no GPU: kernels emulated on the CPU"; }

void* GpuStream() { return EmulatedStream(); }

absl::Status SynchronizeGpu() { return absl::OkStatus(); }

double SecondsOnGpu(int repeats, const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

GpuBytes::GpuBytes(uint64_t bytes)
    : bytes_(bytes), data_(static_cast<char*>(std::malloc(std::max<uint64_t>(bytes, 1)))) {
  std::memset(data_, 0xff, bytes_);
}

GpuBytes::GpuBytes(const std::vector<char>& contents) : GpuBytes(contents.size()) {
  CopyFrom(contents);
}

GpuBytes::~GpuBytes() { std::free(data_); }

void GpuBytes::CopyFrom(const std::vector<char>& contents) {
  std::copy(contents.begin(), contents.end(), data_);
}

std::vector<char> GpuBytes::Read() const { return std::vector<char>(data_, data_ + bytes_); }

void CopyOnGpu(char* to, const char* from, uint64_t bytes) { std::memcpy(to, from, bytes); }

}  // namespace spillway
