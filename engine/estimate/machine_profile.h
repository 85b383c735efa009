// What is known of this machine's disks, of its devices' links and of ranks that began here, so
// that not every run measures them: their rates, and the I/O settings that `spillway tune` found
// best. Plain values, pure functions; the file they are kept in is engine/estimate/profile_file.h.
//
// A profile holds the entries of one machine. Rates count for the device and the engine they were
// measured with, and for thirty days. A tuning counts for the very devices (by serial, size and
// model, not only by number), file system, kernel, cores and locked-memory limit it was
// made with, and for thirty days: anything else is stale, and StaleReason says why.
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
  uint64_t probe_bytes = 0;  // moved each way to measure them
  int64_t unix_seconds = 0;  // when
};

struct LinkEntry {
  LinkRates rates;
  int64_t unix_seconds = 0;  // when
};

struct CollectiveEntry {
  CollectiveRates rates;
  int64_t unix_seconds = 0;  // when
};

// How long a micro-batch's products take in two precisions (engine/torch/precision_probe.h).
struct ProductEntry {
  double own_seconds = 0;    // in the run's dtype
  double fp32_seconds = 0;   // in fp32
  int64_t unix_seconds = 0;  // when
};

// One of the devices below the tuned paths, and what it can do alone.
struct TunedDevice {
  BlockDevice device;
  DiskRates rates;

  friend bool operator==(const TunedDevice&, const TunedDevice&) = default;
};

struct TunedEntry {
  std::string engine;  // "io_uring" or "threads"
  std::string mode;    // of io_uring: "iopoll", "sqpoll" or neither, ""
  uint32_t block_bytes = 0;
  uint32_t depth = 0;
  uint32_t threads = 0;              // best for the thread engine, whichever was chosen
  DiskRates rates;                   // of all the paths together, with these settings
  std::vector<TunedDevice> devices;  // in the order of their keys
  // What it was measured on.
  std::string kernel;
  int cpus = 0;
  uint64_t locked_memory_bytes = 0;
  int64_t unix_seconds = 0;

  friend bool operator==(const TunedEntry&, const TunedEntry&) = default;
};

// Large because each kind of entry is read, checked and written beside the others.
class MachineProfile {
 public:
  // One machine's part of the file; entries that are not whole are left out.
  static MachineProfile FromJson(const nlohmann::json& json);
  nlohmann::json ToJson() const;

  // The rates of `device`, if they are younger than thirty days, not of the future, and were
  // measured with at least `probe_bytes`.
  std::optional<DiskEntry> FindRates(const std::string& device, uint64_t probe_bytes,
                                     int64_t unix_seconds) const;
  void SetRates(const std::string& device, const DiskEntry& entry);

  // The rates of the link to a device with memory of its own, by Device::name; likewise.
  std::optional<LinkRates> FindLink(const std::string& device, int64_t unix_seconds) const;
  void SetLink(const std::string& device, const LinkEntry& entry);

  // The rates of exchanges between ranks, by CollectiveKey; likewise.
  std::optional<CollectiveRates> FindCollective(const std::string& ranks,
                                                int64_t unix_seconds) const;
  void SetCollective(const std::string& ranks, const CollectiveEntry& entry);

  // The seconds of products, by a key that names the processor, the library and the shapes;
  // likewise.
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

// Why `entry` does not count any more, as the end of a sentence ("it is 41 days old ..."); ""
// where it does. `devices`: those below the paths now.
std::string StaleReason(const TunedEntry& entry, const MachineIdentity& machine,
                        const std::vector<BlockDevice>& devices, int64_t unix_seconds);

// How much of the bytes each path should take, by what its device does alone, in the order of
// `devices` (one a path; paths on one device share its rate). They add up to 1; empty where
// a device is not in the entry.
std::vector<double> PathWeights(const TunedEntry& entry, const std::vector<BlockDevice>& devices);

}  // namespace spillway
