// The inside of the stand-in for libcudart: what it knows, and how a call begins and ends.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "io/base/mutex.h"
#include "tests/cuda/standin_cudart.h"
#include "tests/cuda/standin_stream.h"

namespace spillway {

struct StandinRuntime {
  struct Allocation {
    uint64_t bytes;
    char* access;  // the same memory, where it can be read and written
    int device;
  };
  struct Failure {
    cudaError_t error;
    bool sticky;
  };
  // What an address stands for.
  struct Place {
    char* access = nullptr;  // null: such bytes are unknown
    bool on_device = false;
  };

  // The one of this process.
  static StandinRuntime& Get();

  Mutex mutex;
  // All of it under `mutex`, but for what a stream's thread sets when a kernel faults.
  StandinOptions options;
  std::map<std::string, int> calls;
  std::map<std::pair<std::string, int>, Failure> failures;
  std::map<char*, Allocation> allocations;
  std::map<char*, uint64_t> registrations;
  std::map<CUstream_st*, std::unique_ptr<CUstream_st>> streams;
  std::map<CUevent_st*, std::unique_ptr<CUevent_st>> events;
  std::set<int> contexts;
  uint64_t streams_made = 0;
  std::atomic<int> fault{cudaSuccess};

  // Each thread's own, as in CUDA.
  static thread_local cudaError_t last_error;
  static thread_local int current_device;

  // The end of a call: an error becomes the thread's last one.
  static cudaError_t Return(cudaError_t error);
  // The beginning: counts, and tells what the call shall return if not success.
  cudaError_t Enter(const std::string& function);
  // The same where the current device's context is needed, which is made if it is not there.
  cudaError_t EnterContext(const std::string& function);

  // `bytes` of registered memory, or of one allocation on `device`.
  Place Find(const void* address, uint64_t bytes, int device);
  uint64_t FreeBytes(int device);
  bool Knows(CUstream_st* stream) { return streams.count(stream) > 0; }
  bool Knows(CUevent_st* event) { return events.count(event) > 0; }
};

}  // namespace spillway
