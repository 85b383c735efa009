// SwapStore: its files, from creation to removal, and the places of tiles in them.
//
// A file is: slot 0 of all its tiles, slot 1 of all its tiles, spilled gradients, spilled
// activations. In each part the tiles stand in the order (unit, tile), so that reading a unit
// is sequential on every path. Which tile is on which path follows the paths' rates.
#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "io/base/check.h"
#include "io/base/format_bytes.h"
#include "io/base/status.h"
#include "swap/store/striping.h"
#include "swap/store/swap_store.h"

namespace spillway {
namespace {

// The one file of a store in each of its directories.
constexpr absl::string_view kFileName = "tiles";

std::string FilePath(absl::string_view directory) {
  return absl::StrCat(directory, "/", kFileName);
}

absl::StatusOr<std::string> AbsolutePath(const std::string& path) {
  std::error_code error;
  std::filesystem::path absolute = std::filesystem::absolute(path, error);
  if (error) return ErrnoStatus(error.value(), absl::StrCat("find directory ", path));
  return absolute.string();
}

// Of a file that is there, the absolute path of its folder.
absl::StatusOr<std::string> DirectoryOf(absl::string_view file) {
  ASSIGN_OR_RETURN(const std::string path, AbsolutePath(std::string(file)));
  return std::filesystem::path(path).parent_path().string();
}

// A device that wants more than our alignment cannot take our transfers.
absl::Status CheckAlignment(const File& file) {
  if (kStoreAlignment % file.alignment_bytes() == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      file.path(), " takes direct transfers in multiples of ", file.alignment_bytes(),
      " bytes only, and tiles are aligned to ", kStoreAlignment, ": choose another swap path"));
}

}  // namespace

void SwapStore::DealTiles(const StoreOptions& options) {
  const size_t num_files = options.directories.size();
  SPILLWAY_CHECK(options.rates.empty() || options.rates.size() == num_files);
  std::vector<double> rates = options.rates;
  rates.resize(num_files);
  Striping striping(std::move(rates));
  // The end of slot 0 in each file so far; slot 1 follows when that is known.
  std::vector<uint64_t> end(num_files, 0);
  tiles_.resize(layout_.num_units());
  for (int unit = 0; unit < layout_.num_units(); ++unit) {
    tiles_[unit].resize(layout_.NumTiles(unit));
    for (int t = 0; t < layout_.NumTiles(unit); ++t) {
      TileState& tile = tiles_[unit][t];
      tile.planes.resize(layout_.num_planes());
      tile.file = striping.Next(layout_.TileBytes(unit, t));
      tile.slot_offsets[0] = end[tile.file];
      end[tile.file] += layout_.TileBytes(unit, t);
    }
  }
  for (std::vector<TileState>& unit : tiles_) {
    for (TileState& tile : unit) {
      tile.slot_offsets[1] = tile.slot_offsets[0] + (two_slots_ ? end[tile.file] : 0);
    }
  }
  slot_bytes_ = std::move(end);
  for (uint64_t& bytes : slot_bytes_) bytes *= two_slots_ ? 2 : 1;
}

uint64_t SwapStore::PieceBytes(const StateLayout& layout) {
  return layout.tile_parameters() * layout.planes()[0].bytes_per_parameter;
}

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
  SPILLWAY_CHECK(!options.directories.empty());
  std::unique_ptr<SwapStore> store(new SwapStore);
  store->file_system_ = options.files;
  store->layout_ = layout;
  store->two_slots_ = options.two_slots;
  for (const std::string& directory : options.directories) {
    ASSIGN_OR_RETURN(std::string path, AbsolutePath(directory));
    store->directories_.push_back(std::move(path));
  }
  store->DealTiles(options);
  const std::vector<uint64_t> sizes_bytes = store->DealSpilled(options.spill, options.rates);
  if (absl::Status status = store->CreateFiles(sizes_bytes); !status.ok()) {
    store->Remove();  // only the files that this call made
    return status;
  }
  return store;
}

absl::Status SwapStore::OpenFiles(const std::vector<ManifestFile>& files, bool read_only,
                                  const SpillRoom& spill) {
  for (const ManifestFile& entry : files) {
    const std::filesystem::path path(entry.path);
    // What a manifest names is written to and cut to size: never a file of another kind.
    if (path.filename() != std::string(kFileName)) {
      return WrongBytesError(absl::StrCat(entry.path, " is not a name of a swap file"));
    }
    directories_.push_back(path.parent_path().string());
    auto file = file_system_->Open(entry.path, {.write = !read_only});
    if (absl::IsNotFound(file.status())) {
      return WrongBytesError(absl::StrCat("swap file ", entry.path, " is missing"));
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
  for (int i = 0; i < files_.size(); ++i) {
    ASSIGN_OR_RETURN(const uint64_t size_bytes, files_[i]->SizeBytes());
    if (size_bytes != sizes_bytes[i]) RETURN_IF_ERROR(files_[i]->Preallocate(sizes_bytes[i]));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<SwapStore>> SwapStore::Open(absl::string_view manifest_path,
                                                           bool read_only, const SpillRoom& spill,
                                                           CommitRecord* record,
                                                           FileSystem& files) {
  ASSIGN_OR_RETURN(const std::string text, files.ReadSmallFile(manifest_path));
  ASSIGN_OR_RETURN(Manifest manifest, DecodeManifest(text, manifest_path));
  ASSIGN_OR_RETURN(const std::string beside, DirectoryOf(manifest_path));
  for (ManifestFile& file : manifest.files) {
    if (file.path[0] != '/') file.path = absl::StrCat(beside, "/", file.path);
  }
  std::unique_ptr<SwapStore> store(new SwapStore);
  store->file_system_ = &files;
  store->layout_ = manifest.layout;
  store->read_only_ = read_only;
  store->tiles_.resize(manifest.tiles.size());
  for (size_t unit = 0; unit < manifest.tiles.size(); ++unit) {
    for (const ManifestTile& from : manifest.tiles[unit]) {
      TileState& tile = store->tiles_[unit].emplace_back();
      tile.file = static_cast<int>(from.file);
      tile.slot_offsets[0] = from.slot_offsets[0];
      tile.slot_offsets[1] = from.slot_offsets[1];
      tile.committed_slot = static_cast<int>(from.slot);
      store->two_slots_ &= from.slot_offsets[0] != from.slot_offsets[1];
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
  if (!read_only) RETURN_IF_ERROR(files.SyncDirectory(beside));
  absl::Status status = store->OpenFiles(manifest.files, read_only, spill);
  if (!status.ok()) {
    return Annotate(status, absl::StrCat("open the commit ", manifest_path));
  }
  record->step = manifest.step;
  record->engine_state = manifest.engine_state;
  return store;
}

SwapStore::~SwapStore() = default;

void SwapStore::Remove() {
  SPILLWAY_CHECK(!read_only_);
  for (const std::unique_ptr<File>& file : files_) (void)file_system_->Remove(file->path());
  files_.clear();
}

uint64_t SwapStore::StorageBytes(const StateLayout& layout, const StoreOptions& options) {
  uint64_t bytes = layout.TotalPaddedParameters() * layout.PlaneRangeBytes(0, layout.num_planes()) *
                   (options.two_slots ? 2 : 1);
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

}  // namespace spillway
