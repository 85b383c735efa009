#include "swap/store/swap_store.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "io/base/check.h"
#include "io/base/status.h"
#include "swap/store/striping.h"

namespace spillway {
namespace {

// The one file of a store in each of its directories.
constexpr absl::string_view kFileName = "tiles";

std::string FilePath(absl::string_view directory) {
  return absl::StrCat(directory, "/", kFileName);
}

// The absolute path of a file's folder.
absl::StatusOr<std::string> DirectoryOf(absl::string_view file) {
  ASSIGN_OR_RETURN(const std::string path, AbsolutePath(file));
  return ParentPath(path);
}

// The name of the file in a manifest in `directory`. A file below it has a relative name, so that
// both can be moved together.
std::string NameFrom(absl::string_view directory, const std::string& path) {
  const std::string name = RelativePath(path, directory);
  return IsBelow(name) ? name : path;
}

// A device that wants more than our alignment cannot take our transfers.
absl::Status CheckAlignment(const File& file) {
  if (kStoreAlignment % file.alignment_bytes() == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      file.path(), " takes direct transfers in multiples of ", file.alignment_bytes(),
      " bytes only, and tiles are aligned to ", kStoreAlignment, ": choose another swap path"));
}

}  // namespace

// A tile that has no slot, and is there.
SwapStore::TileState SwapStore::ReadInPlace() {
  TileState tile;
  tile.planes = {{.slot = 0, .stale = false}};
  return tile;
}

// A file is: slot 0 of all its tiles, slot 1 of all its tiles, the one slot of frozen tiles,
// spilled gradients, spilled activations. In each part the tiles stand in the order (unit, tile),
// so that reading a unit is sequential on every path. Which tile is on which path follows the
// paths' rates.
void SwapStore::DealTiles(const StoreOptions& options) {
  const size_t num_files = options.directories.size();
  SPILLWAY_CHECK(options.rates.empty() || options.rates.size() == num_files);
  std::vector<double> rates = options.rates;
  rates.resize(num_files);
  Striping striping(std::move(rates));
  slot_bytes_.assign(num_files, 0);
  tiles_.resize(layout_.num_units());
  const auto deal = [&](bool frozen, bool two_slots) {
    // The end of slot 0 in each file so far; slot 1 follows when that is known.
    std::vector<uint64_t> end(num_files, 0);
    for (int unit = 0; unit < layout_.num_units(); ++unit) {
      if (layout_.frozen(unit) != frozen || options.in_place.Has(unit)) continue;
      tiles_[unit].resize(layout_.NumTiles(unit));
      for (int t = 0; t < layout_.NumTiles(unit); ++t) {
        TileState& tile = tiles_[unit][t];
        tile.planes.resize(layout_.NumPlanes(unit));
        tile.file = striping.Next(layout_.TileBytes(unit, t));
        tile.slot_offsets[0] = slot_bytes_[tile.file] + end[tile.file];
        end[tile.file] += layout_.TileBytes(unit, t);
      }
    }
    for (int unit = 0; unit < layout_.num_units(); ++unit) {
      if (layout_.frozen(unit) != frozen) continue;
      for (TileState& tile : tiles_[unit]) {
        tile.slot_offsets[1] = tile.slot_offsets[0] + (two_slots ? end[tile.file] : 0);
      }
    }
    for (size_t i = 0; i < num_files; ++i) slot_bytes_[i] += end[i] * (two_slots ? 2 : 1);
  };
  deal(/*frozen=*/false, two_slots_);
  deal(/*frozen=*/true, /*two_slots=*/false);
  for (int unit = 0; unit < layout_.num_units(); ++unit) {
    if (!options.in_place.Has(unit)) continue;
    SPILLWAY_CHECK(layout_.frozen(unit));
    tiles_[unit].assign(layout_.NumTiles(unit), ReadInPlace());
  }
}

uint64_t SwapStore::PieceBytes(const StateLayout& layout) { return layout.PlaneBegin(1, 0); }

