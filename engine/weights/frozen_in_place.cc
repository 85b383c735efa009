#include "engine/weights/frozen_in_place.h"

#include <map>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "engine/base/utf8.h"
#include "engine/model/packed_parameters.h"
#include "io/file_system.h"

namespace spillway {
namespace {

// The path as a manifest can store it, in UTF-8: "" if it cannot.
std::string ManifestPath(const std::string& path) {
  const std::string absolute = NormalPath(AbsolutePath(path).value_or(""));
  Utf8Decoder decoder;
  for (const char byte : absolute) {
    if (decoder.Next(static_cast<unsigned char>(byte)) == Utf8Decoder::Result::kInvalid) return "";
  }
  return decoder.complete() ? absolute : "";
}

// Finds the pieces of a stretch of a unit; none if a parameter is not a tensor of that dtype.
class UnitFinder {
 public:
  UnitFinder(DType dtype, const WeightSource& weights, const std::string& output, InPlaceUnits* out)
      : dtype_(dtype),
        weights_(weights),
        output_(output.empty() ? "" : FileSystem::Real().Resolve(output) + "/"),
        out_(*out) {}

  std::vector<FilePiece> Find(const UnitDescription& unit, uint64_t begin, uint64_t count) {
    std::vector<StoredTensor> tensors;
    for (const ParameterDescription& parameter : unit.parameters) {
      std::optional<StoredTensor> tensor = weights_.Stored(parameter.name);
      if (parameter.packing.any() || !tensor || tensor->dtype != dtype_ ||
          tensor->size_bytes != parameter.elements * DTypeBytes(dtype_) ||
          ManifestPath(tensor->file).empty() ||
          (!output_.empty() &&
           absl::StartsWith(FileSystem::Real().Resolve(tensor->file), output_))) {
        return {};
      }
      tensors.push_back(*std::move(tensor));
    }
    std::vector<FilePiece> pieces;
    for (const ParameterPiece& part : PiecesOf(unit, begin, count)) {
      const StoredTensor& tensor = tensors[part.parameter];
      FilePiece& piece = pieces.emplace_back();
      piece.file = FileOf(tensor);
      piece.file_offset = tensor.offset_bytes + part.first_element * DTypeBytes(dtype_);
      piece.size_bytes = part.count * DTypeBytes(dtype_);
      piece.unit_offset = part.offset * DTypeBytes(dtype_);
      piece.tensor = tensor.name;
    }
    return pieces;
  }

 private:
  uint32_t FileOf(const StoredTensor& tensor) {
    const auto [at, added] = files_.emplace(tensor.file, static_cast<uint32_t>(files_.size()));
    if (added) out_.files.push_back({ManifestPath(tensor.file), tensor.file_bytes});
    return at->second;
  }

  const DType dtype_;
  const WeightSource& weights_;
  const std::string output_;
  InPlaceUnits& out_;
  std::map<std::string, uint32_t> files_;
};

}  // namespace

FrozenWeights FindFrozenInPlace(const ModelDescription& model, const ShardGrid& grid, DType dtype,
                                const WeightSource& weights, const std::string& output) {
  FrozenWeights found;
  UnitFinder finder(dtype, weights, output, &found.in_place);
  found.in_place.units.resize(model.units.size());
  for (size_t i = 0; i < model.units.size(); ++i) {
    const UnitDescription& unit = model.units[i];
    if (!unit.frozen || unit.flat_parameters == 0) continue;
    const uint64_t begin = grid.ShardBegin(unit.flat_parameters);
    const uint64_t count = grid.ShardParameters(unit.flat_parameters);
    found.in_place.units[i] = finder.Find(unit, begin, count);
    if (!found.in_place.units[i].empty()) continue;
    for (const ParameterPiece& piece : PiecesOf(unit, begin, count)) {
      (HasPacked(unit) ? found.packed_bytes : found.copied_bytes) +=
          piece.count * DTypeBytes(dtype);
    }
  }
  return found;
}

InPlaceUnits OnlyUnits(const InPlaceUnits& in_place, const std::function<bool(int unit)>& keep) {
  InPlaceUnits kept = in_place;
  for (size_t unit = 0; unit < kept.units.size(); ++unit) {
    if (!keep(static_cast<int>(unit))) kept.units[unit].clear();
  }
  // A manifest names no files without units.
  if (!kept.any()) kept.files.clear();
  return kept;
}

}  // namespace spillway
