#include "swap/store/manifest.h"

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "io/base/check.h"
#include "io/base/status.h"
#include "io/checksum.h"
#include "nlohmann/json.hpp"

namespace spillway {
namespace {

// A JSON string. Throws nlohmann's type_error when `text` is not UTF-8.
std::string Quoted(const std::string& text) { return nlohmann::json(text).dump(); }

void AppendTile(const ManifestTile& tile, int num_planes, std::string* body) {
  SPILLWAY_CHECK(tile.generations.size() == num_planes && tile.checksums.size() == num_planes);
  absl::StrAppend(body, "[", tile.file, ",", tile.slot_offsets[0], ",", tile.slot_offsets[1], ",",
                  tile.slot, ",[", absl::StrJoin(tile.generations, ","), "],[");
  for (int i = 0; i < num_planes; ++i) {
    absl::StrAppend(body, i == 0 ? "\"" : ",\"", absl::Hex(tile.checksums[i], absl::kZeroPad16),
                    "\"");
  }
  body->append("]]");
}

// The checksum, or null where the tile has not been read.
void AppendTileInPlace(const ManifestTile& tile, std::string* body) {
  SPILLWAY_CHECK(tile.checksums.size() <= 1);
  if (tile.checksums.empty()) {
    body->append("null");
  } else {
    absl::StrAppend(body, "\"", absl::Hex(tile.checksums[0], absl::kZeroPad16), "\"");
  }
}

void AppendInPlace(const InPlaceUnits& in_place, std::string* body) {
  body->append("],\n\"model_files\":[");
  absl::string_view comma = "";
  for (const ModelFile& file : in_place.files) {
    absl::StrAppend(body, comma, "[", Quoted(file.path), ",", file.size_bytes, "]");
    comma = ",\n";
  }
  body->append("],\n\"in_place\":[");
  absl::string_view unit_comma = "\n";
  for (size_t unit = 0; unit < in_place.units.size(); ++unit) {
    if (!in_place.Has(static_cast<int>(unit))) continue;
    absl::StrAppend(body, unit_comma, "[", unit, ",[");
    comma = "";
    for (const FilePiece& piece : in_place.units[unit]) {
      absl::StrAppend(body, comma, "[", piece.file, ",", piece.file_offset, ",", piece.size_bytes,
                      ",", piece.unit_offset, ",", Quoted(piece.tensor), "]");
      comma = ",\n";
    }
    body->append("]]");
    unit_comma = ",\n";
  }
}

// The version of the text that describes this manifest.
int VersionOf(const Manifest& manifest) {
  const auto& files = manifest.files;
  const auto in_folder = [](const ManifestFile& file) {
    return !absl::StartsWith(file.path, "/") && absl::StrContains(file.path, '/');
  };
  if (std::any_of(files.begin(), files.end(), in_folder)) return 5;
  const auto& planes = manifest.layout.planes();
  // Earlier programs take every plane for an even number of bytes a parameter.
  const auto fine = [](const PlaneSpec& p) { return p.parameters != 1 || p.bytes % 2 != 0; };
  if (std::any_of(planes.begin(), planes.end(), fine)) return 4;
  if (manifest.in_place.any()) return 3;
  const auto& units = manifest.layout.units();
  const auto frozen = [](const UnitLayout& u) { return u.frozen; };
  return std::any_of(units.begin(), units.end(), frozen) ? 2 : 1;
}

std::string EncodeBody(const Manifest& manifest) {
  const StateLayout& layout = manifest.layout;
  std::string body = absl::StrCat(
      "{\"step\":", manifest.step, ",\n\"engine_state\":", Quoted(manifest.engine_state),
      ",\n\"tile_parameters\":", layout.tile_parameters(),
      ",\n\"gradient_bytes_per_parameter\":", layout.gradient_bytes_per_parameter(),
      ",\n\"planes\":[");
  absl::string_view comma = "";
  for (const PlaneSpec& spec : layout.planes()) {
    absl::StrAppend(&body, comma, "[", static_cast<int>(spec.plane), ",", spec.bytes);
    if (spec.parameters != 1) absl::StrAppend(&body, ",", spec.parameters);
    body.push_back(']');
    comma = ",";
  }
  body.append("],\n\"units\":[");
  comma = "";
  for (const UnitLayout& unit : layout.units()) {
    absl::StrAppend(&body, comma, "[", Quoted(unit.name), ",", unit.parameters,
                    unit.frozen ? ",\"frozen\"]" : "]");
    comma = ",\n";
  }
  body.append("],\n\"files\":[");
  comma = "";
  for (const ManifestFile& file : manifest.files) {
    absl::StrAppend(&body, comma, "[", Quoted(file.path), ",", file.size_bytes, "]");
    comma = ",\n";
  }
  if (manifest.in_place.any()) AppendInPlace(manifest.in_place, &body);
  body.append("],\n\"tiles\":[");
  SPILLWAY_CHECK(manifest.tiles.size() == layout.num_units());
  for (int unit = 0; unit < layout.num_units(); ++unit) {
    SPILLWAY_CHECK(manifest.tiles[unit].size() == layout.NumTiles(unit));
    body.append(unit == 0 ? "\n[" : ",\n[");
    comma = "";
    for (const ManifestTile& tile : manifest.tiles[unit]) {
      body.append(comma.data(), comma.size());
      if (manifest.in_place.Has(unit)) {
        AppendTileInPlace(tile, &body);
      } else {
        AppendTile(tile, layout.NumPlanes(unit), &body);
      }
      comma = ",\n";
    }
    body.append("]");
  }
  body.append("]}\n");
  return body;
}

}  // namespace

absl::StatusOr<std::string> EncodeManifest(const Manifest& manifest, uint64_t most_bytes) {
  std::string body;
  try {
    body = EncodeBody(manifest);
  } catch (const nlohmann::json::exception& error) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a manifest holds UTF-8 only; a unit's name, a path or the engine's state is not (",
        error.what(), ")"));
  }
  std::string text = absl::StrCat("spillway-manifest ", VersionOf(manifest), " ",
                                  absl::Hex(Checksum(body.data(), body.size()), absl::kZeroPad16),
                                  " ", body.size(), "\n", body);
  if (text.size() > most_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "the manifest would have ", text.size(), " bytes, and none above ", most_bytes,
        " can be read again: a rank has too many tiles; divide the state among more ranks "
        "(--shard full)"));
  }
  return text;
}

