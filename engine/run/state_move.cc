#include "engine/run/state_move.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/ranks/reshard.h"
#include "engine/run/committed_run.h"
#include "io/base/format_bytes.h"
#include "io/base/log.h"
#include "io/base/status.h"
#include "swap/store/store_reader.h"

namespace spillway {
namespace {

constexpr char kOtherLayout[] =
    "the commit's state has another layout than this run's model and optimizer";

}  // namespace

absl::Status CheckLayout(const SwapStore& store, const StateLayout& layout) {
  if (store.layout() == layout) return absl::OkStatus();
  return absl::InvalidArgumentError(kOtherLayout);
}

absl::Status MoveState(const std::string& directory, bool resharded, const ShardGrid& grid,
                       FileSystem& files, SwapStore& to) {
  ASSIGN_OR_RETURN(CommittedRun from, OpenCommittedRun(directory, files));
  const StateLayout& layout = to.layout();
  if (resharded) {
    RETURN_IF_ERROR(from.OpenOtherParts(files));
    if (from.store->layout().planes() != layout.planes()) {
      return absl::InvalidArgumentError(kOtherLayout);
    }
  } else {
    RETURN_IF_ERROR(CheckLayout(*from.store, layout));
  }
  LogInfo(absl::StrCat(
      "moving ",
      FormatBytes(layout.TotalPaddedParameters() * layout.PlaneRangeBytes(0, layout.num_planes())),
      " of state to the swap paths"));
  if (!resharded) return CopyStore(*from.store, to);
  std::vector<uint64_t> parameters;
  for (const UnitDescription& unit : from.state.model.units) {
    parameters.push_back(unit.flat_parameters);
  }
  return Reshard(from.shards(), from.grid(), parameters, grid, to);
}

}  // namespace spillway
