#include "tests/gpu/gpu.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace spillway {
namespace {

void Require(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", call, cudaGetErrorString(error));
  std::exit(1);
}

cudaStream_t Stream() { return static_cast<cudaStream_t>(GpuStream()); }

}  // namespace

std::string WhyNoGpu() {
  int devices = 0;
  if (const cudaError_t error = cudaGetDeviceCount(&devices); error != cudaSuccess) {
    return absl::StrCat("no usable GPU: ", cudaGetErrorString(error));
  }
  return devices == 0 ? "no usable GPU: the driver lists none" : "";
}

std::string GpuName() {
  int device = 0, driver = 0;
  cudaDeviceProp properties;
  Require(cudaGetDevice(&device), "cudaGetDevice");
  Require(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
  Require(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
  return absl::StrFormat("%s, compute capability %d.%d, driver for CUDA %d.%d", properties.name,
                         properties.major, properties.minor, driver / 1000, driver % 1000 / 10);
}

void* GpuStream() {
  static cudaStream_t stream = [] {
    cudaStream_t made = nullptr;
    Require(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking), "cudaStreamCreate");
    return made;
  }();
  return stream;
}

absl::Status SynchronizeGpu() {
  const cudaError_t error = cudaStreamSynchronize(Stream());
  return error == cudaSuccess ? absl::OkStatus() : absl::InternalError(cudaGetErrorString(error));
}

double SecondsOnGpu(int repeats, const std::function<void()>& work) {
  cudaEvent_t begin, end;
  Require(cudaEventCreate(&begin), "cudaEventCreate");
  Require(cudaEventCreate(&end), "cudaEventCreate");
  std::vector<double> seconds;
  for (int repeat = -1; repeat < repeats; ++repeat) {
    Require(cudaEventRecord(begin, Stream()), "cudaEventRecord");
    work();
    Require(cudaEventRecord(end, Stream()), "cudaEventRecord");
    Require(cudaEventSynchronize(end), "cudaEventSynchronize");
    float milliseconds = 0;
    Require(cudaEventElapsedTime(&milliseconds, begin, end), "cudaEventElapsedTime");
    if (repeat >= 0) seconds.push_back(milliseconds / 1000.0);
  }
  Require(cudaEventDestroy(begin), "cudaEventDestroy");
  Require(cudaEventDestroy(end), "cudaEventDestroy");
  std::sort(seconds.begin(), seconds.end());
  return seconds[seconds.size() / 2];
}

GpuBytes::GpuBytes(uint64_t bytes) : bytes_(bytes) {
  void* data = nullptr;
  Require(cudaMalloc(&data, std::max<uint64_t>(bytes, 1)), "cudaMalloc");
  data_ = static_cast<char*>(data);
  // Poison: every byte is part of a NaN until something is written.
  Require(cudaMemsetAsync(data_, 0xff, bytes_, Stream()), "cudaMemset");
}

GpuBytes::GpuBytes(const std::vector<char>& contents) : GpuBytes(contents.size()) {
  CopyFrom(contents);
}

GpuBytes::~GpuBytes() { Require(cudaFree(data_), "cudaFree"); }

void GpuBytes::CopyFrom(const std::vector<char>& contents) {
  if (contents.size() > bytes_) std::abort();
  Require(
      cudaMemcpyAsync(data_, contents.data(), contents.size(), cudaMemcpyHostToDevice, Stream()),
      "cudaMemcpyAsync");
  Require(cudaStreamSynchronize(Stream()), "cudaStreamSynchronize");
}

std::vector<char> GpuBytes::Read() const {
  std::vector<char> contents(bytes_);
  Require(cudaMemcpyAsync(contents.data(), data_, bytes_, cudaMemcpyDeviceToHost, Stream()),
          "cudaMemcpyAsync");
  Require(cudaStreamSynchronize(Stream()), "cudaStreamSynchronize");
  return contents;
}

void CopyOnGpu(char* to, const char* from, uint64_t bytes) {
  Require(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, Stream()), "cudaMemcpyAsync");
}

}  // namespace spillway
