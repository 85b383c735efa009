#include "tools/device_flag.h"

#include "io/base/log.h"
#include "io/base/status.h"
#include "tools/compute_library.h"

namespace spillway {

absl::StatusOr<DeviceChoice> ChooseDeviceHere(const std::string& device, DType dtype,
                                              uint64_t device_memory_bytes) {
  return ChooseDevice(device, device_memory_bytes, [dtype]() -> absl::StatusOr<ComputeGpu> {
    if (!BuiltWithCuda()) return NoCudaInThisBuild();
    ASSIGN_OR_RETURN(ComputeLibrary* const compute, OpenComputeLibrary());
    return compute->FindGpu(dtype);
  });
}

absl::StatusOr<DeviceChoice> ResolveDevice(RunConfig* config) {
  TrainOptions& train = config->train;
  ASSIGN_OR_RETURN(const DeviceChoice choice,
                   ChooseDeviceHere(train.device, train.dtype, train.device_memory_bytes));
  const bool by_itself = train.device == "auto";
  if (by_itself) LogInfo(choice.Sentence());
  train.device = choice.Text();
  for (ResolvedValue& value : config->values) {
    if (value.name != "device") continue;
    value.value = train.device;
    if (by_itself) value.source = "derived";
  }
  return choice;
}

}  // namespace spillway
