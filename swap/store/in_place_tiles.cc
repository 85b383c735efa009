#include "swap/store/in_place_tiles.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "io/base/check.h"
#include "io/base/log.h"
#include "io/base/status.h"
#include "swap/store/manifest.h"

namespace spillway {
namespace {

constexpr char kWhatToDo[] =
    "weights are read where they lie: bring the file back as it was (then a run goes on with "
    "--resume), or begin anew (a run with --overwrite)";

// More names than these say nothing more.
constexpr size_t kMostNames = 3;

}  // namespace

absl::StatusOr<std::unique_ptr<InPlaceTiles>> InPlaceTiles::Open(const InPlaceUnits& places,
                                                                 const StateLayout& layout,
                                                                 absl::string_view moved_to,
                                                                 bool lazily, FileSystem& files) {
  std::unique_ptr<InPlaceTiles> tiles(new InPlaceTiles(places, layout, files));
  for (ModelFile& file : tiles->places_.files) {
    tiles->opened_.push_back(tiles->OpenFile(file, moved_to));
    if (!lazily) RETURN_IF_ERROR(tiles->opened_.back().status);
  }
  for (size_t unit = 0; unit < places.units.size(); ++unit) {
    if (!places.units[unit].empty()) tiles->CheckPieces(static_cast<int>(unit));
  }
  MutexLock lock(tiles->mutex_);
  tiles->checksums_.resize(layout.num_units());
  for (int unit = 0; unit < layout.num_units(); ++unit) {
    if (tiles->Has(unit)) tiles->checksums_[unit].resize(layout.NumTiles(unit));
  }
  return tiles;
}

InPlaceTiles::Opened InPlaceTiles::OpenFile(ModelFile& file, absl::string_view moved_to) {
  Opened opened;
  const std::string named = file.path;
  auto info = files_.Stat(file.path, SymbolicLink::kFollow);
  if (absl::IsNotFound(info.status()) && !moved_to.empty()) {
    const auto moved = AbsolutePath(moved_to);
    const std::string other =
        NormalPath(absl::StrCat(moved.value_or(std::string(moved_to)), "/", FileName(file.path)));
    auto found = files_.Stat(other, SymbolicLink::kFollow);
    if (found.ok() && found->size_bytes == file.size_bytes) {
      LogInfo(
          absl::StrCat(file.path, " is not there any more: frozen weights are read from ", other));
      info = std::move(found);
      file.path = other;
    }
  }
  if (absl::IsNotFound(info.status())) {
    opened.status = WrongBytesError(
        absl::StrCat(named,
                     ", from which frozen weights are read, is missing: bring it back, or say "
                     "--model DIR, where it is now, to train --resume or export"));
    return opened;
  }
  opened.status = info.status();
  if (!opened.status.ok()) return opened;
  opened.info = *info;
  if (opened.info.size_bytes < file.size_bytes) {
    opened.status =
        WrongBytesError(absl::StrCat(file.path, " has ", opened.info.size_bytes, " bytes and had ",
                                     file.size_bytes, ": it was cut; ", kWhatToDo));
    return opened;
  }
  // A model's files may be links, as in Hugging Face's cache.
  const std::string path = files_.Resolve(file.path);
  auto direct = files_.Open(path, {});
  if (direct.ok() && kStoreAlignment % (*direct)->alignment_bytes() != 0) {
    direct = files_.Open(path, {.direct = false});
  }
  opened.status = direct.status();
  if (direct.ok()) opened.file = *std::move(direct);
  return opened;
}

std::vector<const FilePiece*> InPlaceTiles::InTile(int unit, int tile) const {
  SPILLWAY_CHECK(Has(unit));
  const uint64_t begin = layout_.PlaneBegin(tile, 0);
  const uint64_t end = begin + layout_.PlaneBytes(unit, tile, 0);
  const std::vector<FilePiece>& all = places_.units[unit];
  auto piece = std::partition_point(all.begin(), all.end(), [&](const FilePiece& p) {
    return p.unit_offset + p.size_bytes <= begin;
  });
  std::vector<const FilePiece*> in_tile;
  for (; piece != all.end() && piece->unit_offset < end; ++piece) in_tile.push_back(&*piece);
  return in_tile;
}

void InPlaceTiles::CheckPieces(int unit) const {
  SPILLWAY_CHECK(unit < layout_.num_units() && layout_.frozen(unit));
  uint64_t end = 0;
  for (const FilePiece& piece : places_.units[unit]) {
    SPILLWAY_CHECK(piece.file < places_.files.size() && piece.size_bytes > 0);
    SPILLWAY_CHECK(piece.unit_offset >= end);  // in order, without overlaps
    end = piece.unit_offset + piece.size_bytes;
  }
  SPILLWAY_CHECK(end <= layout_.UnitBytes(unit));
}

// The part of a unit's piece that is in a tile.
InPlaceTiles::Piece InPlaceTiles::CutToTile(const FilePiece& from, int unit, int tile) const {
  const uint64_t begin = layout_.PlaneBegin(tile, 0);
  const uint64_t end = begin + layout_.PlaneBytes(unit, tile, 0);
  const uint64_t first = std::max(begin, from.unit_offset);
  const uint64_t last = std::min(end, from.unit_offset + from.size_bytes);
  return {.file = opened_[from.file].file.get(),
          .file_offset = from.file_offset + (first - from.unit_offset),
          .size_bytes = last - first,
          .tile_offset = first - begin};
}

absl::StatusOr<std::vector<InPlaceTiles::Piece>> InPlaceTiles::PiecesOf(int unit, int tile) const {
  std::vector<Piece> pieces;
  for (const FilePiece* from : InTile(unit, tile)) {
    RETURN_IF_ERROR(opened_[from->file].status);
    pieces.push_back(CutToTile(*from, unit, tile));
  }
  return pieces;
}

void InPlaceTiles::AppendExtents(int unit, int tile, std::vector<ExtentInfo>* extents) const {
  for (const FilePiece* from : InTile(unit, tile)) {
    const Piece piece = CutToTile(*from, unit, tile);
    extents->push_back({.file = places_.files[from->file].path,
                        .offset_bytes = piece.file_offset,
                        .size_bytes = piece.size_bytes,
                        .unit = unit,
                        .tile = tile,
                        .plane = Plane::kWeight});
  }
}

// "unit 3 (h.2), tile 0: "h.2.mlp.weight" and "h.2.mlp.bias" in /models/m/model.safetensors".
std::string InPlaceTiles::Describe(int unit, int tile) const {
  std::string text =
      absl::StrCat("unit ", unit, " (", layout_.units()[unit].name, "), tile ", tile, ":");
  const std::vector<const FilePiece*> pieces = InTile(unit, tile);
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (i == kMostNames) {
      absl::StrAppend(&text, " and ", pieces.size() - i, " more");
      break;
    }
    absl::StrAppend(&text, i == 0 ? " \"" : ", \"", pieces[i]->tensor, "\" at byte ",
                    pieces[i]->file_offset, " of ", places_.files[pieces[i]->file].path);
  }
  return text;
}

