// What `spillway doctor` finds on this machine: plain values, so that a test can make up any
// machine. What they mean, and what to do about them, is engine/inspect/doctor.h.
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

  uint64_t memory_bytes = 0;     // of the machine
  uint64_t available_bytes = 0;  // now, the cgroup's limit counted
  uint64_t cgroup_limit_bytes = UINT64_MAX;
  uint64_t spendable_bytes = 0;        // both budgets together where none is given
  std::string transparent_huge_pages;  // "always", "madvise", "never"; "" unknown
  uint64_t huge_pages_free_bytes = 0;  // reserved, so of no use to anybody else

  std::string cpu;
  int cores = 1;           // of the machine
  int cores_allowed = 1;   // by the affinity mask (taskset, cpuset, SLURM)
  double cores_quota = 0;  // by the cgroup's quota; 0: none
  std::vector<std::string> cpu_features;
  SimdTarget simd = SimdTarget::kBaseline;
  NativeProducts products;

  std::string torch_version;
  std::string torch_folder;  // where it was found; "": by the dynamic linker, or nowhere
  bool torch_has_cuda = false;
  absl::Status compute_library;  // whether what computes with LibTorch can be opened
  GpuFacts gpu;
  // What runs compute on here (--device), or why not on what was asked for.
  absl::StatusOr<DeviceChoice> device = DeviceChoice();

  // What launchers (torchrun, mpirun, srun) say of ranks: {"WORLD_SIZE", "2"}.
  std::vector<std::pair<std::string, std::string>> launcher;
};

// The facts about the machine that run.json and the report show.
struct ProcessorFacts {
  std::string cpu;  // "" where the kernel does not name it
  int cores = 1;    // of the machine
  uint64_t memory_bytes = 0;
};
ProcessorFacts ProbeProcessor();

// Looks and tries; takes some hundred milliseconds and leaves nothing behind. `swap_paths`:
// directories that are there or not. What LibTorch has is the caller's to fill in.
MachineFacts ProbeMachine(const std::vector<std::string>& swap_paths);

}  // namespace spillway
