// The manifest: what one commit of a swap store consists of, as text.
//
// One header line, then a JSON body, specified in docs/FORMATS.md:
//
//   spillway-manifest 1|...|5 <XXH3-64 of the body, 16 hex digits> <body bytes>\n
//   {"step":12, ...}
//
// The layout is written down, never re-derived: a reader needs no rule about how
// tiles were dealt to files. Pure functions of plain values; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "swap/plan/state_layout.h"
#include "swap/store/in_place.h"

namespace spillway {

// Version 2 has units that are frozen, version 3 such as are read in place, version 4 planes of
// other sizes, version 5 files in folders beside the manifest; without one the text is that of the
// version before.
inline constexpr int kManifestVersion = 5;

// What a manifest has at most, and so what is read of one: that of a rank with some 8T parameters.
inline constexpr uint64_t kMostManifestBytes = uint64_t{4} << 30;

// Tiles begin at multiples of this many bytes.
inline constexpr uint64_t kStoreAlignment = 4096;

struct ManifestFile {
  std::string path;         // absolute, or below the manifest's folder (IsBelow)
  uint64_t size_bytes = 0;  // what the slots need; the file may be longer

  friend bool operator==(const ManifestFile&, const ManifestFile&) = default;
};

// Whether `path` is one that leads from a folder to what is below it: "tiles", "a/tiles".
bool IsBelow(absl::string_view path);

struct ManifestTile {
  uint32_t file = 0;                  // index in files
  uint64_t slot_offsets[2] = {0, 0};  // bytes; room for all planes; equal with one slot
  uint32_t slot = 0;                  // the one that holds the committed state
  std::vector<uint64_t> generations;  // one a plane of the unit, in the layout's order
  // Likewise; of a unit that is read in place none as long as the tile has not been read, and the
  // rest means nothing.
  std::vector<uint64_t> checksums;

  friend bool operator==(const ManifestTile&, const ManifestTile&) = default;
};

struct Manifest {
  uint64_t step = 0;
  std::string engine_state;
  StateLayout layout;
  std::vector<ManifestFile> files;
  InPlaceUnits in_place;
  std::vector<std::vector<ManifestTile>> tiles;  // [unit][tile], as many as the layout says

  friend bool operator==(const Manifest&, const Manifest&) = default;
};

// kInvalidArgument when a name, a path or the engine's text is not UTF-8, kResourceExhausted when
// it would be longer than `most_bytes`, and nobody could read it again.
// REQUIRES: everything that DecodeManifest checks.
absl::StatusOr<std::string> EncodeManifest(const Manifest& manifest,
                                           uint64_t most_bytes = kMostManifestBytes);

// `name` is what messages call the text, usually its path. kInvalidArgument for
// another format version; kDataLoss for anything else that EncodeManifest would
// not have written: a wrong checksum or length, tiles that overlap, are not
// aligned, lie outside their file or do not match the layout. Whatever the text,
// the result can be used without further checks.
absl::StatusOr<Manifest> DecodeManifest(absl::string_view text, absl::string_view name);

}  // namespace spillway
