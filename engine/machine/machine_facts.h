// The facts that `spillway doctor` gathers: plain values, so that a test can invent any machine.
// engine/inspect/doctor.h interprets them and advises.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "engine/machine/compute_precision.h"
#include "engine/machine/device_choice.h"
#include "engine/machine/gpu_probe.h"
#include "engine/machine/probe_path.h"
#include "engine/machine/probe_uring.h"
#include "engine/numeric/simd_dispatch.h"

namespace spillway {

// A limit of this process; UINT64_MAX: none.
struct Limit {
  uint64_t soft = UINT64_MAX;
  uint64_t hard = UINT64_MAX;
};

struct MachineFacts {
  std::string kernel;  // "6.1.0-13-amd64"
  uint32_t user = 0;   // the effective user id

  UringFacts uring;
  Limit locked_memory_bytes;
  Limit open_files;
  std::vector<PathFacts> paths;

  uint64_t memory_bytes = 0;     // total memory
  uint64_t available_bytes = 0;  // currently available, within the cgroup's limit
  uint64_t cgroup_limit_bytes = UINT64_MAX;
  uint64_t spendable_bytes = 0;        // both budgets together by default
  std::string transparent_huge_pages;  // "always", "madvise", "never"; "" unknown
  uint64_t huge_pages_free_bytes = 0;  // reserved, so unusable for others

  std::string cpu;
  int cores = 1;           // of the machine
  int cores_allowed = 1;   // by the affinity mask (taskset, cpuset, SLURM)
  double cores_quota = 0;  // by the cgroup's quota; 0: none
  std::vector<std::string> cpu_features;
  SimdTarget simd = SimdTarget::kBaseline;
  NativeProducts products;

  std::string torch_version;
  // The folder of LibTorch; "": found by the dynamic linker, or not at all.
  std::string torch_folder;
  bool torch_has_cuda = false;
  absl::Status compute_library;  // whether the library that computes with LibTorch can be loaded
  GpuFacts gpu;
  // The device that runs use here (--device), or why the requested one is unavailable.
  absl::StatusOr<DeviceChoice> device = DeviceChoice();

  // The launcher's variables for ranks (torchrun, mpirun, srun): {"WORLD_SIZE", "2"}.
  std::vector<std::pair<std::string, std::string>> launcher;
};

// Facts about the machine, shown in run.json and the report.
struct ProcessorFacts {
  std::string cpu;  // "" if the kernel does not name it
  int cores = 1;    // of the machine
  uint64_t memory_bytes = 0;
};
ProcessorFacts ProbeProcessor();

// Probes the machine; takes some hundred milliseconds and leaves nothing behind. `swap_paths`:
// directories that may not exist. The caller adds LibTorch's facts.
MachineFacts ProbeMachine(const std::vector<std::string>& swap_paths);

}  // namespace spillway
