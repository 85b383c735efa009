#include "engine/weights/export_weights.h"

#include <vector>

#include "engine/weights/master_weights.h"
#include "engine/weights/safetensors_model_writer.h"
#include "io/base/status.h"

namespace spillway {

absl::Status ReadValues(const StateSource& source,
                        const std::function<absl::Status(const std::string& name, uint64_t first,
                                                         std::vector<float>& values)>& visit) {
  // The planes that hold the master: the weight, and the one behind it in 16-bit runs.
  const int planes = source.dtype == DType::kFloat32 ? 1 : 2;
  std::vector<float> values;
  return source.read(0, planes, [&](const TileView& tile) -> absl::Status {
    const UnitDescription& unit = source.model.units[tile.unit];
    for (const ParameterPiece& piece : PiecesOf(unit, tile.first_parameter, tile.parameters)) {
      values.resize(piece.count);
      LoadMaster(source.dtype, tile.planes, piece.offset, piece.count, values.data());
      RETURN_IF_ERROR(visit(unit.parameters[piece.parameter].name, piece.first_element, values));
    }
    return absl::OkStatus();
  });
}

absl::Status ExportWeights(const StateSource& source, const ExportOptions& options,
                           const std::string& directory, FileSystem& files) {
  RETURN_IF_ERROR(CreateDirectories(files, directory));
  RETURN_IF_ERROR(RemoveAtomicWriteLeftovers(files, directory));  // of an export that was killed
  std::vector<ExportTensor> tensors;
  for (const UnitDescription& unit : source.model.units) {
    for (const ParameterDescription& parameter : unit.parameters) {
      if (options.leave_out && options.leave_out(parameter.name)) continue;
      tensors.push_back({parameter.name, options.dtype,
                         std::vector<uint64_t>(parameter.shape.begin(), parameter.shape.end())});
    }
  }
  for (const StateBuffer& buffer : source.buffers) {
    tensors.push_back({buffer.name, DType::kFloat32, {buffer.shape.begin(), buffer.shape.end()}});
  }
  for (ExportTensor& tensor : tensors) {
    const auto place = options.places.find(tensor.name);
    if (place == options.places.end()) continue;
    tensor.file = place->second.file;
    tensor.dtype = place->second.dtype.value_or(tensor.dtype);
  }
  ASSIGN_OR_RETURN(auto writer, SafetensorsModelWriter::Create(directory, tensors,
                                                               options.max_shard_bytes, files));
  RETURN_IF_ERROR(ReadValues(
      source,
      [&](const std::string& name, uint64_t first, std::vector<float>& values) -> absl::Status {
        if (options.leave_out && options.leave_out(name)) return absl::OkStatus();
        if (options.change) options.change(name, first, values);
        return writer->AppendFp32(values.data(), values.size());
      }));
  for (const StateBuffer& buffer : source.buffers) {
    RETURN_IF_ERROR(writer->AppendFp32(buffer.values.data(), buffer.values.size()));
  }
  return writer->Finish();
}

}  // namespace spillway
