// The library's one object, and the name by which the program finds it.
#include <ATen/Context.h>

#include <cstring>

#include "engine/torch/open_compute.h"
#include "io/base/status.h"
#include "tools/compute/compute_commands.h"
#include "tools/compute_library.h"

namespace spillway {

// The version of this library, in a source that CMake writes (cmake/SpillwayProgram.cmake). The
// program's Version() would return the program's, to which this one is compared.
const char* LibraryVersion();

namespace {

class TorchLibrary : public ComputeLibrary {
 public:
  CommandOutcome Train(const RunConfig& config) override { return spillway::Train(config); }
  absl::StatusOr<Estimate> MakeEstimate(const EstimateRequest& request) override {
    return EstimateRun(request);
  }
  absl::Status Generate(const GenerateRequest& request) override {
    return spillway::Generate(request);
  }
  CommandOutcome Predict(const PredictRequest& request) override {
    return spillway::Predict(request);
  }

  bool SeesCuda() override { return at::hasCUDA(); }
  absl::StatusOr<ComputeGpu> FindGpu(DType dtype) override { return FindComputeGpu(dtype); }
  absl::StatusOr<std::shared_ptr<Device>> OpenGpu(const DeviceChoice& choice) override {
    ASSIGN_OR_RETURN(std::shared_ptr<OpenedPlace> opened, OpenCompute(choice));
    return std::shared_ptr<Device>(opened, opened->place.device);
  }
};

}  // namespace
}  // namespace spillway

spillway::ComputeLibrary* spillway_compute_library(const char* version) {
  static spillway::TorchLibrary library;
  return std::strcmp(version, spillway::LibraryVersion()) == 0 ? &library : nullptr;
}
