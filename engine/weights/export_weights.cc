#include "engine/weights/export_weights.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>
#include <vector>

#include "engine/model/packed_parameters.h"
#include "engine/weights/master_weights.h"
#include "engine/weights/safetensors_model_writer.h"
#include "engine/weights/safetensors_writer.h"
#include "io/base/status.h"

namespace spillway {
namespace {

using VisitValues = std::function<absl::Status(const std::string& name, uint64_t first,
                                               std::vector<float>& values)>;

constexpr uint64_t kUnpackedAtOnce = 1 << 18;  // 1 MiB in fp32

// Collects the pieces of one packed matrix at a time, and passes its values on when all pieces are
// there.
class PackedPieces {
 public:
  explicit PackedPieces(const VisitValues& visit) : visit_(visit) {}

  // `words`: of the piece.
  absl::Status Add(const ParameterDescription& parameter, const ParameterPiece& piece,
                   const char* words) {
    const uint32_t word_bytes = parameter.packing.word_bytes;
    bytes_.resize(parameter.words * word_bytes);
    std::memcpy(bytes_.data() + piece.first_element * word_bytes, words, piece.count * word_bytes);
    if (piece.first_element + piece.count < parameter.words) return absl::OkStatus();
    // Unpacks whole rows, which may be packed as columns.
    const auto columns = static_cast<uint64_t>(parameter.shape[1]);
    const uint64_t most = std::max<uint64_t>(1, kUnpackedAtOnce / columns) * columns;
    for (uint64_t first = 0; first < parameter.elements; first += most) {
      values_.resize(std::min(most, parameter.elements - first));
      UnpackElements(parameter, bytes_.data(), first, values_.size(), values_.data());
      RETURN_IF_ERROR(visit_(parameter.name, first, values_));
    }
    return absl::OkStatus();
  }

