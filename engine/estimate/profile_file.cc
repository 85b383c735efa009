#include "engine/estimate/profile_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cstdlib>
#include <mutex>

#include "absl/strings/str_cat.h"
#include "engine/base/shallow_json.h"
#include "io/base/log.h"
#include "io/base/status.h"
#include "io/base/unique_fd.h"
#include "io/file.h"
#include "io/file_system.h"

namespace spillway {
namespace {

using nlohmann::json;

constexpr int kVersion = 2;
constexpr uint64_t kMostFileBytes = uint64_t{4} << 20;
// Bounds for machines that share a home, and sets of devices of one: the oldest are removed.
constexpr size_t kMostMachines = 256;
constexpr size_t kMostEntries = 64;
// A writer holds the lock for milliseconds; one that is stopped must not stop others.
constexpr absl::Duration kLockPatience = absl::Seconds(2);

// Waits for other writers. Without a lock (no room, or not supported by the file system) the file
// is still never torn; only another writer's entry may be lost.
UniqueFd TakeLock(const std::string& path) {
  UniqueFd fd(RetryOnSignal(
      [&] { return ::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600); }));
  const absl::Time end = absl::Now() + kLockPatience;
  while (fd.valid() && ::flock(fd.get(), LOCK_EX | LOCK_NB) != 0 && absl::Now() < end) {
    absl::SleepFor(absl::Milliseconds(5));
  }
  return fd;
}

struct FileContent {
  json value = json::object();
  bool broken = false;  // exists, but is not a valid profile
  double newer = 0;     // its version, if newer than ours
};

absl::StatusOr<FileContent> ReadContent(const std::string& path) {
  FileContent content;
  const auto text = ReadSmallFile(path, kMostFileBytes);
  if (absl::IsNotFound(text.status())) return content;
  if (absl::IsInvalidArgument(text.status())) content.broken = true;  // longer than any profile
  if (content.broken) return content;
  if (!text.ok()) return text.status();
  json value = ParseShallowJson(*text);
  const auto version = value.is_object() ? value.find("version") : value.end();
  if (!value.is_object() || version == value.end() || !version->is_number()) {
    content.broken = true;
    return content;
  }
  if (version->get<double>() > kVersion) content.newer = version->get<double>();
  // An older version had only rates, which are measured again.
  const auto machines = value.find("machines");
  if (*version == kVersion && (machines == value.end() || !machines->is_object())) {
    content.broken = true;
  }
  if (*version == kVersion && !content.broken) content.value = std::move(value);
  return content;
}

// The entry's time; 0 if it has none, or one in the future.
int64_t TimeOf(const json& value, int64_t now) {
  const auto found = value.is_object() ? value.find("unix_seconds") : value.end();
  if (!value.is_object() || found == value.end() || !found->is_number_integer()) return 0;
  const auto time = found->get<int64_t>();
  return time <= now ? time : 0;
}

void DropOldest(json& members, size_t most, int64_t now) {
  while (members.size() > most) {
    auto oldest = members.begin();
    for (auto each = members.begin(); each != members.end(); ++each) {
      if (TimeOf(*each, now) < TimeOf(*oldest, now)) oldest = each;
    }
    members.erase(oldest);
  }
}

// Adds our entries where they are newer than the file's; unknown members stay.
void Merge(json& machine, const json& ours, int64_t now) {
  for (const char* kind : {"disks", "links", "collectives", "products", "tuned"}) {
    json& theirs = machine[kind];
    if (!theirs.is_object()) theirs = json::object();
    for (const auto& [device, entry] : ours.at(kind).items()) {
      if (TimeOf(entry, now) >= TimeOf(theirs[device], now)) theirs[device] = entry;
    }
    DropOldest(theirs, kMostEntries, now);
  }
}

ProfilePlace PlaceAt(const std::string& path) {
  const auto found = FileSystem::Real().Stat(path, SymbolicLink::kFollow);
  if (!found.ok() || found->kind == FileInfo::Kind::kFile) return {false, path};
  static std::once_flag said;
  std::call_once(said, [&] {
    LogWarning(absl::StrCat("the machine's profile ", path,
                            " is no regular file: nothing is kept there, as with "
                            "SPILLWAY_PROFILE=off"));
  });
  return {true, ""};
}

}  // namespace