namespace {

using Json = nlohmann::json;

// Bounds that keep every sum below 2^64: 2^44 parameters of a unit and 2^20 units
// at 64 bytes a parameter are far beyond any model.
constexpr uint64_t kMaxUnits = 1 << 20;
constexpr uint64_t kMaxUnitParameters = uint64_t{1} << 44;
constexpr uint64_t kMaxTotalParameters = uint64_t{1} << 48;
constexpr uint64_t kMaxFileBytes = uint64_t{1} << 60;
constexpr uint64_t kMaxBytesPerParameter = 8;
constexpr int kMaxPlanes = static_cast<int>(Plane::kMomentumScale) + 1;
// The body nests no deeper than tiles -> unit -> tile -> checksums, in an object.
constexpr int kMaxDepth = 5;

absl::Status Broken(absl::string_view what) {
  return absl::DataLossError(absl::StrCat("the manifest's ", what));
}

bool ReadUint(const Json& json, uint64_t max, uint64_t* value) {
  if (!json.is_number_unsigned()) return false;
  *value = json.get<uint64_t>();
  return *value <= max;
}

bool ReadString(const Json& json, std::string* value) {
  if (!json.is_string()) return false;
  *value = json.get_ref<const std::string&>();
  return true;
}

bool ReadHex64(const Json& json, uint64_t* value) {
  if (!json.is_string()) return false;
  const std::string& text = json.get_ref<const std::string&>();
  // Written again and compared: SimpleHexAtoi also takes signs and "0x".
  return absl::SimpleHexAtoi(text, value) &&
         text == absl::StrCat(absl::Hex(*value, absl::kZeroPad16));
}

// The member `key` when it is an array, else null.
const Json* FindArray(const Json& body, const char* key) {
  auto it = body.find(key);
  return it != body.end() && it->is_array() ? &*it : nullptr;
}

// A [text, number] pair, as units and files are written.
bool ReadNamed(const Json& json, uint64_t max, std::string* name, uint64_t* value) {
  return json.is_array() && json.size() == 2 && ReadString(json[0], name) &&
         ReadUint(json[1], max, value);
}

absl::StatusOr<absl::string_view> CheckHeader(absl::string_view text, absl::string_view name,
                                              int* version) {
  const size_t end = text.find('\n');
  absl::string_view header = text.substr(0, end);
  if (end == absl::string_view::npos || !absl::ConsumePrefix(&header, "spillway-manifest ")) {
    return absl::DataLossError(absl::StrCat(name, " is not a Spillway manifest"));
  }
  const std::vector<absl::string_view> fields = absl::StrSplit(header, ' ');
  // Compared as text, so that there is one way only to write the header.
  for (*version = kManifestVersion; *version > 0 && fields[0] != absl::StrCat(*version);)
    --*version;
  if (*version == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, " has manifest format version ", fields[0].substr(0, 20),
                     "; this program reads versions up to ", kManifestVersion,
                     ": use the Spillway that wrote it"));
  }
  absl::string_view body = text.substr(end + 1);
  if (fields.size() != 3 || fields[2] != absl::StrCat(body.size())) {
    return absl::DataLossError(absl::StrCat(name, ": the manifest has ", body.size(),
                                            " bytes after its header, which says otherwise"));
  }
  if (fields[1] != absl::StrCat(absl::Hex(Checksum(body.data(), body.size()), absl::kZeroPad16))) {
    return absl::DataLossError(
        absl::StrCat(name, ": the manifest's checksum does not match its contents"));
  }
  return body;
}

