#include "engine/run/state_move.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/ranks/reshard.h"
#include "engine/weights/frozen_in_place.h"
#include "io/base/format_bytes.h"
#include "io/base/log.h"
#include "io/base/status.h"
#include "swap/mover/whole_store.h"

namespace spillway {
namespace {

constexpr char kOtherLayout[] =
    "the commit's state has another layout than this run's model and optimizer";

}  // namespace

absl::Status CheckLayout(const SwapStore& store, const StateLayout& layout) {
  if (store.layout() == layout) return absl::OkStatus();
  return absl::InvalidArgumentError(kOtherLayout);
}

absl::Status MoveState(const CommittedRun& from, bool resharded, const ShardGrid& grid,
                       SwapStore& to) {
  const StateLayout& layout = to.layout();
  if (resharded) {
    if (from.store->layout().planes() != layout.planes()) {
      return absl::InvalidArgumentError(kOtherLayout);
    }
  } else {
    RETURN_IF_ERROR(CheckLayout(*from.store, layout));
  }
  uint64_t moved_bytes = 0;
  for (int unit = 0; unit < layout.num_units(); ++unit) {
    if (!to.IsInPlace(unit)) moved_bytes += layout.UnitBytes(unit);
  }
  LogInfo(absl::StrCat("moving ", FormatBytes(moved_bytes), " of state to the swap paths"));
  if (!resharded) return CopyStore(*from.store, to);
  std::vector<uint64_t> parameters;
  for (const UnitDescription& unit : from.state.model.units) {
    parameters.push_back(unit.flat_parameters);
  }
  return Reshard(from.shards(), from.grid(), parameters, grid, to);
}

InPlaceUnits StaysInPlace(const CommittedRun& from, bool resharded, const InPlaceUnits& found) {
  if (!resharded) {
    return from.store->in_place() != nullptr ? from.store->in_place()->places() : InPlaceUnits();
  }
  const auto known = [&](const ModelFile& file) {
    for (const SwapStore* shard : from.shards()) {
      if (shard->in_place() == nullptr) continue;
      const auto& files = shard->in_place()->places().files;
      if (std::find(files.begin(), files.end(), file) != files.end()) return true;
    }
    return false;
  };
  return OnlyUnits(found, [&](int unit) {
    const auto& pieces = found.units[unit];
    const bool same_files = std::all_of(pieces.begin(), pieces.end(), [&](const FilePiece& piece) {
      return known(found.files[piece.file]);
    });
    const auto shards = from.shards();
    return same_files && std::any_of(shards.begin(), shards.end(), [&](const SwapStore* shard) {
             return shard->IsInPlace(unit);
           });
  });
}

}  // namespace spillway
