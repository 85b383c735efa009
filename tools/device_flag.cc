#include "tools/device_flag.h"

#include "engine/torch/open_compute.h"
#include "io/base/log.h"
#include "io/base/status.h"

namespace spillway {

absl::StatusOr<DeviceChoice> ResolveDevice(RunConfig* config) {
  TrainOptions& train = config->train;
  ASSIGN_OR_RETURN(const DeviceChoice choice,
                   ChooseComputeDevice(train.device, train.dtype, train.device_memory_bytes));
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