absl::Status InPlaceTiles::CheckUnchanged(int unit, int tile) const {
  const FilePiece* last = nullptr;
  for (const FilePiece* piece : InTile(unit, tile)) {
    const bool looked_at = last != nullptr && last->file == piece->file;
    last = piece;
    if (looked_at) continue;
    const std::string& path = places_.files[piece->file].path;
    const FileInfo& then = opened_[piece->file].info;
    const auto now = files_.Stat(path, SymbolicLink::kFollow);
    if (now.ok() && now->size_bytes == then.size_bytes && now->modified_ns == then.modified_ns) {
      continue;
    }
    return WrongBytesError(absl::StrCat(
        Describe(unit, tile), ": ", path, " has changed while the run was reading it (",
        !now.ok() ? "it is not there any more"
        : now->size_bytes != then.size_bytes
            ? absl::StrCat("it has ", now->size_bytes, " bytes and had ", then.size_bytes)
            : "it was written to",
        "); ", kWhatToDo));
  }
  return absl::OkStatus();
}

absl::Status InPlaceTiles::Check(int unit, int tile, uint64_t checksum) const {
  std::optional<uint64_t> known = KnownChecksum(unit, tile);
  if (known == checksum) return absl::OkStatus();
  RETURN_IF_ERROR(CheckUnchanged(unit, tile));
  if (!known) {
    MutexLock lock(mutex_);
    std::optional<uint64_t>& first = checksums_[unit][tile];
    if (!first) first = checksum;  // or another read of the same tile was faster
    known = first;
  }
  if (known == checksum) return absl::OkStatus();
  return WrongBytesError(absl::StrCat(
      Describe(unit, tile),
      ": these are not the bytes that the run has read there before (checksum ",
      absl::Hex(checksum, absl::kZeroPad16), ", expected ", absl::Hex(*known, absl::kZeroPad16),
      "): the file is another, or its device brings wrong bytes; ", kWhatToDo));
}

absl::Status InPlaceTiles::CutShort(int unit, int tile, const absl::Status& read) const {
  RETURN_IF_ERROR(CheckUnchanged(unit, tile));
  return WrongBytesError(absl::StrCat(Describe(unit, tile), ": ", read.message(), "; ", kWhatToDo));
}

std::optional<uint64_t> InPlaceTiles::KnownChecksum(int unit, int tile) const {
  SPILLWAY_CHECK(Has(unit) && tile >= 0 && tile < layout_.NumTiles(unit));
  MutexLock lock(mutex_);
  return checksums_[unit][tile];
}

void InPlaceTiles::SetKnown(int unit, int tile, uint64_t checksum) {
  MutexLock lock(mutex_);
  SPILLWAY_CHECK(Has(unit) && tile >= 0 && tile < checksums_[unit].size());
  checksums_[unit][tile] = checksum;
}

}  // namespace spillway
