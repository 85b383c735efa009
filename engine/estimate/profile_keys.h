// What the entries of a machine profile are kept under: the machine, the devices below paths, and
// what rates of exchanges depend on.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/machine/block_device.h"
#include "engine/ranks/collective_rates.h"

namespace spillway {

// Of the machine now.
struct MachineIdentity {
  std::string key;   // tells machines apart, clones with other names too; no secret
  std::string host;  // its name, for people
  std::string kernel;
  int cpus = 0;                      // that this process may use
  uint64_t locked_memory_bytes = 0;  // the limit; UINT64_MAX: none
};
MachineIdentity ThisMachine();

// The device below each path, in their order.
std::vector<BlockDevice> FindDevices(const std::vector<std::string>& paths);
// The devices below paths as a key of the profile, each named once; `how` they are reached is
// part of the key of rates.
std::string DeviceKey(const std::vector<BlockDevice>& devices, const std::string& how = "");

// "4 ranks in groups of 2 on 1 machine, bf16", and ", GPUs" where units are whole in those: what
// rates of exchanges depend on.
std::string CollectiveKey(const GradientSumOptions& sums, int machines, bool gpus = false);

}  // namespace spillway
