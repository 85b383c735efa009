// The shared library of everything that computes with LibTorch, beside the program or installed in
// lib/spillway/. A command opens it when it first computes. Loading LibTorch takes most of a
// second, so flags are checked before, and commands that do not compute never load it.
//
// The library has tools/compute, engine/torch, engine/datasets, engine/generation, engine/layers
// and engine/tasks, without a copy of io, swap and the engine's core: the program exports those
// symbols. So there is one log, one set of statics, and one type of every Status and exception.
// Main thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/base/strict_json.h"
#include "engine/estimate/estimate.h"
#include "engine/machine/device_choice.h"
#include "engine/tasks/requests.h"
#include "swap/device/device.h"
#include "tools/commands.h"

namespace spillway {

struct EstimateRequest {
  enum class DryRun { kAuto, kYes, kNo };

  RunConfig config;     // tuned, with a resolved device
  DeviceChoice device;  // the resolved device
  DryRun dry_run = DryRun::kAuto;
  JsonDocument document;  // the model's config.json
  ModelShape shape;       // from the document
};

// The library's functions; each call runs to its end.
class ComputeLibrary {
 public:
  virtual ~ComputeLibrary() = default;

  virtual CommandOutcome Train(const RunConfig& config) = 0;
  virtual absl::StatusOr<Estimate> MakeEstimate(const EstimateRequest& request) = 0;
  // Writes the text to stdout token by token.
  virtual absl::Status Generate(const GenerateRequest& request) = 0;
  // Writes request.out; exit code 75 if a signal stopped it, with finished answers saved.
  virtual CommandOutcome Predict(const PredictRequest& request) = 0;

  // Whether LibTorch's CUDA libraries are linked and see a device.
  virtual bool SeesCuda() = 0;
  // CudaSupport::Find (engine/torch/cuda_support.h).
  virtual absl::StatusOr<ComputeGpu> FindGpu(DType dtype) = 0;
  // Called once. REQUIRES: choice.gpu.
  virtual absl::StatusOr<std::shared_ptr<Device>> OpenGpu(const DeviceChoice& choice) = 0;
};

// The files that OpenComputeLibrary loads.
struct ComputeFiles {
  std::string library;
  std::string torch;          // LibTorch's folder; "": the dynamic linker searches for it
  absl::Status why_no_torch;  // if `torch` is ""
  // The folder of `library`; an installed Spillway also has the script of `spillway setup` there.
  std::string folder() const { return library.substr(0, library.rfind('/')); }
};

// Finds the library, beside the program or in lib/spillway/ of the prefix that the program is
// installed in, and LibTorch (FindTorch); loads neither. kUnavailable, with the remedy, if the
// library is missing; kInvalidArgument if SPILLWAY_TORCH is wrong.
absl::StatusOr<ComputeFiles> FindComputeLibrary();

// Opens the library at the first call; it stays open. Configures the waits of OpenMP's threads,
// which come with it (SetOpenMpWaits), and reproducible results of MKL (SetMklRepeats). Errors as
// for FindComputeLibrary; also kUnavailable, with the remedy, if the library has another version or
// does not load, or if LibTorch is missing; kFailedPrecondition if `ulimit -v` leaves too few
// addresses.
absl::StatusOr<ComputeLibrary*> OpenComputeLibrary();

}  // namespace spillway

// The library's export: returns its object to a program of the same version.
extern "C" spillway::ComputeLibrary* spillway_compute_library(const char* version);
