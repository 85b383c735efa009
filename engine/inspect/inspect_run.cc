#include "engine/inspect/inspect_run.h"

#include <deque>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/inspect/run_summary.h"
#include "engine/run/last_commit.h"
#include "io/base/status.h"
#include "io/checksum.h"

namespace spillway {
namespace {

std::string Hex(uint64_t value) { return absl::StrFormat("%016x", value); }

}  // namespace

absl::StatusOr<nlohmann::json> DigestState(const StateSource& source,
                                           const InspectProgress& progress) {
  const uint64_t total_bytes = source.layout.TotalBytes();
  uint64_t done_bytes = 0;
  const auto& planes = source.layout.planes();
  nlohmann::json digests = nlohmann::json::object();
  // The digests of the current unit: [parameter][plane].
  std::vector<std::deque<Digest>> open;
  int unit_at_hand = -1;
  auto close = [&] {
    if (unit_at_hand < 0) return;
    const UnitDescription& unit = source.model.units[unit_at_hand];
    for (size_t i = 0; i < unit.parameters.size(); ++i) {
      for (int p = 0; p < source.layout.NumPlanes(unit_at_hand); ++p) {
        digests[unit.parameters[i].name][std::string(PlaneName(planes[p].plane))] =
            Hex(open[i][p].value());
      }
    }
  };
  RETURN_IF_ERROR(
      source.read(0, source.layout.num_planes(), [&](const TileView& tile) -> absl::Status {
        if (tile.unit != unit_at_hand) {
          close();
          unit_at_hand = tile.unit;
          open = std::vector<std::deque<Digest>>(source.model.units[tile.unit].parameters.size());
          for (auto& list : open) {
            for (size_t p = 0; p < planes.size(); ++p) list.emplace_back();
          }
        }
        for (const ParameterPiece& piece :
             PiecesOf(source.model.units[tile.unit], tile.first_parameter, tile.parameters)) {
          for (int p = 0; p < source.layout.NumPlanes(tile.unit); ++p) {
            // The parameters' shared part counts for each of them.
            const uint64_t shared = planes[p].parameters;
            const uint64_t begin = piece.offset / shared * shared;
            const uint64_t end = (piece.offset + piece.count + shared - 1) / shared * shared;
            open[piece.parameter][p].Update(tile.planes[p] + planes[p].BytesOf(begin),
                                            planes[p].BytesOf(end - begin));
          }
        }
        done_bytes += source.layout.TileBytes(tile.unit, tile.tile);
        if (progress) progress(done_bytes, total_bytes);
        return absl::OkStatus();
      }));
  close();
  for (const StateBuffer& buffer : source.buffers) {
    Digest digest;
    digest.Update(buffer.values.data(), buffer.values.size() * sizeof(float));
    digests[buffer.name]["buffer"] = Hex(digest.value());
  }
  return digests;
}

namespace {

void AddState(const RunState& state, nlohmann::json& json) {
  json["step"] = state.step;
  json["applied_steps"] = state.applied_steps;
  json["finished"] = state.finished;
  json["dtype"] = std::string(DTypeName(state.dtype));
  json["threads"] = state.threads;
  json["identity"] = state.identity;
  json["changes"] = ToJson(state.changes);
  json["parameters"] = state.model.parameter_count();
  json["units"] = state.model.num_computing();
}

}  // namespace

nlohmann::json InspectFreed(const std::string& output, const RunState& state) {
  nlohmann::json json;
  json["kind"] = "freed";
  json["manifest"] = FreedManifestPath(output, /*rank=*/0);
  AddState(state, json);
  return json;
}

absl::StatusOr<nlohmann::json> InspectCommit(const std::string& manifest_path,
                                             const InspectProgress& progress, bool digests) {
  ASSIGN_OR_RETURN(CommittedRun run, OpenCommit(manifest_path));
  RETURN_IF_ERROR(run.OpenOtherParts());
  nlohmann::json json;
  json["kind"] = "run";
  json["manifest"] = manifest_path;
  AddState(run.state, json);
  const auto found = FileSystem::Real().Stat(manifest_path, SymbolicLink::kFollow);
  if (found.ok()) json["committed"] = found->modified_ns / 1'000'000'000;
  json["summary"] = SummaryOfRun(ParentPath(manifest_path));
  if (digests) {
    ASSIGN_OR_RETURN(json["digests"], DigestState(run.source(), progress));
    const std::string all = json["digests"].dump();
    json["digest"] = Hex(Checksum(all.data(), all.size()));
  }
  json["extents"] = nlohmann::json::array();
  std::map<std::string, uint64_t> file_bytes;
  const std::vector<const SwapStore*> shards = run.shards();
  if (run.state.part.ranks > 1) {
    json["ranks"] = run.state.part.ranks;
    json["shard_group_size"] = run.state.part.group;
  }
  for (size_t shard = 0; shard < shards.size(); ++shard) {
    for (const ExtentInfo& extent : shards[shard]->Extents()) {
      file_bytes[extent.file] += extent.size_bytes;
      json["extents"].push_back({{"file", extent.file},
                                 {"offset", extent.offset_bytes},
                                 {"bytes", extent.size_bytes},
                                 {"unit", run.state.model.units[extent.unit].name},
                                 {"tile", extent.tile},
                                 {"plane", std::string(PlaneName(extent.plane))}});
      if (shards.size() > 1) json["extents"].back()["shard"] = shard;
    }
  }
  json["files"] = nlohmann::json::array();
  for (const auto& [file, bytes] : file_bytes) {
    json["files"].push_back({{"file", file}, {"bytes", bytes}});
  }
  return json;
}

absl::StatusOr<nlohmann::json> InspectRun(const std::string& output,
                                          const InspectProgress& progress, bool digests) {
  absl::StatusOr<nlohmann::json> json;
  ReadLastCommit(output, [&] {
    json = InspectCommit(CommitManifestPath(output), progress, digests);
    return json.status();
  }).IgnoreError();  // the error is that of the last call
  if (absl::IsNotFound(json.status())) {
    return absl::NotFoundError(absl::StrCat("there is no commit in ", output));
  }
  if (!json.ok()) return Annotate(json.status(), absl::StrCat("the commit in ", output));
  return json;
}

}  // namespace spillway
