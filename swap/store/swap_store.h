// Where every tile of the state lives on storage, and what was last written there.
//
// The store is a set of preallocated files, one per swap path, and a record of
// extents, generations and checksums. It moves no bytes itself: the swap manager
// asks where to read and where to write, does the I/O, and then calls the store
// again to verify or to record.
//
// Every tile has two slots. A write goes to the slot that the last commit does
// not name; Commit makes what is current the committed state by making the data
// durable and then renaming a small checksummed manifest into place. So a crash
// at any moment leaves the last commit whole. With `two_slots` false there is
// one slot, and no commit. A frozen unit's tiles are written once and have one slot, too; or none,
// where the unit is read in place (swap/store/in_place.h).
//
// Large because all of it keeps one record: creation and opening fill it, reads and
// writes consult it tile by tile, and a commit writes it down.
//
// Threads: the record of one tile is independent of every other tile's, so methods
// that take a tile may be called for different tiles from different threads at once,
// and MakeDurable beside them. No other method is called while any method runs.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "io/checksum.h"
#include "io/file.h"
#include "io/file_system.h"
#include "swap/plan/state_layout.h"
#include "swap/store/in_place_tiles.h"
#include "swap/store/manifest.h"

namespace spillway {

struct StoreOptions {
  // One directory per swap path, owned and locked by this run and rank. May be empty where all
  // units are read in place.
  std::vector<std::string> directories;
  bool two_slots = true;
  SpillRoom spill = {};
  // How fast each path is, in bytes a second or any other unit; empty: all alike. Tiles are
  // dealt in proportion (swap/store/striping.h).
  std::vector<double> rates = {};
  // Frozen units that stay in the model's files.
  InPlaceUnits in_place = {};
  FileSystem* files = &FileSystem::Real();
  uint64_t most_manifest_bytes = kMostManifestBytes;  // tests have less
};

// The place of a run of planes in a file.
struct TileLocation {
  File* file = nullptr;
  uint64_t offset_bytes = 0;
};

// The contents of a commit beside the extents. The text is the engine's own (JSON:
// step, data cursor, loss scale, digests, ...), and is opaque to the store.
struct CommitRecord {
  uint64_t step = 0;
  std::string engine_state = {};
};

// A commit under way, with its manifest as it was when the commit began.
struct StoreCommit {
  uint64_t step = 0;
  std::string manifest_path;
  Manifest manifest;
};

class SwapStore {
 public:
  // Makes the files and reserves all their space. kResourceExhausted (path, needed,
  // free) when it does not fit, kAlreadyExists when a file of an earlier run is in the
  // way (RemoveLeftovers); in every case with nothing left behind that was not there.
  // REQUIRES: at least one directory, unless every unit is read in place.
  static absl::StatusOr<std::unique_ptr<SwapStore>> Create(const StateLayout& layout,
                                                           const StoreOptions& options);

  // A store of one slot without files, all of whose tiles count as written. It answers where tiles
  // are; they cannot be read, written or committed. For swap/forecast.
  static std::unique_ptr<SwapStore> WithoutFiles(const StateLayout& layout, const SpillRoom& spill);

  // Opens what the manifest at `manifest_path` names, in the state of that commit,
  // into `record`. kNotFound without a manifest; kDataLoss when the manifest's own
  // checksum is wrong or a named file is missing or too short; kInvalidArgument for
  // an unknown format version; kFailedPrecondition for a store of one slot that is to be
  // written to. `read_only`: for inspect and export; takes no space.
  // Otherwise the files grow or shrink to the room that `spill` asks for.
  // A file that is missing where a manifest of an earlier version says is looked for beside the
  // manifest, in a folder of the same name, since both may have been moved; the caller finds out
  // from that folder whose it is. State written after that commit is discarded. The caller holds
  // the lock of every directory that will be written to. A missing model file that a unit is read
  // from in place is looked for in `model_directory`; with `read_only`, the read of a tile reports
  // a model file that is missing or too short.
  static absl::StatusOr<std::unique_ptr<SwapStore>> Open(absl::string_view manifest_path,
                                                         bool read_only, const SpillRoom& spill,
                                                         CommitRecord* record,
                                                         FileSystem& files = FileSystem::Real(),
                                                         absl::string_view model_directory = "");
  ~SwapStore();

  const StateLayout& layout() const { return layout_; }
  FileSystem& file_system() const { return *file_system_; }
  // The directories in use, as given to Create.
  const std::vector<std::string>& directories() const { return directories_; }
  bool two_slots() const { return two_slots_; }
  // The files that every TileLocation points to; they live as long as the store.
  std::vector<const File*> files() const;

