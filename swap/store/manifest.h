// The manifest: the text that describes one commit of a swap store.
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

// Version 2 adds frozen units, version 3 units that are read in place, version 4 planes of other
// sizes, version 5 files in folders beside the manifest. A manifest has the lowest version that can
// express its contents.
inline constexpr int kManifestVersion = 5;

// The most bytes that a manifest may have, and that are read of one: enough for a rank with some 8T
// parameters.
inline constexpr uint64_t kMostManifestBytes = uint64_t{4} << 30;

// Tiles begin at multiples of this many bytes.
inline constexpr uint64_t kStoreAlignment = 4096;

struct ManifestFile {
  std::string path;         // absolute, or below the manifest's folder (IsBelow)
  uint64_t size_bytes = 0;  // what the slots need; the file may be longer

  friend bool operator==(const ManifestFile&, const ManifestFile&) = default;
};

// Whether `path` is relative and leads to a place below its folder: "tiles", "a/tiles".
bool IsBelow(absl::string_view path);

struct ManifestTile {
  uint32_t file = 0;                  // index in files
  uint64_t slot_offsets[2] = {0, 0};  // bytes; room for all planes; equal with one slot
  uint32_t slot = 0;                  // the one that holds the committed state
  std::vector<uint64_t> generations;  // one a plane of the unit, in the layout's order
  // One a plane. A tile of a unit that is read in place has none until it has been read, and its
  // other fields have no meaning.
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

// kInvalidArgument when a name, a path or the engine's text is not UTF-8; kResourceExhausted when
// the text would be longer than `most_bytes`, which readers refuse. REQUIRES: a manifest that
// DecodeManifest accepts.
absl::StatusOr<std::string> EncodeManifest(const Manifest& manifest,
                                           uint64_t most_bytes = kMostManifestBytes);

// `name` is what messages call the text, usually its path. kInvalidArgument for
// another format version; kDataLoss for anything else that EncodeManifest would
// not have written: a wrong checksum or length, tiles that overlap, are not
// aligned, lie outside their file or do not match the layout. Whatever the text,
// the result can be used without further checks.
absl::StatusOr<Manifest> DecodeManifest(absl::string_view text, absl::string_view name);

}  // namespace spillway
