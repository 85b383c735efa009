#include "tools/device_flag.h"

#include "absl/strings/str_cat.h"
#include "engine/machine/compute_precision.h"
#include "engine/machine/gpu_probe.h"
#include "io/base/log.h"
#include "io/base/status.h"
#include "tools/build_info.h"
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
  if (const std::string notice = choice.Notice(HasNvidiaGpu()); by_itself && !notice.empty()) {
    LogInfo(notice);
  }
  train.device = choice.Text();
  const bool auto_compute = !train.compute;
  const bool measured = auto_compute && IsComputeMeasured(train.dtype, choice.gpu.has_value());
  if (!measured) {
    train.compute = ChooseCompute(train.compute, train.dtype, choice.gpu.has_value());
    const std::string remark = ComputeRemark(*train.compute, train.dtype, choice.gpu.has_value());
    if (train.compute == train.dtype && !remark.empty()) LogWarning(remark);
  }
  if (train.layers_in_fp8) {
    RETURN_IF_ERROR(CheckFp8(choice));
    if (!choice.gpu) LogWarning(absl::StrCat("--compute fp8: ", kFp8Emulated));
  }
  for (ResolvedValue& value : config->values) {
    const bool is_device = value.name == "device";
    if (!is_device && value.name != "compute") continue;
    value.value = is_device ? train.device : train.compute_name();
    if (is_device ? by_itself : auto_compute) value.source = "derived";
  }
  return choice;
}

}  // namespace spillway