std::vector<uint64_t> SwapStore::DealSpilled(const SpillRoom& spill,
                                             const std::vector<double>& rates) {
  const size_t units = layout_.num_units();
  SPILLWAY_CHECK(spill.gradients.empty() || spill.gradients.size() == units);
  SPILLWAY_CHECK(spill.activation_bytes.empty() || spill.activation_bytes.size() == units);
  std::vector<uint64_t> end = slot_bytes_;
  for (int unit = 0; unit < spill.gradients.size(); ++unit) {
    if (!spill.gradients[unit]) continue;
    for (int t = 0; t < layout_.NumTiles(unit); ++t) {
      TileState& tile = tiles_[unit][t];
      tile.has_gradient = true;
      tile.gradient_offset = end[tile.file];
      end[tile.file] += layout_.GradientBytes(unit, t);
    }
  }
  pieces_.assign(units, {});
  std::vector<double> shares = rates;
  shares.resize(end.size());
  Striping striping(std::move(shares));
  const uint64_t most = PieceBytes(layout_);
  for (int unit = 0; unit < spill.activation_bytes.size(); ++unit) {
    SPILLWAY_CHECK(spill.activation_bytes[unit] % kStoreAlignment == 0);
    for (uint64_t left = spill.activation_bytes[unit]; left > 0;) {
      Piece piece;
      piece.size_bytes = std::min(left, most);
      piece.file = striping.Next(piece.size_bytes);
      piece.offset_bytes = end[piece.file];
      end[piece.file] += piece.size_bytes;
      left -= piece.size_bytes;
      pieces_[unit].push_back(piece);
    }
  }
  return end;
}

void SwapStore::CheckPlaces(const std::vector<uint64_t>& sizes_bytes) const {
  SPILLWAY_CHECK(sizes_bytes.size() == slot_bytes_.size());
  for (size_t i = 0; i < sizes_bytes.size(); ++i) SPILLWAY_CHECK(slot_bytes_[i] <= sizes_bytes[i]);
  for (int unit = 0; unit < layout_.num_units(); ++unit) {
    SPILLWAY_CHECK(tiles_[unit].size() == layout_.NumTiles(unit));
    for (int t = 0; t < layout_.NumTiles(unit) && !IsInPlace(unit); ++t) {
      const TileState& tile = tiles_[unit][t];
      const uint64_t bytes = layout_.TileBytes(unit, t);
      const auto [first, last] = std::minmax(tile.slot_offsets[0], tile.slot_offsets[1]);
      SPILLWAY_CHECK(tile.file >= 0 && tile.file < slot_bytes_.size());
      SPILLWAY_CHECK(tile.planes.size() == layout_.NumPlanes(unit));
      SPILLWAY_CHECK(first % kStoreAlignment == 0 && last % kStoreAlignment == 0);
      SPILLWAY_CHECK(first == last || first + bytes <= last);  // two slots share no byte
      SPILLWAY_CHECK(last + bytes <= slot_bytes_[tile.file]);
      if (!tile.has_gradient) continue;
      SPILLWAY_CHECK(tile.gradient_offset >= slot_bytes_[tile.file]);
      SPILLWAY_CHECK(tile.gradient_offset + layout_.GradientBytes(unit, t) <=
                     sizes_bytes[tile.file]);
    }
  }
  for (const std::vector<Piece>& pieces : pieces_) {
    for (const Piece& piece : pieces) {
      SPILLWAY_CHECK(piece.offset_bytes >= slot_bytes_[piece.file]);
      SPILLWAY_CHECK(piece.offset_bytes % kStoreAlignment == 0 && piece.size_bytes > 0);
      SPILLWAY_CHECK(piece.offset_bytes + piece.size_bytes <= sizes_bytes[piece.file]);
    }
  }
}

