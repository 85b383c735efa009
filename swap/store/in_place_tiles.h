// The tiles of units that are read in place (swap/store/in_place.h): which bytes of which files
// they are, and whether those are still the same.
//
// Nobody has written these tiles, so there is no checksum to begin with: what a tile's first read
// brings is given one, and every later read must bring it again. A commit's manifest says those
// that are known, so that a run which goes on notices what has changed since. Beside that the
// files' sizes and times are noted when they are opened: of a file whose tiles are still to be read
// first they say that it has changed, and of wrong bytes why they are.
//
// It moves no bytes itself. Any thread.
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
  // A part of a tile: `size_bytes` at `file_offset` of a file, `tile_offset` bytes into the tile.
  struct Piece {
    const File* file = nullptr;
    uint64_t file_offset = 0;
    uint64_t size_bytes = 0;
    uint64_t tile_offset = 0;
  };

  // Opens the files, for reading, around the page cache where that can be. kDataLoss for one that
  // is missing or shorter; a missing one may be in `moved_to` under the same name ("": nowhere
  // else), and is then named so from now on. `lazily`: who reads the tiles is told instead.
  // `files` outlives it.
  static absl::StatusOr<std::unique_ptr<InPlaceTiles>> Open(const InPlaceUnits& places,
                                                            const StateLayout& layout,
                                                            absl::string_view moved_to, bool lazily,
                                                            FileSystem& files);

  bool Has(int unit) const { return places_.Has(unit); }
  const InPlaceUnits& places() const { return places_; }

  // In order; what lies between them is zero. kDataLoss where a file is not there.
  absl::StatusOr<std::vector<Piece>> PiecesOf(int unit, int tile) const;

  void AppendExtents(int unit, int tile, std::vector<ExtentInfo>* extents) const;

  // Of the tile's bytes as they have come, by Checksum under generation 0: takes note of the first,
  // and compares all others. kDataLoss, naming tensors and files, where they are other bytes, or
  // where a file has changed before its first read.
  absl::Status Check(int unit, int tile, uint64_t checksum) const;
  // What a read that found the file's end says: kDataLoss, naming tensors and file.
  absl::Status CutShort(int unit, int tile, const absl::Status& read) const;

  // None: the tile has not been read.
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
