// What computes with LibTorch: a shared library of ours, beside the program or installed in
// lib/spillway/, that a command opens when it first computes. Loading LibTorch takes most of a
// second, so flags are checked before, and commands that compute nothing do without it.
//
// The library (tools/compute/, engine/torch/, engine/families/) has no copy of io, swap and the
// engine's core: it takes them from the program, which exports all of its symbols. So there is one
// log, one set of statics, and one type behind every Status and exception. Main thread.
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

  RunConfig config;     // tuned, its device resolved
  DeviceChoice device;  // what that came to
  DryRun dry_run = DryRun::kAuto;
  JsonDocument document;  // the model's config.json
  ModelShape shape;       // of it
};

// What the library does, each call to its end.
class ComputeLibrary {
 public:
  virtual ~ComputeLibrary() = default;

  virtual CommandOutcome Train(const RunConfig& config) = 0;
  virtual absl::StatusOr<Estimate> MakeEstimate(const EstimateRequest& request) = 0;
  // Writes the text to stdout as it comes.
  virtual absl::Status Generate(const GenerateRequest& request) = 0;
  // Writes request.out; exit code 75 where a signal stopped it, with what is done kept.
  virtual CommandOutcome Predict(const PredictRequest& request) = 0;

  // Whether LibTorch's CUDA libraries are linked and see a device.
  virtual bool SeesCuda() = 0;
  // As CudaSupport::Find (engine/torch/cuda_support.h).
  virtual absl::StatusOr<ComputeGpu> FindGpu(DType dtype) = 0;
  // Once. REQUIRES: choice.gpu.
  virtual absl::StatusOr<std::shared_ptr<Device>> OpenGpu(const DeviceChoice& choice) = 0;
};

// What OpenComputeLibrary loads.
struct ComputeFiles {
  std::string library;
  std::string torch;          // LibTorch's folder; "": the dynamic linker looks for it
  absl::Status why_no_torch;  // if `torch` is ""
  // Where `library` lies, and in an installed Spillway the script of `spillway setup`.
  std::string folder() const { return library.substr(0, library.rfind('/')); }
};

// Finds the library, beside the program or in lib/spillway/ of the prefix that the program is
// installed in, and LibTorch (FindTorch); loads neither. kUnavailable, with the remedy, if the
// library is missing; kInvalidArgument if SPILLWAY_TORCH is wrong.
absl::StatusOr<ComputeFiles> FindComputeLibrary();

// Opens the library at the first call; it stays open. OpenMP's threads, which come with it, are
// told how to wait (SetOpenMpWaits), and MKL to repeat itself (SetMklRepeats). As
// FindComputeLibrary; kUnavailable, with the remedy, where the library is another version's or does
// not load; kUnavailable where LibTorch is not there; kFailedPrecondition where `ulimit -v` leaves
// it no addresses.
absl::StatusOr<ComputeLibrary*> OpenComputeLibrary();

}  // namespace spillway

// What the library exports: its one object, for a program that says the same version.
extern "C" spillway::ComputeLibrary* spillway_compute_library(const char* version);