bool IsState(Plane plane) { return plane != Plane::kGradient && plane != Plane::kActivation; }

absl::Status ReadLayout(const Json& body, StateLayout* layout) {
  uint64_t tile_parameters = 0, gradient_bytes = 0;
  if (!body.contains("tile_parameters") ||
      !ReadUint(body["tile_parameters"], kMaxUnitParameters, &tile_parameters) ||
      tile_parameters == 0 || tile_parameters % kParameterAlignment != 0) {
    return Broken("tile_parameters is not a multiple of 2048");
  }
  if (!body.contains("gradient_bytes_per_parameter") ||
      !ReadUint(body["gradient_bytes_per_parameter"], kMaxBytesPerParameter, &gradient_bytes) ||
      gradient_bytes % 2 != 0) {
    return Broken("gradient_bytes_per_parameter is not an even number");
  }

  const Json* planes_json = FindArray(body, "planes");
  if (planes_json == nullptr || planes_json->empty() || planes_json->size() > kMaxPlanes) {
    return Broken("list of planes is missing, empty or too long");
  }
  std::vector<PlaneSpec> planes;
  for (const Json& entry : *planes_json) {
    uint64_t plane = 0, bytes = 0, parameters = 1;
    const bool shared = entry.is_array() && entry.size() == 3;
    if (!entry.is_array() || (entry.size() != 2 && !shared) ||
        !ReadUint(entry[0], kMaxPlanes - 1, &plane) || !IsState(static_cast<Plane>(plane)) ||
        !ReadUint(entry[1], kMaxBytesPerParameter, &bytes) ||
        (bytes != 1 && (bytes == 0 || bytes % 2 != 0)) ||
        (shared && (!ReadUint(entry[2], kParameterAlignment, &parameters) || parameters < 2 ||
                    kParameterAlignment % parameters != 0))) {
      return Broken("list of planes has an entry that is no plane");
    }
    for (const PlaneSpec& other : planes) {
      if (other.plane == static_cast<Plane>(plane)) return Broken("list of planes repeats one");
    }
    planes.push_back({static_cast<Plane>(plane), static_cast<uint32_t>(bytes),
                      static_cast<uint32_t>(parameters)});
  }
  if (planes[0].plane != Plane::kWeight || planes[0].bytes == 1 || planes[0].parameters != 1)
    return Broken("first plane is not the weight");

  const Json* units_json = FindArray(body, "units");
  if (units_json == nullptr || units_json->size() > kMaxUnits) {
    return Broken("list of units is missing or too long");
  }
  std::vector<UnitLayout> units;
  uint64_t total = 0;
  for (const Json& entry : *units_json) {
    UnitLayout unit;
    unit.frozen = entry.is_array() && entry.size() == 3 && entry[2] == "frozen";
    const Json named = unit.frozen ? Json{entry[0], entry[1]} : entry;
    if (!ReadNamed(named, kMaxUnitParameters, &unit.name, &unit.parameters)) {
      return Broken("list of units has an entry that is not [name, parameters]");
    }
    total += unit.parameters;
    if (total > kMaxTotalParameters) return Broken("units are too large");
    units.push_back(std::move(unit));
  }
  *layout = StateLayout(std::move(units), std::move(planes), gradient_bytes, tile_parameters);
  return absl::OkStatus();
}