  // The tiles of units that are read in place; null: there are none. Such a tile has no slot, is
  // never stale and is never written.
  const InPlaceTiles* in_place() const { return in_place_.get(); }
  bool IsInPlace(int unit) const { return in_place_ != nullptr && in_place_->Has(unit); }
  // Takes over the known checksums of tiles that are read in place. REQUIRES: the same layout.
  void TakeChecksumsInPlace(const SwapStore& from);

  // Where planes [first, last) of a tile lie in their newest state.
  // REQUIRES: the unit is not read in place, none is stale, and all are in the same slot (they are
  // whenever they were always written together, and after every commit).
  TileLocation CurrentTile(int unit, int tile, int first_plane, int last_plane) const;

  // Where the next state of planes [first_plane, ...) may be written: never in the
  // slot that the last commit names. With one slot: over the current state.
  // REQUIRES: no commit is under way; a frozen unit's tile is in no commit yet.
  TileLocation WritableTile(int unit, int tile, int first_plane) const;

  // Records that the write to WritableTile has completed and is now the current state, with
  // one checksum per plane made under PlaneIdentity(..., generation).
  void RecordWrite(int unit, int tile, int first_plane, absl::Span<const uint64_t> checksums,
                   uint64_t generation);

  // The identity under which the current state of a plane was written, or under
  // which a new one shall be.
  ChecksumIdentity PlaneIdentity(int unit, int tile, int plane_index, uint64_t generation) const;

  // kDataLoss, naming unit, plane, tile, file and offset, when the checksum of `data`
  // (PlaneBytes) is not the one recorded for the current state. For a tile that is read in place
  // the checksum of the first read is recorded.
  absl::Status Verify(int unit, int tile, int plane_index, const void* data) const;
  // Verify for bytes whose checksum under PlaneIdentity(current generation) the
  // caller has computed on another thread.
  absl::Status VerifyChecksum(int unit, int tile, int plane_index, uint64_t checksum) const;
  uint64_t CurrentGeneration(int unit, int tile, int plane_index) const;

  // True when the plane's newest state is not yet on storage in a slot of its own:
  // never written, or marked by MarkStale since (a state that lives in memory was updated).
  bool IsStale(int unit, int tile, int plane_index) const;
  void MarkStale(int unit, int tile, int first_plane, int last_plane);

  // Spilled gradients have one slot. REQUIRES: the unit has room for them; generations do not go
  // back.
  TileLocation GradientTile(int unit, int tile) const;
  void RecordGradientWrite(int unit, int tile, uint64_t checksum, uint64_t generation);
  ChecksumIdentity GradientIdentity(int unit, int tile, uint64_t generation) const;
  absl::Status VerifyGradientChecksum(int unit, int tile, uint64_t checksum) const;
  uint64_t GradientGeneration(int unit, int tile) const;

  // Spilled activations: a unit's bytes in pieces of PieceBytes, of which the last is shorter.
  // REQUIRES: the unit has room for them; generations do not go back.
  int NumPieces(int unit) const;
  static uint64_t PieceBytes(const StateLayout& layout);
  uint64_t PieceBytes(int unit, int piece) const { return PieceAt(unit, piece).size_bytes; }
  TileLocation ActivationPiece(int unit, int piece) const;
  void RecordPieceWrite(int unit, int piece, uint64_t checksum, uint64_t generation);
  static ChecksumIdentity PieceIdentity(int unit, int piece, uint64_t generation);
  // kDataLoss, as Verify, when `data` is not what was recorded last.
  absl::Status VerifyPiece(int unit, int piece, const void* data) const;

  // Makes everything current durable and writes the manifest to `manifest_path`. A store
  // of one slot is committed once, as a copy that is never written to again.
  // REQUIRES: no write is in flight, no plane is stale, and all planes of a tile are in one slot:
  // a tile that was rewritten since the last commit was rewritten whole. On failure a reader may
  // find either commit, and the store must not be written to again (WritableTile checks).
  absl::Status Commit(absl::string_view manifest_path, const CommitRecord& record);

  // Commit in three parts, so that the one that waits for the disk can overlap other work.
  // From BeginCommit to EndCommit tiles may be read, and gradients spilled, but no tile may
  // be written.
  absl::StatusOr<StoreCommit> BeginCommit(absl::string_view manifest_path, CommitRecord record);
  // Any thread. Makes the manifest's text, too, which takes a while for a large model. On failure
  // *only_lost says whether the manifest could not be made or had no room on the disk: then the
  // commit before is whole, and the store may be written to again after GiveUpCommit. REQUIRES:
  // BeginCommit made `commit`.
  absl::Status MakeDurable(const StoreCommit& commit, bool* only_lost = nullptr) const;
  // The commit is the last one from now on. REQUIRES: MakeDurable returned OK.
  void EndCommit();
  // The commit before stays the last one. REQUIRES: MakeDurable failed with *only_lost, or it
  // returned OK and nothing names that manifest.
  void GiveUpCommit();