 private:
  const VisitValues& visit_;
  std::vector<char> bytes_;
  std::vector<float> values_;
};

constexpr char kZeros[] = "";  // no parameter has this name

// The tensors that one pass over the state writes: each parameter once, in the state's order, then
// zeros.
using TensorsOnce = std::vector<std::pair<std::string, ExportTensor>>;

// The first pass has every parameter and buffer; later ones repeat those that are several tensors.
std::vector<TensorsOnce> PassesOf(const StateSource& source, const ExportOptions& options) {
  std::vector<TensorsOnce> passes(1);
  const auto add = [&](const std::string& name, const ExportTensor& tensor) {
    const auto found = options.layout.places.find(name);
    if (found == options.layout.places.end()) {
      passes[0].emplace_back(name, tensor);
      return;
    }
    for (size_t i = 0; i < found->second.size(); ++i) {
      const TensorPlace& place = found->second[i];
      if (i == passes.size()) passes.emplace_back();
      ExportTensor& placed = passes[i].emplace_back(name, tensor).second;
      placed.name = place.name;
      placed.file = place.file;
      placed.dtype = place.dtype.value_or(tensor.dtype);
    }
  };
  for (const UnitDescription& unit : source.model.units) {
    for (const ParameterDescription& parameter : unit.parameters) {
      if (options.leave_out && options.leave_out(parameter.name)) continue;
      add(parameter.name, {parameter.name, options.dtype,
                           std::vector<uint64_t>(parameter.shape.begin(), parameter.shape.end())});
    }
  }
  for (const StateBuffer& buffer : source.buffers) {
    if (options.leave_out && options.leave_out(buffer.name)) continue;
    add(buffer.name, {.name = buffer.name,
                      .shape = {buffer.shape.begin(), buffer.shape.end()},
                      .whole = buffer.whole});
  }
  for (const ExportTensor& zeros : options.layout.zeros) passes[0].emplace_back(kZeros, zeros);
  return passes;
}

template <typename Writer>
absl::Status WriteOnce(const StateSource& source, const ExportOptions& options,
                       const TensorsOnce& tensors, Writer& writer) {
  std::set<std::string> wanted;
  for (const auto& [name, tensor] : tensors) wanted.insert(name);
  uint64_t left = 0;  // elements of parameters; at 0 no more is read
  for (const auto& [name, tensor] : tensors) left += name == kZeros ? 0 : tensor.elements();
  for (const StateBuffer& buffer : source.buffers) {
    if (wanted.contains(buffer.name)) left -= buffer.values.size();
  }
  const absl::Status read = ReadValues(
      source,
      [&](const std::string& name, uint64_t first, std::vector<float>& values) -> absl::Status {
        if (left == 0) return absl::CancelledError("none is to be read");
        if (!wanted.contains(name)) return absl::OkStatus();
        if (options.change) RETURN_IF_ERROR(options.change(name, first, values));
        RETURN_IF_ERROR(writer.AppendFp32(values.data(), values.size()));
        left -= values.size();
        return left == 0 ? absl::CancelledError("all are there") : absl::OkStatus();
      });
  if (left > 0 || !absl::IsCancelled(read)) RETURN_IF_ERROR(read);
  for (const StateBuffer& buffer : source.buffers) {
    if (!wanted.contains(buffer.name)) continue;
    RETURN_IF_ERROR(writer.AppendFp32(buffer.values.data(), buffer.values.size()));
  }
  for (const auto& [name, tensor] : tensors) {
    if (name != kZeros) continue;
    const std::vector<float> zeros(tensor.elements());
    RETURN_IF_ERROR(writer.AppendFp32(zeros.data(), zeros.size()));
  }
  return absl::OkStatus();
}

std::vector<ExportTensor> TensorsOf(const std::vector<TensorsOnce>& passes) {
  std::vector<ExportTensor> tensors;
  for (const TensorsOnce& pass : passes) {
    for (const auto& [parameter, tensor] : pass) tensors.push_back(tensor);
  }
  return tensors;
}

template <typename Writer>
absl::Status WritePasses(const StateSource& source, const ExportOptions& options,
                         const std::vector<TensorsOnce>& passes, Writer& writer) {
  for (const TensorsOnce& pass : passes) RETURN_IF_ERROR(WriteOnce(source, options, pass, writer));
  return writer.Finish();
}

}  // namespace

absl::Status ReadValues(const StateSource& source,
                        const std::function<absl::Status(const std::string& name, uint64_t first,
                                                         std::vector<float>& values)>& visit) {
  const int planes = source.layout.MasterPlanes();
  const WeightFormat format = MasterFormat(source.layout, source.dtype);
  std::vector<float> values;
  PackedPieces packed(visit);
  return source.read(0, planes, [&](const TileView& tile) -> absl::Status {
    const UnitDescription& unit = source.model.units[tile.unit];
    char* const master[] = {tile.planes[0], planes == 2 ? tile.planes[1] : nullptr};
    for (const ParameterPiece& piece : PiecesOf(unit, tile.first_parameter, tile.parameters)) {
      const ParameterDescription& parameter = unit.parameters[piece.parameter];
      if (parameter.packing.any()) {
        RETURN_IF_ERROR(packed.Add(parameter, piece,
                                   tile.planes[0] + piece.offset * parameter.packing.word_bytes));
        continue;
      }
      values.resize(piece.count);
      LoadMaster(format, master, piece.offset, piece.count, values.data());
      RETURN_IF_ERROR(visit(parameter.name, piece.first_element, values));
    }
    return absl::OkStatus();
  });
}

absl::Status ExportWeights(const StateSource& source, const ExportOptions& options,
                           const std::string& directory, FileSystem& files) {
  RETURN_IF_ERROR(CreateDirectories(files, directory, FileAccess::kShared));
  RETURN_IF_ERROR(RemoveAtomicWriteLeftovers(files, directory));  // of an export that was killed
  const std::vector<TensorsOnce> passes = PassesOf(source, options);
  ASSIGN_OR_RETURN(auto writer, SafetensorsModelWriter::Create(directory, TensorsOf(passes),
                                                               options.max_shard_bytes,
                                                               options.layout.metadata, files));
  return WritePasses(source, options, passes, *writer);
}

absl::Status ExportWeightsFile(const StateSource& source, const ExportOptions& options,
                               const std::string& path, FileSystem& files) {
  const std::vector<TensorsOnce> passes = PassesOf(source, options);
  ASSIGN_OR_RETURN(auto writer, SafetensorsWriter::Create(path, TensorsOf(passes), {}, files));
  return WritePasses(source, options, passes, *writer);
}

}  // namespace spillway
