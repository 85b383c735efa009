// Keys of the entries of a machine profile: the machine, the devices below paths, and what the
// rates of exchanges depend on.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/machine/block_device.h"
#include "engine/ranks/collective_rates.h"

namespace spillway {

// Identity of this machine now.
struct MachineIdentity {
  std::string key;   // distinguishes machines, also clones with other names; not secret
  std::string host;  // its name, for messages
  std::string kernel;
  int cpus = 0;                      // cores that this process may use
  uint64_t locked_memory_bytes = 0;  // the limit; UINT64_MAX: none
};
MachineIdentity ThisMachine();

// The device below each path, in the order of the paths.
std::vector<BlockDevice> FindDevices(const std::vector<std::string>& paths);
// The devices below paths as a key of the profile, each named once. `how`: the I/O settings, which
// are part of the key of rates.
std::string DeviceKey(const std::vector<BlockDevice>& devices, const std::string& how = "");

// "4 ranks in groups of 2 on 1 machine, bf16", with ", GPUs" if whole units are in their memory:
// what rates of exchanges depend on.
std::string CollectiveKey(const GradientSumOptions& sums, int machines, bool gpus = false);

}  // namespace spillway
