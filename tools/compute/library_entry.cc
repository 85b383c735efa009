// The library's only object, and the exported function that returns it.
#include <ATen/Context.h>

#include <cstring>

#include "engine/torch/open_compute.h"
#include "io/base/status.h"
#include "tools/compute/compute_commands.h"
#include "tools/compute_library.h"

namespace spillway {
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
  return std::strcmp(version, SPILLWAY_VERSION) == 0 ? &library : nullptr;
}