  // Every extent of the last commit (after Open) or of the current state.
  std::vector<ExtentInfo> Extents() const;

  // Deletes the files; the store must not be used again. The directories stay with
  // their owner. REQUIRES: not opened read-only.
  void Remove();

  // The bytes that Create would reserve, all paths together.
  static uint64_t StorageBytes(const StateLayout& layout, const StoreOptions& options);

  // The bytes that Create would reserve in each file, in the order of options.directories.
  static std::vector<uint64_t> FileBytes(const StateLayout& layout, const StoreOptions& options);

  // Deletes the files that a killed run's store may have left in `directory`: only files with
  // the store's own names. Also OK when there are none. The caller holds
  // the directory's lock, and has made sure that no manifest it needs names the files.
  static absl::Status RemoveLeftovers(absl::string_view directory,
                                      FileSystem& files = FileSystem::Real());

 private:
  struct PlaneState {
    uint64_t generation = 0;
    uint64_t checksum = 0;
    int slot = -1;  // where the current state was written; -1: nowhere yet
    bool stale = true;
  };
  struct TileState {
    int file = 0;
    uint64_t slot_offsets[2] = {0, 0};  // equal with one slot
    int committed_slot = -1;            // -1: no commit yet
    std::vector<PlaneState> planes;
    bool has_gradient = false;
    uint64_t gradient_offset = 0;
    PlaneState gradient;
  };
  // How far a commit has come. One that failed otherwise than by being lost stays kBegun, so that
  // the store is not written to again.
  enum class CommitPhase : uint8_t {
    kNone,
    kBegun,    // BeginCommit
    kDurable,  // MakeDurable returned OK
    kLost,     // it failed with *only_lost
    kCopied,   // the commit of a store of one slot, after which nothing is written
  };
  struct Piece {  // of a spilled activation
    int file = 0;
    uint64_t offset_bytes = 0;
    uint64_t size_bytes = 0;
    PlaneState state;
  };
  SwapStore() = default;

  static TileState ReadInPlace();
  // Gives every tile its place, in one file for each directory.
  void DealTiles(const StoreOptions& options);
  // Places spilled gradients and activations behind the slots; returns the bytes that each file
  // needs.
  std::vector<uint64_t> DealSpilled(const SpillRoom& spill, const std::vector<double>& rates);
  absl::Status CreateFiles(const std::vector<uint64_t>& sizes_bytes);
  absl::Status OpenInPlace(const Manifest& manifest, bool read_only,
                           absl::string_view model_directory);
  // Opens the files of the manifest in `directory`.
  absl::Status OpenFiles(std::vector<ManifestFile> files, const std::string& directory,
                         bool read_only, const SpillRoom& spill);
  std::vector<ManifestTile> TilesInPlace(int unit) const;
  // `directory` is the manifest's; files below it are named relative to it.
  Manifest ToManifest(CommitRecord record, absl::string_view directory) const;
  const TileState& Tile(int unit, int tile) const;
  TileState& Tile(int unit, int tile);
  const PlaneState& PlaneAt(int unit, int tile, int plane_index) const;
  const Piece& PieceAt(int unit, int piece) const;
  int WritableSlot(const TileState& tile) const;
  bool committing() const { return commit_phase_ != CommitPhase::kNone; }
  // Aborts unless every slot, gradient and piece lies in its part of a file (DealTiles).
  void CheckPlaces(const std::vector<uint64_t>& sizes_bytes) const;
  absl::Status Check(int unit, int tile, Plane plane, const PlaneState& state, int file,
                     uint64_t offset_bytes, uint64_t checksum) const;

  FileSystem* file_system_ = nullptr;
  StateLayout layout_;
  std::vector<std::string> directories_;
  uint64_t most_manifest_bytes_ = kMostManifestBytes;
  bool two_slots_ = true;
  bool read_only_ = false;
  // MakeDurable, which other threads call, is const.
  mutable std::atomic<CommitPhase> commit_phase_{CommitPhase::kNone};
  std::vector<std::unique_ptr<File>> files_;
  std::vector<uint64_t> slot_bytes_;           // [file] bytes of all slots, from the start
  std::vector<std::vector<TileState>> tiles_;  // [unit][tile]
  std::vector<std::vector<Piece>> pieces_;     // [unit][piece]
  std::unique_ptr<InPlaceTiles> in_place_;
};

}  // namespace spillway
