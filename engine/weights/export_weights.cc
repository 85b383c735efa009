#include "engine/weights/export_weights.h"

#include <filesystem>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/weights/master_weights.h"
#include "engine/weights/safetensors_model_writer.h"
#include "io/base/status.h"
#include "io/own_files.h"

namespace spillway {

absl::Status ExportWeights(const StateSource& source, DType dtype, const std::string& directory,
                           uint64_t max_shard_bytes) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) return ErrnoStatus(error.value(), absl::StrCat("create ", directory));
  RemoveAtomicWriteLeftovers(directory);  // of an export that was killed
  std::vector<ExportTensor> tensors;
  for (const UnitDescription& unit : source.model.units) {
    for (const ParameterDescription& parameter : unit.parameters) {
      tensors.push_back({parameter.name, dtype,
                         std::vector<uint64_t>(parameter.shape.begin(), parameter.shape.end())});
    }
  }
  ASSIGN_OR_RETURN(auto writer,
                   SafetensorsModelWriter::Create(directory, tensors, max_shard_bytes));
  // The planes that hold the master: the weight, and the one behind it in 16-bit runs.
  const int planes = source.dtype == DType::kFloat32 ? 1 : 2;
  std::vector<float> values;
  RETURN_IF_ERROR(source.read(0, planes, [&](const TileView& tile) -> absl::Status {
    const UnitDescription& unit = source.model.units[tile.unit];
    for (const ParameterPiece& piece : PiecesOf(unit, tile.first_parameter, tile.parameters)) {
      values.resize(piece.count);
      LoadMaster(source.dtype, tile.planes, piece.offset, piece.count, values.data());
      RETURN_IF_ERROR(writer->AppendFp32(values.data(), piece.count));
    }
    return absl::OkStatus();
  }));
  return writer->Finish();
}

}  // namespace spillway
