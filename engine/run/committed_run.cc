#include "engine/run/committed_run.h"

#include "absl/strings/str_cat.h"
#include "engine/ranks/reshard.h"
#include "io/base/check.h"
#include "io/base/status.h"
#include "swap/mover/whole_store.h"
#include "swap/store/manifest.h"

namespace spillway {
namespace {

// "" if there is no good manifest. An error if this is unknown: another attempt may succeed.
absl::StatusOr<std::string> CommitIdAt(const std::string& manifest_path, FileSystem& files) {
  const auto run = OpenCommit(manifest_path, files);
  if (run.ok()) return run->state.part.commit_id;
  const bool none = absl::IsNotFound(run.status()) || absl::IsDataLoss(run.status()) ||
                    absl::IsInvalidArgument(run.status());
  return none ? absl::StatusOr<std::string>("") : run.status();
}

}  // namespace

absl::Status CheckModelFitsLayout(const ModelDescription& model, const StateLayout& layout,
                                  const RankPart& part) {
  const ShardGrid grid{part.ranks, part.group, part.rank};
  bool fits = static_cast<int>(model.units.size()) == layout.num_units();
  for (int unit = 0; fits && unit < layout.num_units(); ++unit) {
    const uint64_t parameters = model.units[unit].flat_parameters;
    fits = layout.units()[unit].parameters ==
               (part.ranks == 1 ? parameters : grid.ShardParameters(parameters)) &&
           layout.frozen(unit) == model.units[unit].frozen;
  }
  if (fits) return absl::OkStatus();
  return WrongBytesError("the commit's run state names other parameters than its tiles hold");
}

absl::Status CommittedRun::OpenOtherParts(FileSystem& files, absl::string_view model_directory) {
  if (state.part.rank > 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(directory, " holds one rank's part of a commit of ", state.part.ranks,
                     " ranks: name the run's output, two folders above it"));
  }
  for (int rank = 1; rank < state.part.group; ++rank) {
    ASSIGN_OR_RETURN(const std::string path,
                     FindPart(RankOutput(directory, rank), rank, state.part.commit_id, files));
    ASSIGN_OR_RETURN(CommittedRun other, OpenCommit(path, files, model_directory));
    others.push_back(std::move(other.store));
  }
  return absl::OkStatus();
}

std::vector<const SwapStore*> CommittedRun::shards() const {
  SPILLWAY_CHECK(static_cast<int>(others.size()) + 1 == state.part.group);
  std::vector<const SwapStore*> all = {store.get()};
  for (const auto& other : others) all.push_back(other.get());
  return all;
}

StateSource CommittedRun::source() const {
  StateSource source;
  source.model = state.model;
  source.layout = store->layout();
  source.dtype = state.dtype;
  source.buffers = state.buffers;
  if (state.part.ranks == 1) {
    source.read = [store = store.get()](int first, int last, const SwapManager::FillTile& visit) {
      return ReadStore(*store, first, last, visit);
    };
    return source;
  }
  std::vector<uint64_t> parameters;
  std::vector<UnitLayout> units = source.layout.units();
  for (size_t unit = 0; unit < units.size(); ++unit) {
    parameters.push_back(state.model.units[unit].flat_parameters);
    units[unit].parameters = grid().UnitParameters(parameters.back());
  }
  source.layout =
      StateLayout(std::move(units), source.layout.planes(),
                  source.layout.gradient_bytes_per_parameter(), source.layout.tile_parameters());
  source.read = [shards = shards(), grid = grid(), parameters](int first, int last,
                                                               const SwapManager::FillTile& visit) {
    return ReadShards(shards, grid, parameters, first, last, visit);
  };
  return source;
}

absl::StatusOr<std::string> FindPart(const std::string& directory, int rank,
                                     const std::string& commit_id, FileSystem& files) {
  for (const std::string& path :
       {ManifestPath(directory, rank), PreparedManifestPath(directory, rank)}) {
    const absl::StatusOr<std::string> found = CommitIdAt(path, files);
    RETURN_IF_ERROR(found.status());
    if (*found == commit_id) return path;
  }
  return WrongBytesError(absl::StrCat(
      "the commit in ", ParentPath(ParentPath(directory)),
      " has parts of several ranks, and the one in ", directory,
      " is missing, damaged or of another commit; bring it back, or begin anew with --overwrite"));
}

absl::StatusOr<CommittedRun> OpenCommit(const std::string& manifest_path, FileSystem& files,
                                        absl::string_view model_directory) {
  CommittedRun run;
  run.manifest_path = manifest_path;
  run.directory = ParentPath(manifest_path);
  CommitRecord record;
  ASSIGN_OR_RETURN(run.store, SwapStore::Open(manifest_path, /*read_only=*/true, {}, &record, files,
                                              model_directory));
  ASSIGN_OR_RETURN(run.state, DecodeRunState(record.engine_state));
  RETURN_IF_ERROR(CheckModelFitsLayout(run.state.model, run.store->layout(), run.state.part));
  return run;
}

absl::StatusOr<CommittedRun> OpenCommittedRun(const std::string& output, FileSystem& files,
                                              absl::string_view model_directory) {
  absl::StatusOr<CommittedRun> run =
      OpenCommit(CommitManifestPath(output, files), files, model_directory);
  if (absl::IsNotFound(run.status())) {
    // A directory that cannot be listed is an error here, rather than one without a commit.
    ASSIGN_OR_RETURN(const std::string moved, MovedManifestPath(output, files));
    if (!moved.empty()) run = OpenCommit(moved, files, model_directory);
  }
  if (absl::IsNotFound(run.status())) {
    if (const auto freed = ReadFreedState(output, files); freed.ok()) {
      return absl::NotFoundError(absl::StrCat(
          DescribeFreed(output, *freed),
          ": there is no commit to read; what it exported, its metrics and its report are there"));
    }
    return absl::NotFoundError(absl::StrCat("there is no commit in ", output));
  }
  if (!run.ok()) return Annotate(run.status(), absl::StrCat("the commit in ", output));
  return run;
}

absl::StatusOr<RunState> ReadManifestState(const std::string& manifest_path, FileSystem& files) {
  ASSIGN_OR_RETURN(const std::string text, files.ReadSmallFile(manifest_path, kMostManifestBytes));
  ASSIGN_OR_RETURN(const Manifest manifest, DecodeManifest(text, manifest_path));
  return DecodeRunState(manifest.engine_state);
}

absl::StatusOr<RunState> ReadFreedState(const std::string& output, FileSystem& files) {
  return ReadManifestState(FreedManifestPath(output, /*rank=*/0), files);
}

std::string DescribeFreed(const std::string& output, const RunState& freed) {
  return absl::StrCat("the run in ", output, " finished at step ", freed.step,
                      ", and its state was freed (spillway clean)");
}

absl::StatusOr<RunState> ReadCommittedState(const std::string& output) {
  ASSIGN_OR_RETURN(CommittedRun run, OpenCommittedRun(output));
  return std::move(run.state);
}

}  // namespace spillway
