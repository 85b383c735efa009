// The tiles of units that are read in place (swap/store/in_place.h): which bytes of which files
// each tile consists of, and checks that these bytes do not change.
//
// The run has not written these tiles, so at first they have no checksum: the bytes of a tile's
// first read get one, and every later read must have the same. A commit's manifest has the known
// checksums, so that a resumed run notices changed files. The files' sizes and times are noted when
// they are opened, too: they show a change before a tile's first read, and explain wrong bytes.
//
// This class moves no bytes itself. Any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "io/base/mutex.h"
#include "io/file.h"
#include "io/file_system.h"
#include "swap/plan/state_layout.h"
#include "swap/store/in_place.h"

namespace spillway {

// One contiguous piece of one plane, in a store's files or in place, for `inspect`.
struct ExtentInfo {
  std::string file;
  uint64_t offset_bytes;
  uint64_t size_bytes;
  int unit;
  int tile;
  Plane plane;
};

class InPlaceTiles {
 public:
  // A part of a tile: `size_bytes` bytes at `file_offset` of a file, at `tile_offset` in the tile.
  struct Piece {
    const File* file = nullptr;
    uint64_t file_offset = 0;
    uint64_t size_bytes = 0;
    uint64_t tile_offset = 0;
  };

  // Opens the files for reading, with direct I/O where that works. kDataLoss for a file that is
  // missing or shorter than it was; a missing file may be in `moved_to` under the same name ("":
  // nowhere else), and has that path from then on. `lazily`: such an error is returned by PiecesOf
  // instead. `files` outlives the result. REQUIRES: the pieces are in order and lie in frozen
  // units.
  static absl::StatusOr<std::unique_ptr<InPlaceTiles>> Open(const InPlaceUnits& places,
                                                            const StateLayout& layout,
                                                            absl::string_view moved_to, bool lazily,
                                                            FileSystem& files);

  bool Has(int unit) const { return places_.Has(unit); }
  const InPlaceUnits& places() const { return places_; }

  // The tile's pieces in order; bytes between them are zero. kDataLoss where a file is missing.
  absl::StatusOr<std::vector<Piece>> PiecesOf(int unit, int tile) const;

  void AppendExtents(int unit, int tile, std::vector<ExtentInfo>* extents) const;

  // Compares the checksum of a tile's bytes that were read (under generation 0) with that of the
  // tile's first read, or keeps it if this is the first. kDataLoss, naming tensors and files, where
  // the bytes differ, or where a file has changed before its first read.
  absl::Status Check(int unit, int tile, uint64_t checksum) const;
  // The status of a read that ended at the file's end too early: kDataLoss, naming tensors and
  // file.
  absl::Status CutShort(int unit, int tile, const absl::Status& read) const;

  // The checksum of the tile's first read; none while the tile has not been read.
  std::optional<uint64_t> KnownChecksum(int unit, int tile) const;
  void SetKnown(int unit, int tile, uint64_t checksum);

 private:
  struct Opened {
    std::unique_ptr<File> file;
    absl::Status status;  // why there is none
    FileInfo info;        // as it was then
  };
  InPlaceTiles(const InPlaceUnits& places, const StateLayout& layout, FileSystem& files)
      : places_(places), layout_(layout), files_(files) {}
  Opened OpenFile(ModelFile& file, absl::string_view moved_to);
  // Aborts unless the unit's pieces are in order and lie in the unit.
  void CheckPieces(int unit) const;
  // The unit's pieces that have a part in the tile.
  std::vector<const FilePiece*> InTile(int unit, int tile) const;
  Piece CutToTile(const FilePiece& from, int unit, int tile) const;
  std::string Describe(int unit, int tile) const;
  // Whether the files of a tile are as they were when they were opened.
  absl::Status CheckUnchanged(int unit, int tile) const;

  InPlaceUnits places_;
  const StateLayout layout_;
  FileSystem& files_;
  std::vector<Opened> opened_;  // by places_.files

  mutable Mutex mutex_;
  // [unit][tile]
  mutable std::vector<std::vector<std::optional<uint64_t>>> checksums_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace spillway
