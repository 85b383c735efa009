#include "engine/estimate/machine_profile.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "io/base/format_bytes.h"

namespace spillway {
namespace {

constexpr int64_t kDaySeconds = 24 * 3600;
constexpr int64_t kMaxAgeDays = 30;

bool IsRecent(int64_t then, int64_t now) {
  return then <= now && now - then <= kMaxAgeDays * kDaySeconds;
}

std::string LimitText(uint64_t bytes) {
  return bytes == UINT64_MAX ? "unlimited" : FormatBytes(bytes);
}

std::string Shown(const std::string& text) { return text.empty() ? "not told" : text; }

// The difference between the devices, "" if they are the same.
std::string DeviceChange(const BlockDevice& was, const BlockDevice& is) {
  const std::string disk = absl::StrCat("disk ", is.name.empty() ? is.number : is.name);
  if (was.serial != is.serial) {
    return absl::StrCat(disk, " has another serial number (", Shown(is.serial), ", not ",
                        Shown(was.serial), ")");
  }
  if (was.model != is.model) {
    return absl::StrCat(disk, " is another model (", Shown(is.model), ", not ", Shown(was.model),
                        ")");
  }
  if (was.size_bytes != is.size_bytes) {
    return absl::StrCat(disk, " has another size (", FormatBytes(is.size_bytes), ", not ",
                        FormatBytes(was.size_bytes), ")");
  }
  if (was.filesystem != is.filesystem) {
    return absl::StrCat(disk, " has another file system (", Shown(is.filesystem), ", not ",
                        Shown(was.filesystem), ")");
  }
  return "";
}

}  // namespace

std::optional<DiskEntry> MachineProfile::FindRates(const std::string& device, uint64_t probe_bytes,
                                                   int64_t unix_seconds) const {
  const auto found = disks_.find(device);
  if (found == disks_.end()) return std::nullopt;
  const DiskEntry& entry = found->second;
  if (!IsRecent(entry.unix_seconds, unix_seconds) || entry.probe_bytes < probe_bytes) {
    return std::nullopt;
  }
  return entry;
}

std::optional<LinkRates> MachineProfile::FindLink(const std::string& device,
                                                  int64_t unix_seconds) const {
  const auto found = links_.find(device);
  if (found == links_.end() || !IsRecent(found->second.unix_seconds, unix_seconds)) {
    return std::nullopt;
  }
  return found->second.rates;
}

void MachineProfile::SetLink(const std::string& device, const LinkEntry& entry) {
  links_[device] = entry;
}

std::optional<CollectiveRates> MachineProfile::FindCollective(const std::string& ranks,
                                                              int64_t unix_seconds) const {
  const auto found = collectives_.find(ranks);
  if (found == collectives_.end() || !IsRecent(found->second.unix_seconds, unix_seconds)) {
    return std::nullopt;
  }
  return found->second.rates;
}

void MachineProfile::SetCollective(const std::string& ranks, const CollectiveEntry& entry) {
  collectives_[ranks] = entry;
}

std::optional<ProductEntry> MachineProfile::FindProducts(const std::string& key,
                                                         int64_t unix_seconds) const {
  const auto found = products_.find(key);
  if (found == products_.end() || !IsRecent(found->second.unix_seconds, unix_seconds)) {
    return std::nullopt;
  }
  return found->second;
}

void MachineProfile::SetProducts(const std::string& key, const ProductEntry& entry) {
  products_[key] = entry;
}

void MachineProfile::SetRates(const std::string& device, const DiskEntry& entry) {
  disks_[device] = entry;
}

const TunedEntry* MachineProfile::FindTuned(const std::string& device) const {
  const auto found = tuned_.find(device);
  return found == tuned_.end() ? nullptr : &found->second;
}

void MachineProfile::SetTuned(const std::string& device, const TunedEntry& entry) {
  tuned_[device] = entry;
}

std::string StaleReason(const TunedEntry& entry, const MachineIdentity& machine,
                        const std::vector<BlockDevice>& devices, int64_t unix_seconds) {
  const int64_t age = unix_seconds - entry.unix_seconds;
  if (age < 0) return "it was made in the future: a clock is wrong";
  if (age > kMaxAgeDays * kDaySeconds) {
    return absl::StrCat("it is ", age / kDaySeconds, " days old, and ", kMaxAgeDays,
                        " is the most that counts");
  }
  if (entry.kernel != machine.kernel) {
    return absl::StrCat("the kernel is another (", machine.kernel, ", not ", entry.kernel, ")");
  }
  if (entry.cpus != machine.cpus) {
    return absl::StrCat("this process may use ", machine.cpus, " CPUs, not ", entry.cpus);
  }
  if (entry.locked_memory_bytes != machine.locked_memory_bytes) {
    return absl::StrCat("the limit of locked memory is another (",
                        LimitText(machine.locked_memory_bytes), ", not ",
                        LimitText(entry.locked_memory_bytes), ")");
  }
  for (const BlockDevice& device : devices) {
    const auto was = std::find_if(
        entry.devices.begin(), entry.devices.end(),
        [&](const TunedDevice& tuned) { return tuned.device.number == device.number; });
    if (was == entry.devices.end()) {
      return absl::StrCat("disk ", device.number, " was not part of it");
    }
    const std::string change = DeviceChange(was->device, device);
    if (!change.empty()) return change;
  }
  return "";
}

std::vector<double> PathWeights(const TunedEntry& entry, const std::vector<BlockDevice>& devices) {
  std::vector<double> weights;
  double total = 0;
  for (const BlockDevice& device : devices) {
    const auto tuned =
        std::find_if(entry.devices.begin(), entry.devices.end(),
                     [&](const TunedDevice& each) { return each.device.number == device.number; });
    if (tuned == entry.devices.end()) return {};
    const auto sharing =
        std::count_if(devices.begin(), devices.end(),
                      [&](const BlockDevice& each) { return each.number == device.number; });
    weights.push_back(tuned->rates.mixed_bytes_per_second / static_cast<double>(sharing));
    total += weights.back();
  }
  for (double& weight : weights) weight /= total;
  return weights;
}

namespace {

using nlohmann::json;

// Larger values were not written by this program; the limits (an exabyte, the year 5000) also fit
// an integer.
constexpr double kMostBytes = 1e18, kMostUnixSeconds = 1e11;

double PositiveNumber(const json& value, const char* key) {
  const auto found = value.find(key);
  if (found == value.end() || !found->is_number()) return 0;
  const double number = found->get<double>();
  return std::isfinite(number) && number > 0 ? number : 0;
}

// The value of `key`; 0 if it is not a positive whole number up to `most`.
uint64_t Whole(const json& value, const char* key, double most) {
  const double number = PositiveNumber(value, key);
  return number <= most ? static_cast<uint64_t>(number) : 0;
}

std::string Text(const json& value, const char* key) {
  const auto found = value.find(key);
  return found != value.end() && found->is_string() ? found->get<std::string>() : "";
}

json RatesJson(const DiskRates& rates) {
  return {{"read_bytes_per_second", rates.read_bytes_per_second},
          {"write_bytes_per_second", rates.write_bytes_per_second},
          {"mixed_bytes_per_second", rates.mixed_bytes_per_second},
          {"processor_seconds_per_byte", rates.processor_seconds_per_byte}};
}

std::optional<DiskRates> RatesFrom(const json& value) {
  DiskRates rates;
  rates.read_bytes_per_second = PositiveNumber(value, "read_bytes_per_second");
  rates.write_bytes_per_second = PositiveNumber(value, "write_bytes_per_second");
  rates.mixed_bytes_per_second = PositiveNumber(value, "mixed_bytes_per_second");
  rates.processor_seconds_per_byte = PositiveNumber(value, "processor_seconds_per_byte");
  if (std::min({rates.read_bytes_per_second, rates.write_bytes_per_second,
                rates.mixed_bytes_per_second}) <= 0) {
    return std::nullopt;
  }
  return rates;
}

std::optional<DiskEntry> DiskEntryFrom(const json& value) {
  if (!value.is_object()) return std::nullopt;
  const auto rates = RatesFrom(value);
  DiskEntry entry;
  entry.probe_bytes = Whole(value, "probe_bytes", kMostBytes);
  entry.unix_seconds = static_cast<int64_t>(Whole(value, "unix_seconds", kMostUnixSeconds));
  if (!rates || entry.probe_bytes == 0 || entry.unix_seconds == 0) return std::nullopt;
  // Entries of earlier versions lack it, and are measured anew.
  const double processor_seconds = rates->processor_seconds_per_byte;
  if (processor_seconds <= 0 || processor_seconds > 1) return std::nullopt;
  entry.rates = *rates;
  return entry;
}

std::optional<LinkEntry> LinkEntryFrom(const json& value) {
  if (!value.is_object()) return std::nullopt;
  LinkEntry entry;
  entry.rates.to_device_bytes_per_second = PositiveNumber(value, "to_device_bytes_per_second");
  entry.rates.to_host_bytes_per_second = PositiveNumber(value, "to_host_bytes_per_second");
  entry.unix_seconds = static_cast<int64_t>(Whole(value, "unix_seconds", kMostUnixSeconds));
  if (entry.rates.to_device_bytes_per_second == 0 || entry.rates.to_host_bytes_per_second == 0 ||
      entry.unix_seconds == 0) {
    return std::nullopt;
  }
  return entry;
}

std::optional<CollectiveEntry> CollectiveEntryFrom(const json& value) {
  if (!value.is_object()) return std::nullopt;
  CollectiveEntry entry;
  // If every rank has all weights, nothing is gathered.
  const auto gather = value.find("gather_bytes_per_second");
  const bool gathers = gather == value.end() || !gather->is_null();
  entry.rates.gather_bytes_per_second = PositiveNumber(value, "gather_bytes_per_second");
  entry.rates.sum_bytes_per_second = PositiveNumber(value, "sum_bytes_per_second");
  entry.rates.latency_seconds = PositiveNumber(value, "latency_seconds");
  entry.unix_seconds = static_cast<int64_t>(Whole(value, "unix_seconds", kMostUnixSeconds));
  if (std::min(entry.rates.sum_bytes_per_second, entry.rates.latency_seconds) <= 0 ||
      (gathers && entry.rates.gather_bytes_per_second <= 0) || entry.unix_seconds == 0) {
    return std::nullopt;
  }
  return entry;
}

std::optional<ProductEntry> ProductEntryFrom(const json& value) {
  if (!value.is_object()) return std::nullopt;
  ProductEntry entry;
  entry.own_seconds = PositiveNumber(value, "own_seconds");
  entry.fp32_seconds = PositiveNumber(value, "fp32_seconds");
  entry.unix_seconds = static_cast<int64_t>(Whole(value, "unix_seconds", kMostUnixSeconds));
  if (entry.own_seconds == 0 || entry.fp32_seconds == 0 || entry.unix_seconds == 0) {
    return std::nullopt;
  }
  return entry;
}

json TunedJson(const TunedEntry& entry) {
  json value = RatesJson(entry.rates);
  value["engine"] = entry.engine;
  value["mode"] = entry.mode;
  value["block_bytes"] = entry.block_bytes;
  value["depth"] = entry.depth;
  value["threads"] = entry.threads;
  value["kernel"] = entry.kernel;
  value["cpus"] = entry.cpus;
  value["locked_memory_bytes"] =
      entry.locked_memory_bytes == UINT64_MAX ? json(nullptr) : json(entry.locked_memory_bytes);
  value["unix_seconds"] = entry.unix_seconds;
  value["devices"] = json::array();
  for (const TunedDevice& tuned : entry.devices) {
    json device = RatesJson(tuned.rates);
    device["number"] = tuned.device.number;
    device["name"] = tuned.device.name;
    device["model"] = tuned.device.model;
    device["serial"] = tuned.device.serial;
    device["size_bytes"] = tuned.device.size_bytes;
    device["filesystem"] = tuned.device.filesystem;
    value["devices"].push_back(device);
  }
  return value;
}

std::optional<TunedEntry> TunedFrom(const json& value) {
  if (!value.is_object()) return std::nullopt;
  const auto rates = RatesFrom(value);
  if (!rates) return std::nullopt;
  TunedEntry entry;
  entry.rates = *rates;
  entry.engine = Text(value, "engine");
  entry.mode = Text(value, "mode");
  // Must satisfy the checks of io/create_io_engine.cc.
  entry.block_bytes = static_cast<uint32_t>(Whole(value, "block_bytes", 1 << 30));
  entry.depth = static_cast<uint32_t>(Whole(value, "depth", 4096));
  entry.threads = static_cast<uint32_t>(Whole(value, "threads", 256));
  entry.kernel = Text(value, "kernel");
  entry.cpus = static_cast<int>(Whole(value, "cpus", 1 << 20));
  const auto locked = value.find("locked_memory_bytes");
  if (locked == value.end()) return std::nullopt;
  entry.locked_memory_bytes = locked->is_null()              ? UINT64_MAX
                              : locked->is_number_unsigned() ? locked->get<uint64_t>()
                                                             : 0;
  entry.unix_seconds = static_cast<int64_t>(Whole(value, "unix_seconds", kMostUnixSeconds));
  if ((entry.engine != "io_uring" && entry.engine != "threads") || entry.block_bytes < 512 ||
      entry.block_bytes % 512 != 0 || entry.depth == 0 || entry.threads == 0 || entry.cpus == 0 ||
      entry.unix_seconds == 0) {
    return std::nullopt;
  }
  const auto devices = value.find("devices");
  if (devices == value.end() || !devices->is_array() || devices->empty()) return std::nullopt;
  for (const json& each : *devices) {
    const auto alone = each.is_object() ? RatesFrom(each) : std::nullopt;
    if (!alone) return std::nullopt;
    TunedDevice tuned;
    tuned.rates = *alone;
    tuned.device.number = Text(each, "number");
    tuned.device.name = Text(each, "name");
    tuned.device.model = Text(each, "model");
    tuned.device.serial = Text(each, "serial");
    tuned.device.size_bytes = Whole(each, "size_bytes", 1e21);
    tuned.device.filesystem = Text(each, "filesystem");
    entry.devices.push_back(tuned);
  }
  return entry;
}

}  // namespace

MachineProfile MachineProfile::FromJson(const json& value) {
  MachineProfile profile;
  if (!value.is_object()) return profile;
  const auto each = [&](const char* name, auto add) {
    const auto found = value.find(name);
    if (found == value.end() || !found->is_object()) return;
    for (const auto& [device, entry] : found->items()) add(device, entry);
  };
  each("disks", [&](const std::string& device, const json& entry) {
    if (const auto read = DiskEntryFrom(entry)) profile.SetRates(device, *read);
  });
  each("links", [&](const std::string& device, const json& entry) {
    if (const auto read = LinkEntryFrom(entry)) profile.SetLink(device, *read);
  });
  each("collectives", [&](const std::string& ranks, const json& entry) {
    if (const auto read = CollectiveEntryFrom(entry)) profile.SetCollective(ranks, *read);
  });
  each("products", [&](const std::string& key, const json& entry) {
    if (const auto read = ProductEntryFrom(entry)) profile.SetProducts(key, *read);
  });
  each("tuned", [&](const std::string& device, const json& entry) {
    if (const auto read = TunedFrom(entry)) profile.SetTuned(device, *read);
  });
  return profile;
}

json MachineProfile::ToJson() const {
  json disks = json::object(), links = json::object(), collectives = json::object();
  json products = json::object(), tuned = json::object();
  for (const auto& [device, entry] : disks_) {
    disks[device] = RatesJson(entry.rates);
    disks[device]["probe_bytes"] = entry.probe_bytes;
    disks[device]["unix_seconds"] = entry.unix_seconds;
  }
  for (const auto& [device, entry] : links_) {
    links[device] = {{"to_device_bytes_per_second", entry.rates.to_device_bytes_per_second},
                     {"to_host_bytes_per_second", entry.rates.to_host_bytes_per_second},
                     {"unix_seconds", entry.unix_seconds}};
  }
  for (const auto& [ranks, entry] : collectives_) {
    const double gather = entry.rates.gather_bytes_per_second;
    collectives[ranks] = {{"gather_bytes_per_second", gather > 0 ? json(gather) : json(nullptr)},
                          {"sum_bytes_per_second", entry.rates.sum_bytes_per_second},
                          {"latency_seconds", entry.rates.latency_seconds},
                          {"unix_seconds", entry.unix_seconds}};
  }
  for (const auto& [key, entry] : products_) {
    products[key] = {{"own_seconds", entry.own_seconds},
                     {"fp32_seconds", entry.fp32_seconds},
                     {"unix_seconds", entry.unix_seconds}};
  }
  for (const auto& [device, entry] : tuned_) tuned[device] = TunedJson(entry);
  return {{"disks", disks},
          {"links", links},
          {"collectives", collectives},
          {"products", products},
          {"tuned", tuned}};
}

}  // namespace spillway
