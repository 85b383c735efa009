// Measured rates of this machine's disks, its devices' links and of exchanges between ranks, and
// the I/O settings that `spillway tune` found best, stored so that not every run measures them.
// Plain values, pure functions; engine/estimate/profile_file.h has the file.
//
// A profile has the entries of one machine. Rates are valid for the device and the engine they were
// measured with, and for thirty days. A tuning is valid for the same devices (by serial, size and
// model, not only by number), file system, kernel, cores and locked-memory limit, and for thirty
// days; otherwise it is stale, and StaleReason says why.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/estimate/profile_keys.h"
#include "engine/machine/block_device.h"
#include "engine/ranks/collective_rates.h"
#include "nlohmann/json.hpp"
#include "swap/plan/step_clock.h"

namespace spillway {

struct DiskEntry {
  DiskRates rates;
  uint64_t probe_bytes = 0;  // moved each way by the measurement
  int64_t unix_seconds = 0;  // time of the measurement
};

struct LinkEntry {
  LinkRates rates;
  int64_t unix_seconds = 0;  // time of the measurement
};

struct CollectiveEntry {
  CollectiveRates rates;
  int64_t unix_seconds = 0;  // time of the measurement
};

// Durations of a micro-batch's products in two precisions (engine/torch/precision_probe.h).
struct ProductEntry {
  double own_seconds = 0;    // in the run's dtype
  double fp32_seconds = 0;   // in fp32
  int64_t unix_seconds = 0;  // time of the measurement
};

// One of the devices below the tuned paths, and its rate alone.
struct TunedDevice {
  BlockDevice device;
  DiskRates rates;

  friend bool operator==(const TunedDevice&, const TunedDevice&) = default;
};

struct TunedEntry {
  std::string engine;  // "io_uring" or "threads"
  std::string mode;    // of io_uring: "iopoll", "sqpoll", or "" for neither
  uint32_t block_bytes = 0;
  uint32_t depth = 0;
  uint32_t threads = 0;              // best for the thread engine, even if another one was chosen
  DiskRates rates;                   // of all paths together, with these settings
  std::vector<TunedDevice> devices;  // in the order of their keys
  // The system it was measured on.
  std::string kernel;
  int cpus = 0;
  uint64_t locked_memory_bytes = 0;
  int64_t unix_seconds = 0;

  friend bool operator==(const TunedEntry&, const TunedEntry&) = default;
};

// Large because each kind of entry is read, checked and written beside the others.
class MachineProfile {
 public:
  // One machine's part of the file; incomplete entries are ignored.
  static MachineProfile FromJson(const nlohmann::json& json);
  nlohmann::json ToJson() const;

  // The rates of `device`, if they are younger than thirty days, not of the future, and were
  // measured with at least `probe_bytes`.
  std::optional<DiskEntry> FindRates(const std::string& device, uint64_t probe_bytes,
                                     int64_t unix_seconds) const;
  void SetRates(const std::string& device, const DiskEntry& entry);

  // The rates of the link to a device with memory of its own, by Device::name; same age limit.
  std::optional<LinkRates> FindLink(const std::string& device, int64_t unix_seconds) const;
  void SetLink(const std::string& device, const LinkEntry& entry);

  // The rates of exchanges between ranks, by CollectiveKey; same age limit.
  std::optional<CollectiveRates> FindCollective(const std::string& ranks,
                                                int64_t unix_seconds) const;
  void SetCollective(const std::string& ranks, const CollectiveEntry& entry);

  // The seconds of products, by a key that names the processor, the library and the shapes; same
  // age limit.
  std::optional<ProductEntry> FindProducts(const std::string& key, int64_t unix_seconds) const;
  void SetProducts(const std::string& key, const ProductEntry& entry);

  // The tuning of `device`, stale or not.
  const TunedEntry* FindTuned(const std::string& device) const;
  void SetTuned(const std::string& device, const TunedEntry& entry);

  bool has_tuned() const { return !tuned_.empty(); }
  bool empty() const {
    return disks_.empty() && links_.empty() && collectives_.empty() && products_.empty() &&
           tuned_.empty();
  }

 private:
  std::map<std::string, DiskEntry> disks_;
  std::map<std::string, LinkEntry> links_;
  std::map<std::string, CollectiveEntry> collectives_;
  std::map<std::string, ProductEntry> products_;
  std::map<std::string, TunedEntry> tuned_;
};

// Why `entry` is stale, as the end of a sentence ("it is 41 days old ..."); "" if it is valid.
// `devices`: those below the paths now.
std::string StaleReason(const TunedEntry& entry, const MachineIdentity& machine,
                        const std::vector<BlockDevice>& devices, int64_t unix_seconds);

// The part of the bytes that each path should take, by the rate of its device alone, in the order
// of `devices` (one per path; paths on one device share its rate). The parts add up to 1; empty if
// a device is missing in the entry.
std::vector<double> PathWeights(const TunedEntry& entry, const std::vector<BlockDevice>& devices);

}  // namespace spillway