absl::Status ReadFiles(const Json& body, std::vector<ManifestFile>* files) {
  const Json* files_json = FindArray(body, "files");
  if (files_json == nullptr) return Broken("list of files is missing");
  std::vector<std::string> paths;
  for (const Json& entry : *files_json) {
    ManifestFile file;
    if (!ReadNamed(entry, kMaxFileBytes, &file.path, &file.size_bytes) ||
        file.path.find('\0') != std::string::npos ||
        (!absl::StartsWith(file.path, "/") && !IsBelow(file.path))) {
      return Broken(
          "list of files has an entry that is not [absolute path or one below the manifest, "
          "bytes]");
    }
    paths.push_back(file.path);
    files->push_back(std::move(file));
  }
  std::sort(paths.begin(), paths.end());
  if (std::adjacent_find(paths.begin(), paths.end()) != paths.end()) {
    return Broken("list of files names one twice");
  }
  return absl::OkStatus();
}

absl::Status ReadModelFiles(const Json& files_json, std::vector<ModelFile>* files) {
  for (const Json& entry : files_json) {
    ModelFile file;
    if (!ReadNamed(entry, kMaxFileBytes, &file.path, &file.size_bytes) ||
        file.path.find('\0') != std::string::npos || !absl::StartsWith(file.path, "/")) {
      return Broken("list of model files has an entry that is not [absolute path, bytes]");
    }
    files->push_back(std::move(file));
  }
  return absl::OkStatus();
}

bool ReadFilePiece(const Json& json, const std::vector<ModelFile>& files, FilePiece* piece) {
  uint64_t file = 0;
  if (!json.is_array() || json.size() != 5 || !ReadUint(json[0], UINT32_MAX, &file) ||
      !ReadUint(json[1], kMaxFileBytes, &piece->file_offset) ||
      !ReadUint(json[2], kMaxFileBytes, &piece->size_bytes) ||
      !ReadUint(json[3], kMaxFileBytes, &piece->unit_offset) ||
      !ReadString(json[4], &piece->tensor)) {
    return false;
  }
  piece->file = static_cast<uint32_t>(file);
  return file < files.size() && piece->size_bytes > 0 &&
         piece->file_offset + piece->size_bytes <= files[file].size_bytes;
}

