// A stand-in for libcudart: the calls that swap/device/cuda makes, over host memory, and what a
// test does with it. Linked instead of the library, it shows what our code asks of CUDA and what
// becomes of each error; whether CUDA does as asked, only a GPU shows.
//
// It is stricter than CUDA. Device memory lies at addresses that the host cannot touch. A copy
// goes between registered host memory and memory of the stream's own device, or within the
// latter, and never past the end of either. Events and launches belong to the device of their
// stream, and a thread's current device must be that of what it makes.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>

namespace spillway {

struct StandinOptions {
  int devices = 1;
  std::string name = "Stand-in GPU";
  int capability = 90;
  uint64_t memory_bytes = 256 << 20;  // of each device
  int driver_version = 13000;         // 0: no driver
  int runtime_version = 13000;
  bool busy = false;  // another process has the devices to itself
  uint64_t seed = 0;  // streams dawdle by it; 0: they do not
};

// The functions may be called from any thread; Reset while nothing else is under way.
struct StandinCudart {
  // A new machine, with nothing left of the one before.
  static void Reset(const StandinOptions& options);

  // Call number `nth` of `function` since Reset returns `error`. What gives something back
  // (cudaFree and its like) gives it back all the same. Sticky: as after a kernel's fault, all
  // later calls return it too, and streams do nothing any more.
  static void Fail(const std::string& function, int nth, cudaError_t error, bool sticky = false);
  static std::map<std::string, int> Calls();

  // A kernel. An error that `body` returns is sticky.
  static cudaError_t Launch(cudaStream_t stream, std::function<cudaError_t()> body);
  // Where a kernel finds what lies at a device address. REQUIRES: `bytes` of one allocation.
  static char* Access(const void* device_address, uint64_t bytes);

  // Allocations, registrations, streams and events that were not given back.
  static std::map<std::string, int> Left();
  // Devices on which this process has a context.
  static std::set<int> Contexts();
};

}  // namespace spillway
