// Frozen weights that are read in place, in the model's own files: they are neither copied into the
// store nor written. Plain values; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace spillway {

struct ModelFile {
  std::string path;  // absolute
  uint64_t size_bytes = 0;

  friend bool operator==(const ModelFile&, const ModelFile&) = default;
};

// A run of bytes of a unit's weights in a file, at any offset.
struct FilePiece {
  uint32_t file = 0;  // index in InPlaceUnits::files
  uint64_t file_offset = 0;
  uint64_t size_bytes = 0;
  uint64_t unit_offset = 0;  // in the unit's weights
  std::string tensor;        // the tensor's name in the file, for messages

  friend bool operator==(const FilePiece&, const FilePiece&) = default;
};

struct InPlaceUnits {
  std::vector<ModelFile> files;
  // [unit] The pieces of its weights, in order of unit_offset, without overlaps; bytes between them
  // are zero. A unit without pieces is in the store, as are the units behind the last entry.
  std::vector<std::vector<FilePiece>> units;

  bool Has(int unit) const { return unit < static_cast<int>(units.size()) && !units[unit].empty(); }
  bool any() const {
    for (const auto& pieces : units) {
      if (!pieces.empty()) return true;
    }
    return false;
  }

  friend bool operator==(const InPlaceUnits&, const InPlaceUnits&) = default;
};

}  // namespace spillway
