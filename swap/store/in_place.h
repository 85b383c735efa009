// Frozen weights that are read where they lie, in the model's own files: nothing of them is copied
// into the store, and nothing is written. Plain values; any thread.
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

// Bytes of a unit's weights that lie side by side in a file, at any offset.
struct FilePiece {
  uint32_t file = 0;  // index in InPlaceUnits::files
  uint64_t file_offset = 0;
  uint64_t size_bytes = 0;
  uint64_t unit_offset = 0;  // in the unit's weights
  std::string tensor;        // for messages: what the file calls them

  friend bool operator==(const FilePiece&, const FilePiece&) = default;
};

struct InPlaceUnits {
  std::vector<ModelFile> files;
  // [unit] In order of unit_offset, without overlaps; what lies between them is zero. A unit
  // without pieces is in the store, as are those behind the last.
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