// Reads the files of in-place units. Only frozen units may have them, in their order; their pieces
// are in order, disjoint, and inside the unit.
absl::Status ReadInPlace(const Json& body, const StateLayout& layout, InPlaceUnits* in_place) {
  const Json* files = FindArray(body, "model_files");
  const Json* units = FindArray(body, "in_place");
  if (files == nullptr && units == nullptr) return absl::OkStatus();
  if (files == nullptr || units == nullptr || units->empty()) {
    return Broken("units that are read in place are without files, or files without units");
  }
  RETURN_IF_ERROR(ReadModelFiles(*files, &in_place->files));
  in_place->units.resize(layout.num_units());
  uint64_t next_unit = 0;
  for (const Json& entry : *units) {
    uint64_t unit = 0;
    if (!entry.is_array() || entry.size() != 2 || !ReadUint(entry[0], uint64_t{1} << 31, &unit) ||
        unit < next_unit || unit >= static_cast<uint64_t>(layout.num_units()) ||
        !layout.frozen(static_cast<int>(unit)) || !entry[1].is_array() || entry[1].empty()) {
      return Broken("list of what is read in place has an entry that is no frozen unit");
    }
    next_unit = unit + 1;
    uint64_t end = 0;
    for (const Json& from : entry[1]) {
      FilePiece piece;
      if (!ReadFilePiece(from, in_place->files, &piece) || piece.unit_offset < end) {
        return Broken(absl::StrCat("unit ", unit, " has a piece that lies in no file, or twice"));
      }
      end = piece.unit_offset + piece.size_bytes;
      in_place->units[unit].push_back(std::move(piece));
    }
    if (end > layout.UnitBytes(static_cast<int>(unit))) {
      return Broken(absl::StrCat("unit ", unit, " has a piece behind its end"));
    }
  }
  return absl::OkStatus();
}

bool ReadKnownChecksum(const Json& json, ManifestTile* tile) {
  tile->generations = {0};
  if (json.is_null()) return true;
  tile->checksums.resize(1);
  return ReadHex64(json, &tile->checksums[0]);
}

bool ReadTile(const Json& json, int num_planes, ManifestTile* tile) {
  if (!json.is_array() || json.size() != 6) return false;
  uint64_t file = 0, slot = 0;
  const Json& generations = json[4];
  const Json& checksums = json[5];
  if (!ReadUint(json[0], UINT32_MAX, &file) ||
      !ReadUint(json[1], kMaxFileBytes, &tile->slot_offsets[0]) ||
      !ReadUint(json[2], kMaxFileBytes, &tile->slot_offsets[1]) || !ReadUint(json[3], 1, &slot) ||
      !generations.is_array() || generations.size() != num_planes || !checksums.is_array() ||
      checksums.size() != num_planes) {
    return false;
  }
  tile->file = static_cast<uint32_t>(file);
  tile->slot = static_cast<uint32_t>(slot);
  tile->generations.resize(num_planes);
  tile->checksums.resize(num_planes);
  for (int i = 0; i < num_planes; ++i) {
    if (!ReadUint(generations[i], UINT64_MAX, &tile->generations[i])) return false;
    if (!ReadHex64(checksums[i], &tile->checksums[i])) return false;
  }
  return true;
}

// Every slot of every tile: aligned, inside its file, and disjoint from all others (but
// from the tile's own other slot, where there is only one).
absl::Status CheckPlaces(const Manifest& manifest) {
  std::vector<std::tuple<uint32_t, uint64_t, uint64_t>> extents;  // file, begin, end
  for (int unit = 0; unit < manifest.layout.num_units(); ++unit) {
    if (manifest.in_place.Has(unit)) continue;
    for (int t = 0; t < manifest.layout.NumTiles(unit); ++t) {
      const ManifestTile& tile = manifest.tiles[unit][t];
      const std::string which = absl::StrCat("tile ", t, " of unit ", unit);
      if (tile.file >= manifest.files.size()) {
        return Broken(absl::StrCat(which, " is in a file that is not listed"));
      }
      const int slots = tile.slot_offsets[0] == tile.slot_offsets[1] ? 1 : 2;
      for (int slot = 0; slot < slots; ++slot) {
        const uint64_t begin = tile.slot_offsets[slot];
        const uint64_t end = begin + manifest.layout.TileBytes(unit, t);
        if (begin % kStoreAlignment != 0) return Broken(absl::StrCat(which, " is not aligned"));
        if (end > manifest.files[tile.file].size_bytes) {
          return Broken(absl::StrCat(which, " ends at byte ", end, ", behind the end of ",
                                     manifest.files[tile.file].path));
        }
        extents.emplace_back(tile.file, begin, end);
      }
    }
  }
  std::sort(extents.begin(), extents.end());
  for (size_t i = 1; i < extents.size(); ++i) {
    const auto& [file, begin, end] = extents[i];
    const auto& [file_before, begin_before, end_before] = extents[i - 1];
    if (file == file_before && begin < end_before) {
      return Broken(
          absl::StrCat("tiles overlap at byte ", begin, " of ", manifest.files[file].path));
    }
  }
  return absl::OkStatus();
}