absl::Status SwapStore::CreateFiles(const std::vector<uint64_t>& sizes_bytes) {
  for (int i = 0; i < directories_.size(); ++i) {
    auto file = file_system_->Open(FilePath(directories_[i]), {.write = true, .create = true});
    if (absl::IsAlreadyExists(file.status())) {
      return Annotate(file.status(),
                      "the swap directory holds the state of an earlier run; resume that run, "
                      "remove it, or choose another directory");
    }
    if (!file.ok()) return file.status();
    files_.push_back(*std::move(file));
    RETURN_IF_ERROR(CheckAlignment(*files_.back()));
    RETURN_IF_ERROR(files_.back()->Preallocate(sizes_bytes[i]));
    // Once is enough: no file is created, renamed or removed until the end.
    RETURN_IF_ERROR(file_system_->SyncDirectory(directories_[i]));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<SwapStore>> SwapStore::Create(const StateLayout& layout,
                                                             const StoreOptions& options) {
  SPILLWAY_CHECK(!options.directories.empty() || options.in_place.any());
  std::unique_ptr<SwapStore> store(new SwapStore);
  store->file_system_ = options.files;
  store->layout_ = layout;
  store->two_slots_ = options.two_slots;
  store->most_manifest_bytes_ = options.most_manifest_bytes;
  for (const std::string& directory : options.directories) {
    ASSIGN_OR_RETURN(std::string path, AbsolutePath(directory));
    store->directories_.push_back(std::move(path));
  }
  if (options.in_place.any()) {
    ASSIGN_OR_RETURN(store->in_place_, InPlaceTiles::Open(options.in_place, layout, /*moved_to=*/"",
                                                          /*lazily=*/false, *options.files));
  }
  store->DealTiles(options);
  const std::vector<uint64_t> sizes_bytes = store->DealSpilled(options.spill, options.rates);
  store->CheckPlaces(sizes_bytes);
  if (absl::Status status = store->CreateFiles(sizes_bytes); !status.ok()) {
    store->Remove();  // only the files that this call made
    return status;
  }
  return store;
}

std::unique_ptr<SwapStore> SwapStore::WithoutFiles(const StateLayout& layout,
                                                   const SpillRoom& spill) {
  std::unique_ptr<SwapStore> store(new SwapStore);
  store->layout_ = layout;
  store->two_slots_ = false;
  store->DealTiles({.directories = {""}});
  store->DealSpilled(spill, {});
  store->files_.resize(1);
  for (std::vector<TileState>& unit : store->tiles_) {
    for (TileState& tile : unit) {
      for (PlaneState& plane : tile.planes) plane = {.slot = 0, .stale = false};
    }
  }
  return store;
}

absl::Status SwapStore::OpenFiles(std::vector<ManifestFile> files, const std::string& directory,
                                  bool read_only, const SpillRoom& spill) {
  const auto is_named = [&](const std::string& path) {
    return std::any_of(files.begin(), files.end(),
                       [&](const ManifestFile& file) { return file.path == path; });
  };
  for (ManifestFile& entry : files) {
    if (!absl::StartsWith(entry.path, "/")) entry.path = absl::StrCat(directory, "/", entry.path);
  }
  for (ManifestFile& entry : files) {
    // Files that a manifest names are written to and truncated, so they must be swap files.
    if (FileName(entry.path) != kFileName) {
      return WrongBytesError(absl::StrCat(entry.path, " is not a name of a swap file"));
    }
    auto file = file_system_->Open(entry.path, {.write = !read_only});
    const std::string moved =
        FilePath(absl::StrCat(directory, "/", FileName(ParentPath(entry.path))));
    if (absl::IsNotFound(file.status()) && !is_named(moved)) {
      auto beside = file_system_->Open(moved, {.write = !read_only});
      if (!absl::IsNotFound(beside.status())) {
        entry.path = moved;
        file = std::move(beside);
      }
    }
    directories_.push_back(ParentPath(entry.path));
    if (absl::IsNotFound(file.status())) {
      return WrongBytesError(absl::StrCat("swap file ", entry.path,
                                          " is missing; bring its folder back to where it was (is "
                                          "its disk mounted?), or resume from a copy (--persist)"));
    }
    if (!file.ok()) return file.status();
    RETURN_IF_ERROR(CheckAlignment(**file));
    ASSIGN_OR_RETURN(const uint64_t size_bytes, (*file)->SizeBytes());
    if (size_bytes < entry.size_bytes) {
      return WrongBytesError(absl::StrCat("swap file ", entry.path, " has ", size_bytes,
                                          " bytes where the commit needs ", entry.size_bytes,
                                          ": it was cut"));
    }
    files_.push_back(*std::move(file));
    slot_bytes_.push_back(entry.size_bytes);
  }
  if (read_only) return absl::OkStatus();
  // By how many bytes of slots each path has, which is how fast it was found to be.
  const std::vector<uint64_t> sizes_bytes =
      DealSpilled(spill, std::vector<double>(slot_bytes_.begin(), slot_bytes_.end()));
  CheckPlaces(sizes_bytes);
  for (int i = 0; i < files_.size(); ++i) {
    ASSIGN_OR_RETURN(const uint64_t size_bytes, files_[i]->SizeBytes());
    if (size_bytes != sizes_bytes[i]) RETURN_IF_ERROR(files_[i]->Preallocate(sizes_bytes[i]));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<SwapStore>> SwapStore::Open(absl::string_view manifest_path,
                                                           bool read_only, const SpillRoom& spill,
                                                           CommitRecord* record, FileSystem& files,
                                                           absl::string_view model_directory) {
  ASSIGN_OR_RETURN(const std::string text, files.ReadSmallFile(manifest_path, kMostManifestBytes));
  ASSIGN_OR_RETURN(const Manifest manifest, DecodeManifest(text, manifest_path));
  ASSIGN_OR_RETURN(const std::string directory, DirectoryOf(manifest_path));
  std::unique_ptr<SwapStore> store(new SwapStore);
  store->file_system_ = &files;
  store->layout_ = manifest.layout;
  store->read_only_ = read_only;
  store->tiles_.resize(manifest.tiles.size());
  for (size_t unit = 0; unit < manifest.tiles.size(); ++unit) {
    if (manifest.in_place.Has(static_cast<int>(unit))) {
      store->tiles_[unit].assign(manifest.tiles[unit].size(), ReadInPlace());
      continue;
    }
    for (const ManifestTile& from : manifest.tiles[unit]) {
      TileState& tile = store->tiles_[unit].emplace_back();
      tile.file = static_cast<int>(from.file);
      tile.slot_offsets[0] = from.slot_offsets[0];
      tile.slot_offsets[1] = from.slot_offsets[1];
      tile.committed_slot = static_cast<int>(from.slot);
      if (!store->layout_.frozen(static_cast<int>(unit))) {
        store->two_slots_ &= from.slot_offsets[0] != from.slot_offsets[1];
      }
      for (size_t i = 0; i < from.checksums.size(); ++i) {
        tile.planes.push_back({.generation = from.generations[i],
                               .checksum = from.checksums[i],
                               .slot = tile.committed_slot,
                               .stale = false});
      }
    }
  }
  if (!store->two_slots_ && !read_only) {
    return absl::FailedPreconditionError(absl::StrCat(
        manifest_path, " names a store of one slot, a copy: it can be read, but not continued"));
  }
  // A run killed between the rename of its manifest and the sync of the directory leaves a
  // commit that a power loss would take back, and what is written from now on goes over the
  // commit before it.
  if (!read_only) RETURN_IF_ERROR(files.SyncDirectory(directory));
  // The model's first: the store's own files are made longer or shorter.
  absl::Status status = store->OpenInPlace(manifest, read_only, model_directory);
  if (status.ok()) status = store->OpenFiles(manifest.files, directory, read_only, spill);
  if (!status.ok()) {
    return Annotate(status, absl::StrCat("open the commit ", manifest_path));
  }
  record->step = manifest.step;
  record->engine_state = manifest.engine_state;
  return store;
}

SwapStore::~SwapStore() = default;

absl::Status SwapStore::OpenInPlace(const Manifest& manifest, bool read_only,
                                    absl::string_view model_directory) {
  if (!manifest.in_place.any()) return absl::OkStatus();
  ASSIGN_OR_RETURN(in_place_, InPlaceTiles::Open(manifest.in_place, layout_, model_directory,
                                                 /*lazily=*/read_only, *file_system_));
  for (size_t unit = 0; unit < manifest.tiles.size(); ++unit) {
    if (!in_place_->Has(static_cast<int>(unit))) continue;
    for (size_t t = 0; t < manifest.tiles[unit].size(); ++t) {
      const ManifestTile& tile = manifest.tiles[unit][t];
      if (tile.checksums.empty()) continue;
      in_place_->SetKnown(static_cast<int>(unit), static_cast<int>(t), tile.checksums[0]);
    }
  }
  return absl::OkStatus();
}

void SwapStore::TakeChecksumsInPlace(const SwapStore& from) {
  SPILLWAY_CHECK(layout_ == from.layout_);
  for (int unit = 0; unit < layout_.num_units(); ++unit) {
    if (!IsInPlace(unit) || !from.IsInPlace(unit)) continue;
    for (int tile = 0; tile < layout_.NumTiles(unit); ++tile) {
      const auto known = from.in_place()->KnownChecksum(unit, tile);
      if (known) in_place_->SetKnown(unit, tile, *known);
    }
  }
}

void SwapStore::Remove() {
  SPILLWAY_CHECK(!read_only_);
  for (const std::unique_ptr<File>& file : files_) (void)file_system_->Remove(file->path());
  files_.clear();
}

uint64_t SwapStore::StorageBytes(const StateLayout& layout, const StoreOptions& options) {
  uint64_t bytes = 0;
  for (int unit = 0; unit < layout.num_units(); ++unit) {
    if (options.in_place.Has(unit)) continue;
    bytes += layout.UnitBytes(unit) * (options.two_slots && !layout.frozen(unit) ? 2 : 1);
  }
  for (int unit = 0; unit < options.spill.gradients.size(); ++unit) {
    if (options.spill.gradients[unit]) {
      bytes += layout.PaddedParameters(unit) * layout.gradient_bytes_per_parameter();
    }
  }
  for (const uint64_t spilled : options.spill.activation_bytes) bytes += spilled;
  return bytes;
}

std::vector<uint64_t> SwapStore::FileBytes(const StateLayout& layout, const StoreOptions& options) {
  SwapStore store;
  store.layout_ = layout;
  store.two_slots_ = options.two_slots;
  store.DealTiles(options);
  return store.DealSpilled(options.spill, options.rates);
}

absl::Status SwapStore::RemoveLeftovers(absl::string_view directory, FileSystem& files) {
  const absl::Status status = files.Remove(FilePath(directory));
  return absl::IsNotFound(status) ? absl::OkStatus() : status;
}

const SwapStore::TileState& SwapStore::Tile(int unit, int tile) const {
  SPILLWAY_CHECK(unit >= 0 && unit < tiles_.size());
  SPILLWAY_CHECK(tile >= 0 && tile < tiles_[unit].size());
  return tiles_[unit][tile];
}

SwapStore::TileState& SwapStore::Tile(int unit, int tile) {
  return const_cast<TileState&>(std::as_const(*this).Tile(unit, tile));
}

const SwapStore::PlaneState& SwapStore::PlaneAt(int unit, int tile, int plane_index) const {
  SPILLWAY_CHECK(plane_index >= 0 && plane_index < layout_.NumPlanes(unit));
  return Tile(unit, tile).planes[plane_index];
}

const SwapStore::Piece& SwapStore::PieceAt(int unit, int piece) const {
  SPILLWAY_CHECK(piece >= 0 && piece < NumPieces(unit));
  return pieces_[unit][piece];
}

int SwapStore::NumPieces(int unit) const {
  SPILLWAY_CHECK(unit >= 0 && unit < pieces_.size());
  return static_cast<int>(pieces_[unit].size());
}

int SwapStore::WritableSlot(const TileState& tile) const {
  return tile.committed_slot == 0 ? 1 : 0;
}

TileLocation SwapStore::CurrentTile(int unit, int tile, int first_plane, int last_plane) const {
  SPILLWAY_CHECK(!IsInPlace(unit));
  const TileState& state = Tile(unit, tile);
  SPILLWAY_CHECK(first_plane >= 0 && first_plane < last_plane &&
                 last_plane <= layout_.NumPlanes(unit));
  const int slot = state.planes[first_plane].slot;
  for (int i = first_plane; i < last_plane; ++i) {
    SPILLWAY_CHECK(!state.planes[i].stale && state.planes[i].slot == slot);
  }
  return {files_[state.file].get(),
          state.slot_offsets[slot] + layout_.PlaneOffset(unit, tile, first_plane)};
}

TileLocation SwapStore::WritableTile(int unit, int tile, int first_plane) const {
  SPILLWAY_CHECK(!read_only_ && !committing() && !IsInPlace(unit));
  const TileState& state = Tile(unit, tile);
  // Once for all: a commit names the one slot that there is.
  SPILLWAY_CHECK(!layout_.frozen(unit) || state.committed_slot < 0);
  return {files_[state.file].get(),
          state.slot_offsets[WritableSlot(state)] + layout_.PlaneOffset(unit, tile, first_plane)};
}

void SwapStore::RecordWrite(int unit, int tile, int first_plane,
                            absl::Span<const uint64_t> checksums, uint64_t generation) {
  SPILLWAY_CHECK(!read_only_ && !committing() && !IsInPlace(unit));
  TileState& state = Tile(unit, tile);
  SPILLWAY_CHECK(first_plane >= 0 && first_plane + checksums.size() <= state.planes.size());
  const int slot = WritableSlot(state);
  SPILLWAY_CHECK(!two_slots_ || layout_.frozen(unit) || slot != state.committed_slot);
  for (size_t i = 0; i < checksums.size(); ++i) {
    state.planes[first_plane + i] = {
        .generation = generation, .checksum = checksums[i], .slot = slot, .stale = false};
  }
}

ChecksumIdentity SwapStore::PlaneIdentity(int unit, int tile, int plane_index,
                                          uint64_t generation) const {
  SPILLWAY_CHECK(plane_index >= 0 && plane_index < layout_.num_planes());
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
  if (IsInPlace(unit)) return in_place_->Check(unit, tile, checksum);
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
  SPILLWAY_CHECK(!read_only_ && !IsInPlace(unit));
  SPILLWAY_CHECK(first_plane >= 0 && last_plane <= layout_.NumPlanes(unit));
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
  SPILLWAY_CHECK(generation >= state.gradient.generation);
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
  SPILLWAY_CHECK(state.has_gradient);
  return Check(unit, tile, Plane::kGradient, state.gradient, state.file, state.gradient_offset,
               checksum);
}

uint64_t SwapStore::GradientGeneration(int unit, int tile) const {
  return Tile(unit, tile).gradient.generation;
}

TileLocation SwapStore::ActivationPiece(int unit, int piece) const {
  SPILLWAY_CHECK(!read_only_);
  const Piece& place = PieceAt(unit, piece);
  return {files_[place.file].get(), place.offset_bytes};
}

void SwapStore::RecordPieceWrite(int unit, int piece, uint64_t checksum, uint64_t generation) {
  PlaneState& state = const_cast<Piece&>(PieceAt(unit, piece)).state;
  SPILLWAY_CHECK(!read_only_ && generation >= state.generation);
  state = {.generation = generation, .checksum = checksum, .slot = 0, .stale = false};
}

ChecksumIdentity SwapStore::PieceIdentity(int unit, int piece, uint64_t generation) {
  return {.unit = static_cast<uint32_t>(unit),
          .plane = static_cast<uint32_t>(Plane::kActivation),
          .tile = static_cast<uint64_t>(piece),
          .generation = generation};
}

absl::Status SwapStore::VerifyPiece(int unit, int piece, const void* data) const {
  const Piece& place = PieceAt(unit, piece);
  const uint64_t checksum =
      Checksum(PieceIdentity(unit, piece, place.state.generation), data, place.size_bytes);
  return Check(unit, piece, Plane::kActivation, place.state, place.file, place.offset_bytes,
               checksum);
}

std::vector<ManifestTile> SwapStore::TilesInPlace(int unit) const {
  SPILLWAY_CHECK(IsInPlace(unit));
  std::vector<ManifestTile> tiles(layout_.NumTiles(unit));
  for (int t = 0; t < layout_.NumTiles(unit); ++t) {
    const auto known = in_place_->KnownChecksum(unit, t);
    tiles[t].generations = {0};
    if (known) tiles[t].checksums = {*known};
  }
  return tiles;
}

Manifest SwapStore::ToManifest(CommitRecord record, absl::string_view directory) const {
  Manifest manifest;
  manifest.step = record.step;
  manifest.engine_state = std::move(record.engine_state);
  manifest.layout = layout_;
  for (size_t i = 0; i < files_.size(); ++i) {
    manifest.files.push_back({NameFrom(directory, files_[i]->path()), slot_bytes_[i]});
  }
  if (in_place_ != nullptr) manifest.in_place = in_place_->places();
  manifest.tiles.resize(tiles_.size());
  for (size_t unit = 0; unit < tiles_.size(); ++unit) {
    if (IsInPlace(static_cast<int>(unit))) {
      manifest.tiles[unit] = TilesInPlace(static_cast<int>(unit));
      continue;
    }
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
                                                   CommitRecord record) {
  SPILLWAY_CHECK(!read_only_);
  const std::string what = absl::StrCat("commit of step ", record.step);
  if (committing()) {
    return absl::FailedPreconditionError(
        absl::StrCat(what, ": an earlier commit of this store failed"));
  }
  ASSIGN_OR_RETURN(const std::string directory, DirectoryOf(manifest_path));
  commit_phase_ = CommitPhase::kBegun;
  return StoreCommit{record.step, std::string(manifest_path),
                     ToManifest(std::move(record), directory)};
}

absl::Status SwapStore::MakeDurable(const StoreCommit& commit, bool* only_lost) const {
  if (only_lost != nullptr) *only_lost = false;
  SPILLWAY_CHECK(commit_phase_ == CommitPhase::kBegun);
  const std::string what = absl::StrCat("commit of step ", commit.step);
  const absl::StatusOr<std::string> text = EncodeManifest(commit.manifest, most_manifest_bytes_);
  if (!text.ok()) {
    if (only_lost != nullptr) *only_lost = true;
    commit_phase_ = CommitPhase::kLost;
    return Annotate(text.status(), what);
  }
  // Data before the manifest that names it: the order is what makes a commit whole.
  for (const std::unique_ptr<File>& file : files_) {
    if (absl::Status status = file->Sync(); !status.ok()) return Annotate(status, what);
  }
  bool taken;
  const absl::Status status =
      WriteFileAtomically(*file_system_, commit.manifest_path, *text, FileAccess::kPrivate, &taken);
  if (only_lost != nullptr) *only_lost = !status.ok() && !taken;
  if (status.ok()) commit_phase_ = CommitPhase::kDurable;
  if (!status.ok() && !taken) commit_phase_ = CommitPhase::kLost;
  return Annotate(status, what);
}

void SwapStore::EndCommit() {
  SPILLWAY_CHECK(commit_phase_ == CommitPhase::kDurable);
  // A store of one slot has no other to write to.
  commit_phase_ = two_slots_ ? CommitPhase::kNone : CommitPhase::kCopied;
  for (std::vector<TileState>& unit : tiles_) {
    for (TileState& tile : unit) tile.committed_slot = tile.planes[0].slot;
  }
}

void SwapStore::GiveUpCommit() {
  SPILLWAY_CHECK(commit_phase_ == CommitPhase::kLost || commit_phase_ == CommitPhase::kDurable);
  commit_phase_ = CommitPhase::kNone;
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
      if (IsInPlace(unit)) {
        in_place_->AppendExtents(unit, t, &extents);
        continue;
      }
      const TileState& tile = Tile(unit, t);
      for (int i = 0; i < layout_.NumPlanes(unit); ++i) {
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
