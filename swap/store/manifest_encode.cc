// EncodeManifest. The body is put together by hand: a line for each tile keeps it
// readable, and six thousand tiles cost no tree of objects.
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "io/base/check.h"
#include "io/checksum.h"
#include "nlohmann/json.hpp"
#include "swap/store/manifest.h"

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

std::string EncodeBody(const Manifest& manifest) {
  const StateLayout& layout = manifest.layout;
  std::string body = absl::StrCat(
      "{\"step\":", manifest.step, ",\n\"engine_state\":", Quoted(manifest.engine_state),
      ",\n\"tile_parameters\":", layout.tile_parameters(),
      ",\n\"gradient_bytes_per_parameter\":", layout.gradient_bytes_per_parameter(),
      ",\n\"planes\":[");
  absl::string_view comma = "";
  for (const PlaneSpec& spec : layout.planes()) {
    absl::StrAppend(&body, comma, "[", static_cast<int>(spec.plane), ",", spec.bytes_per_parameter,
                    "]");
    comma = ",";
  }
  body.append("],\n\"units\":[");
  comma = "";
  for (const UnitLayout& unit : layout.units()) {
    absl::StrAppend(&body, comma, "[", Quoted(unit.name), ",", unit.parameters, "]");
    comma = ",\n";
  }
  body.append("],\n\"files\":[");
  comma = "";
  for (const ManifestFile& file : manifest.files) {
    absl::StrAppend(&body, comma, "[", Quoted(file.path), ",", file.size_bytes, "]");
    comma = ",\n";
  }
  body.append("],\n\"tiles\":[");
  SPILLWAY_CHECK(manifest.tiles.size() == layout.num_units());
  for (int unit = 0; unit < layout.num_units(); ++unit) {
    SPILLWAY_CHECK(manifest.tiles[unit].size() == layout.NumTiles(unit));
    body.append(unit == 0 ? "\n[" : ",\n[");
    comma = "";
    for (const ManifestTile& tile : manifest.tiles[unit]) {
      body.append(comma.data(), comma.size());
      AppendTile(tile, layout.num_planes(), &body);
      comma = ",\n";
    }
    body.append("]");
  }
  body.append("]}\n");
  return body;
}

}  // namespace

absl::StatusOr<std::string> EncodeManifest(const Manifest& manifest) {
  std::string body;
  try {
    body = EncodeBody(manifest);
  } catch (const nlohmann::json::exception& error) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a manifest holds UTF-8 only; a unit's name, a path or the engine's state is not (",
        error.what(), ")"));
  }
  return absl::StrCat("spillway-manifest ", kManifestVersion, " ",
                      absl::Hex(Checksum(body.data(), body.size()), absl::kZeroPad16), " ",
                      body.size(), "\n", body);
}

}  // namespace spillway
