// SwapStore: the book of what was last written where, and commits. The files and
// the places of tiles are in swap_store_files.cc.
#include "swap/store/swap_store.h"

#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "io/base/check.h"
#include "io/base/status.h"

namespace spillway {

const SwapStore::TileState& SwapStore::Tile(int unit, int tile) const {
  SPILLWAY_CHECK(unit >= 0 && unit < tiles_.size());
  SPILLWAY_CHECK(tile >= 0 && tile < tiles_[unit].size());
  return tiles_[unit][tile];
}

SwapStore::TileState& SwapStore::Tile(int unit, int tile) {
  return const_cast<TileState&>(std::as_const(*this).Tile(unit, tile));
}

const SwapStore::PlaneState& SwapStore::PlaneAt(int unit, int tile, int plane_index) const {
  SPILLWAY_CHECK(plane_index >= 0 && plane_index < layout_.num_planes());
  return Tile(unit, tile).planes[plane_index];
}

int SwapStore::WritableSlot(const TileState& tile) const {
  return tile.committed_slot == 0 ? 1 : 0;
}

TileLocation SwapStore::CurrentTile(int unit, int tile, int first_plane, int last_plane) const {
  const TileState& state = Tile(unit, tile);
  SPILLWAY_CHECK(first_plane >= 0 && first_plane < last_plane &&
                 last_plane <= layout_.num_planes());
  const int slot = state.planes[first_plane].slot;
  for (int i = first_plane; i < last_plane; ++i) {
    SPILLWAY_CHECK(!state.planes[i].stale && state.planes[i].slot == slot);
  }
  return {files_[state.file].get(),
          state.slot_offsets[slot] + layout_.PlaneOffset(unit, tile, first_plane)};
}

TileLocation SwapStore::WritableTile(int unit, int tile, int first_plane) const {
  SPILLWAY_CHECK(!read_only_ && !committing_);
  const TileState& state = Tile(unit, tile);
  return {files_[state.file].get(),
          state.slot_offsets[WritableSlot(state)] + layout_.PlaneOffset(unit, tile, first_plane)};
}

void SwapStore::RecordWrite(int unit, int tile, int first_plane,
                            absl::Span<const uint64_t> checksums, uint64_t generation) {
  SPILLWAY_CHECK(!read_only_ && !committing_);
  TileState& state = Tile(unit, tile);
  SPILLWAY_CHECK(first_plane >= 0 && first_plane + checksums.size() <= state.planes.size());
  const int slot = WritableSlot(state);
  for (size_t i = 0; i < checksums.size(); ++i) {
    state.planes[first_plane + i] = {
        .generation = generation, .checksum = checksums[i], .slot = slot, .stale = false};
  }
}

ChecksumIdentity SwapStore::PlaneIdentity(int unit, int tile, int plane_index,
                                          uint64_t generation) const {
  return {.unit = static_cast<uint32_t>(unit),
          .plane = static_cast<uint32_t>(layout_.planes()[plane_index].plane),
          .tile = static_cast<uint64_t>(tile),
          .generation = generation};
}

absl::Status SwapStore::Check(int unit, int tile, Plane plane, const PlaneState& state, int file,
                              uint64_t offset_bytes, uint64_t checksum) const {
  SPILLWAY_CHECK(state.slot >= 0);  // nothing was written, so nothing can be wrong
  if (checksum == state.checksum) return absl::OkStatus();
  return WrongBytesError(absl::StrCat(
      "unit ", unit, " (", layout_.units()[unit].name, "), plane ", PlaneName(plane),
      plane == Plane::kActivation ? ", piece " : ", tile ", tile, ", generation ", state.generation,
      ": the bytes read from ", files_[file]->path(), " at offset ", offset_bytes,
      " are not those that were written (checksum ", absl::Hex(checksum, absl::kZeroPad16),
      ", expected ", absl::Hex(state.checksum, absl::kZeroPad16),
      "); check that device and its kernel log, and resume from a commit on another"));
}

absl::Status SwapStore::VerifyChecksum(int unit, int tile, int plane_index,
                                       uint64_t checksum) const {
  const TileState& state = Tile(unit, tile);
  const PlaneState& plane = PlaneAt(unit, tile, plane_index);
  const uint64_t offset_bytes =
      state.slot_offsets[plane.slot == 1 ? 1 : 0] + layout_.PlaneOffset(unit, tile, plane_index);
  return Check(unit, tile, layout_.planes()[plane_index].plane, plane, state.file, offset_bytes,
               checksum);
}

absl::Status SwapStore::Verify(int unit, int tile, int plane_index, const void* data) const {
  const uint64_t generation = CurrentGeneration(unit, tile, plane_index);
  return VerifyChecksum(unit, tile, plane_index,
                        Checksum(PlaneIdentity(unit, tile, plane_index, generation), data,
                                 layout_.PlaneBytes(unit, tile, plane_index)));
}

uint64_t SwapStore::CurrentGeneration(int unit, int tile, int plane_index) const {
  return PlaneAt(unit, tile, plane_index).generation;
}

bool SwapStore::IsStale(int unit, int tile, int plane_index) const {
  return PlaneAt(unit, tile, plane_index).stale;
}

void SwapStore::MarkStale(int unit, int tile, int first_plane, int last_plane) {
  TileState& state = Tile(unit, tile);
  SPILLWAY_CHECK(first_plane >= 0 && last_plane <= layout_.num_planes());
  for (int i = first_plane; i < last_plane; ++i) state.planes[i].stale = true;
}

TileLocation SwapStore::GradientTile(int unit, int tile) const {
  const TileState& state = Tile(unit, tile);
  SPILLWAY_CHECK(!read_only_ && state.has_gradient);
  return {files_[state.file].get(), state.gradient_offset};
}

void SwapStore::RecordGradientWrite(int unit, int tile, uint64_t checksum, uint64_t generation) {
  TileState& state = Tile(unit, tile);
  SPILLWAY_CHECK(!read_only_ && state.has_gradient);
  state.gradient = {.generation = generation, .checksum = checksum, .slot = 0, .stale = false};
}

ChecksumIdentity SwapStore::GradientIdentity(int unit, int tile, uint64_t generation) const {
  return {.unit = static_cast<uint32_t>(unit),
          .plane = static_cast<uint32_t>(Plane::kGradient),
          .tile = static_cast<uint64_t>(tile),
          .generation = generation};
}

absl::Status SwapStore::VerifyGradientChecksum(int unit, int tile, uint64_t checksum) const {
  const TileState& state = Tile(unit, tile);
  return Check(unit, tile, Plane::kGradient, state.gradient, state.file, state.gradient_offset,
               checksum);
}

uint64_t SwapStore::GradientGeneration(int unit, int tile) const {
  return Tile(unit, tile).gradient.generation;
}

TileLocation SwapStore::ActivationPiece(int unit, int piece) const {
  SPILLWAY_CHECK(!read_only_);
  const Piece& place = pieces_[unit][piece];
  return {files_[place.file].get(), place.offset_bytes};
}

void SwapStore::RecordPieceWrite(int unit, int piece, uint64_t checksum, uint64_t generation) {
  pieces_[unit][piece].state = {
      .generation = generation, .checksum = checksum, .slot = 0, .stale = false};
}

ChecksumIdentity SwapStore::PieceIdentity(int unit, int piece, uint64_t generation) {
  return {.unit = static_cast<uint32_t>(unit),
          .plane = static_cast<uint32_t>(Plane::kActivation),
          .tile = static_cast<uint64_t>(piece),
          .generation = generation};
}

absl::Status SwapStore::VerifyPiece(int unit, int piece, const void* data) const {
  const Piece& place = pieces_[unit][piece];
  const uint64_t checksum =
      Checksum(PieceIdentity(unit, piece, place.state.generation), data, place.size_bytes);
  return Check(unit, piece, Plane::kActivation, place.state, place.file, place.offset_bytes,
               checksum);
}

Manifest SwapStore::ToManifest(const CommitRecord& record, absl::string_view directory) const {
  Manifest manifest;
  manifest.step = record.step;
  manifest.engine_state = record.engine_state;
  manifest.layout = layout_;
  for (size_t i = 0; i < files_.size(); ++i) {
    const std::filesystem::path path(files_[i]->path());
    const bool beside = path.parent_path() == std::filesystem::path(std::string(directory));
    manifest.files.push_back({beside ? path.filename().string() : path.string(), slot_bytes_[i]});
  }
  manifest.tiles.resize(tiles_.size());
  for (size_t unit = 0; unit < tiles_.size(); ++unit) {
    for (const TileState& from : tiles_[unit]) {
      ManifestTile& tile = manifest.tiles[unit].emplace_back();
      tile.file = static_cast<uint32_t>(from.file);
      tile.slot_offsets[0] = from.slot_offsets[0];
      tile.slot_offsets[1] = from.slot_offsets[1];
      tile.slot = static_cast<uint32_t>(from.planes[0].slot);
      for (const PlaneState& plane : from.planes) {
        SPILLWAY_CHECK(!plane.stale && plane.slot == from.planes[0].slot);
        tile.generations.push_back(plane.generation);
        tile.checksums.push_back(plane.checksum);
      }
    }
  }
  return manifest;
}

absl::StatusOr<StoreCommit> SwapStore::BeginCommit(absl::string_view manifest_path,
                                                   const CommitRecord& record) {
  SPILLWAY_CHECK(!read_only_);
  const std::string what = absl::StrCat("commit of step ", record.step);
  if (committing_) {
    return absl::FailedPreconditionError(
        absl::StrCat(what, ": an earlier commit of this store failed"));
  }
  std::error_code error;
  const std::filesystem::path path =
      std::filesystem::absolute(std::string(manifest_path), error).parent_path();
  committing_ = true;
  return StoreCommit{record.step, std::string(manifest_path), ToManifest(record, path.string())};
}

absl::Status SwapStore::MakeDurable(const StoreCommit& commit, bool* only_lost) const {
  if (only_lost != nullptr) *only_lost = false;
  const std::string what = absl::StrCat("commit of step ", commit.step);
  const absl::StatusOr<std::string> text = EncodeManifest(commit.manifest);
  if (!text.ok()) return Annotate(text.status(), what);
  // Data before the manifest that names it: the order is what makes a commit whole.
  for (const std::unique_ptr<File>& file : files_) {
    if (absl::Status status = file->Sync(); !status.ok()) return Annotate(status, what);
  }
  bool taken;
  const absl::Status status =
      WriteFileAtomically(*file_system_, commit.manifest_path, *text, &taken);
  if (only_lost != nullptr) *only_lost = !status.ok() && !taken;
  return Annotate(status, what);
}

void SwapStore::EndCommit() {
  SPILLWAY_CHECK(committing_);
  // A store of one slot has no other to write to.
  committing_ = !two_slots_;
  for (std::vector<TileState>& unit : tiles_) {
    for (TileState& tile : unit) tile.committed_slot = tile.planes[0].slot;
  }
}

absl::Status SwapStore::Commit(absl::string_view manifest_path, const CommitRecord& record) {
  ASSIGN_OR_RETURN(const StoreCommit commit, BeginCommit(manifest_path, record));
  RETURN_IF_ERROR(MakeDurable(commit));
  EndCommit();
  return absl::OkStatus();
}

std::vector<const File*> SwapStore::files() const {
  std::vector<const File*> files;
  for (const auto& file : files_) files.push_back(file.get());
  return files;
}

std::vector<ExtentInfo> SwapStore::Extents() const {
  std::vector<ExtentInfo> extents;
  for (int unit = 0; unit < layout_.num_units(); ++unit) {
    for (int t = 0; t < layout_.NumTiles(unit); ++t) {
      const TileState& tile = Tile(unit, t);
      for (int i = 0; i < layout_.num_planes(); ++i) {
        if (tile.planes[i].slot < 0) continue;
        extents.push_back({.file = files_[tile.file]->path(),
                           .offset_bytes = tile.slot_offsets[tile.planes[i].slot] +
                                           layout_.PlaneOffset(unit, t, i),
                           .size_bytes = layout_.PlaneBytes(unit, t, i),
                           .unit = unit,
                           .tile = t,
                           .plane = layout_.planes()[i].plane});
      }
    }
  }
  return extents;
}

}  // namespace spillway
