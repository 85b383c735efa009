#include "swap/store/store_reader.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "io/base/aligned_bytes.h"
#include "io/base/check.h"
#include "io/base/status.h"

namespace spillway {
namespace {

// Bytes of an in-place tile that are read at once.
constexpr uint64_t kInPlaceBytes = uint64_t{1} << 20;

// Whole blocks that have the piece in them, through memory of their own.
absl::Status ReadBlocksOf(const SwapStore& store, int unit, int tile,
                          const InPlaceTiles::Piece& piece, char* blocks, char* data) {
  for (uint64_t done = 0; done < piece.size_bytes;) {
    const uint64_t at = piece.file_offset + done;
    const uint64_t begin = at - at % kStoreAlignment;
    const uint64_t wanted = std::min(kInPlaceBytes - (at - begin), piece.size_bytes - done);
    const uint64_t needed = at - begin + wanted;
    const uint64_t padded = (needed + kStoreAlignment - 1) / kStoreAlignment * kStoreAlignment;
    ASSIGN_OR_RETURN(const uint64_t read, piece.file->ReadUpTo(begin, blocks, padded));
    if (read < needed) {
      return store.in_place()->CutShort(
          unit, tile, absl::OutOfRangeError(absl::StrCat("the file ends at byte ", begin + read)));
    }
    std::memcpy(data + done, blocks + (at - begin), wanted);
    done += wanted;
  }
  return absl::OkStatus();
}

absl::Status ReadTileInPlace(const SwapStore& store, int unit, int tile, char* data) {
  ASSIGN_OR_RETURN(const auto pieces, store.in_place()->PiecesOf(unit, tile));
  std::memset(data, 0, store.layout().PlaneBytes(unit, tile, 0));
  const AlignedBytes blocks = NewAlignedBytes(kInPlaceBytes);
  for (const InPlaceTiles::Piece& piece : pieces) {
    RETURN_IF_ERROR(ReadBlocksOf(store, unit, tile, piece, blocks.get(), data + piece.tile_offset));
  }
  return store.Verify(unit, tile, 0, data);
}

}  // namespace

absl::Status ReadStoreTile(const SwapStore& store, int unit, int tile, int first_plane,
                           int last_plane, char* buffer) {
  const StateLayout& layout = store.layout();
  SPILLWAY_CHECK(first_plane >= 0 && reinterpret_cast<uintptr_t>(buffer) % kStoreAlignment == 0);
  last_plane = std::min(last_plane, layout.NumPlanes(unit));
  if (store.IsInPlace(unit)) {
    return first_plane < last_plane ? ReadTileInPlace(store, unit, tile, buffer) : absl::OkStatus();
  }
  for (int plane = first_plane; plane < last_plane; ++plane) {
    char* const data = buffer + layout.PlaneOffset(unit, tile, plane);
    const TileLocation at = store.CurrentTile(unit, tile, plane, plane + 1);
    RETURN_IF_ERROR(at.file->ReadAt(at.offset_bytes, data, layout.PlaneBytes(unit, tile, plane)));
    RETURN_IF_ERROR(store.Verify(unit, tile, plane, data));
  }
  return absl::OkStatus();
}

}  // namespace spillway