ProfilePlace FindProfile() {
  const auto variable = [](const char* name) -> std::string {
    const char* value = std::getenv(name);
    return value == nullptr ? "" : value;
  };
  const std::string said = variable("SPILLWAY_PROFILE");
  if (said == "off") return {true, ""};
  if (!said.empty()) return PlaceAt(said);
  // The standard requires absolute paths, and that others are ignored.
  const std::string cache = variable("XDG_CACHE_HOME"), home = variable("HOME");
  if (!cache.empty() && cache[0] == '/') return PlaceAt(cache + "/spillway/profile.json");
  if (!home.empty() && home[0] == '/') return PlaceAt(home + "/.cache/spillway/profile.json");
  return {};
}

LoadedProfile LoadProfile(const std::string& path, const MachineIdentity& machine) {
  LoadedProfile loaded;
  if (path.empty()) return loaded;
  const auto content = ReadContent(path);
  if (!content.ok()) {
    loaded.problem = absl::StrCat("the machine's profile can't be read and is not used: ",
                                  content.status().message());
    return loaded;
  }
  if (content->newer > 0) {
    loaded.problem = absl::StrCat(
        "the machine's profile ", path, " is of a newer Spillway (version ", content->newer,
        ", this one reads ", kVersion, ") and is not used; SPILLWAY_PROFILE=FILE names another");
    return loaded;
  }
  if (content->broken) {
    loaded.problem = absl::StrCat("the machine's profile ", path,
                                  " is broken; it is not used, and replaced when something is "
                                  "measured (spillway tune, or a run with --swap)");
    return loaded;
  }
  const auto machines = content->value.find("machines");
  if (machines == content->value.end()) return loaded;
  for (const auto& [key, part] : machines->items()) {
    MachineProfile profile = MachineProfile::FromJson(part);
    if (key == machine.key) {
      loaded.profile = std::move(profile);
    } else if (profile.has_tuned()) {
      const auto host = part.find("host");
      loaded.tuned_elsewhere.push_back(
          host != part.end() && host->is_string() ? host->get<std::string>() : key);
    }
  }
  return loaded;
}

absl::Status SaveProfile(const std::string& named, const MachineIdentity& machine,
                         const MachineProfile& profile, int64_t now) {
  if (named.empty()) {
    return absl::FailedPreconditionError(
        "there is no place for the machine's profile: set HOME, or SPILLWAY_PROFILE=FILE");
  }
  ASSIGN_OR_RETURN(const std::string path, ResolveForWriting(FileSystem::Real(), named));
  const std::string folder = ParentPath(path);
  const int error = CreateSharedDirectories(folder);
  if (error != 0) return ErrnoStatus(error, absl::StrCat("create ", folder));
  const UniqueFd lock = TakeLock(path + ".lock");
  ASSIGN_OR_RETURN(FileContent content, ReadContent(path));
  if (content.newer > 0) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, " is of a newer Spillway (version ", content.newer,
                     ") and is left alone: name another file with SPILLWAY_PROFILE=FILE"));
  }
  json& machines = content.value["machines"];
  if (!machines.is_object()) machines = json::object();
  json& part = machines[machine.key];
  if (!part.is_object()) part = json::object();
  Merge(part, profile.ToJson(), now);
  part["host"] = machine.host;
  part["unix_seconds"] = now;
  DropOldest(machines, kMostMachines, now);
  content.value["version"] = kVersion;
  return WriteFileAtomically(
      path, content.value.dump(2, ' ', false, json::error_handler_t::replace) + "\n");
}

}  // namespace spillway
