#include "engine/machine/disk_space.h"

#include <map>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "io/base/format_bytes.h"

namespace spillway {
namespace {

struct Need {
  std::string path;  // the first one of this file system
  uint64_t needed_bytes = 0;
  uint64_t returned_bytes = 0;
  std::vector<std::string> what;
};

struct Place {
  std::string path;  // existing
  uint64_t device = 0;
};

// The path, or its nearest existing parent. None if it cannot be accessed; its later use reports
// that.
std::optional<Place> FindPlace(std::string path, FileSystem& files) {
  for (;;) {
    const auto found = files.Stat(path, SymbolicLink::kFollow);
    if (found.ok()) return Place{path, found->identity.first};
    const std::string parent = ParentPath(path);
    if (!absl::IsNotFound(found.status()) || parent == path) return std::nullopt;
    path = parent;
  }
}

}  // namespace

absl::Status CheckSpace(const std::vector<SpaceNeed>& needs, const std::vector<SpaceNeed>& returned,
                        FileSystem& files, absl::string_view remedy) {
  std::map<uint64_t, Need> systems;
  for (const SpaceNeed& need : needs) {
    const std::optional<Place> place = FindPlace(need.path, files);
    if (need.bytes == 0 || !place) continue;
    Need& system = systems[place->device];
    if (system.path.empty()) system.path = place->path;
    system.needed_bytes += need.bytes;
    system.what.push_back(absl::StrCat(FormatBytes(need.bytes), " for ", need.what));
  }
  for (const SpaceNeed& back : returned) {
    const std::optional<Place> place = FindPlace(back.path, files);
    if (place && systems.contains(place->device)) {
      systems[place->device].returned_bytes += back.bytes;
    }
  }
  const Need* worst = nullptr;
  uint64_t worst_missing = 0, worst_free = 0;
  for (const auto& [device, system] : systems) {
    const auto free_bytes = files.FreeBytes(system.path);
    if (!free_bytes.ok()) continue;
    const uint64_t there = *free_bytes + system.returned_bytes;
    if (system.needed_bytes <= there || system.needed_bytes - there <= worst_missing) continue;
    worst = &system;
    worst_missing = system.needed_bytes - there;
    worst_free = there;
  }
  if (worst == nullptr) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("the file system of ", worst->path, " has ", FormatBytes(worst_free),
                   " free, and this run needs ", FormatBytes(worst->needed_bytes), " there (",
                   absl::StrJoin(worst->what, ", "), "); free ", FormatBytes(worst_missing),
                   " more, or ", remedy, "; nothing was written"));
}

}  // namespace spillway