absl::Status ReadTiles(const Json& body, Manifest* manifest) {
  const StateLayout& layout = manifest->layout;
  const Json* units = FindArray(body, "tiles");
  if (units == nullptr || units->size() != layout.num_units()) {
    return Broken("tiles do not match its units");
  }
  manifest->tiles.resize(units->size());
  for (int unit = 0; unit < layout.num_units(); ++unit) {
    const Json& tiles = (*units)[unit];
    // In 64 bits: a tile count from a file need not fit an int before this check.
    const uint64_t expected =
        (layout.PaddedParameters(unit) + layout.tile_parameters() - 1) / layout.tile_parameters();
    if (!tiles.is_array() || tiles.size() != expected) {
      return Broken(absl::StrCat("unit ", unit, " does not have ", expected, " tiles"));
    }
    manifest->tiles[unit].resize(tiles.size());
    const bool in_place = manifest->in_place.Has(unit);
    for (size_t t = 0; t < tiles.size(); ++t) {
      ManifestTile* const tile = &manifest->tiles[unit][t];
      if (!(in_place ? ReadKnownChecksum(tiles[t], tile)
                     : ReadTile(tiles[t], layout.NumPlanes(unit), tile))) {
        return Broken(absl::StrCat("tile ", t, " of unit ", unit, " is malformed"));
      }
    }
  }
  return CheckPlaces(*manifest);
}

absl::Status ReadBody(absl::string_view text, Manifest* manifest) {
  const auto shallow = [](int depth, Json::parse_event_t, Json&) { return depth <= kMaxDepth; };
  const Json body = Json::parse(text.begin(), text.end(), shallow, /*allow_exceptions=*/false);
  if (!body.is_object()) return Broken("body is not a JSON object");
  if (!body.contains("step") || !ReadUint(body["step"], UINT64_MAX, &manifest->step)) {
    return Broken("step is not a number");
  }
  if (!body.contains("engine_state") ||
      !ReadString(body["engine_state"], &manifest->engine_state)) {
    return Broken("engine_state is not a text");
  }
  RETURN_IF_ERROR(ReadLayout(body, &manifest->layout));
  RETURN_IF_ERROR(ReadFiles(body, &manifest->files));
  RETURN_IF_ERROR(ReadInPlace(body, manifest->layout, &manifest->in_place));
  return ReadTiles(body, manifest);
}

}  // namespace

bool IsBelow(absl::string_view path) {
  for (const absl::string_view part : absl::StrSplit(path, '/')) {
    if (part.empty() || part == "." || part == "..") return false;
  }
  return true;
}

absl::StatusOr<Manifest> DecodeManifest(absl::string_view text, absl::string_view name) {
  int version = 0;
  ASSIGN_OR_RETURN(absl::string_view body, CheckHeader(text, name, &version));
  Manifest manifest;
  absl::Status status = ReadBody(body, &manifest);
  if (status.ok() && version != VersionOf(manifest)) {
    status = Broken("version is not that of its contents");
  }
  if (!status.ok()) return Annotate(status, name);
  return manifest;
}

}  // namespace spillway
