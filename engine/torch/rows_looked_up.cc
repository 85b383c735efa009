#include "engine/torch/rows_looked_up.h"

namespace spillway {

int LookedUp(const Model& model, const ModelDescription& description) {
  const UnitDescription& unit = description.units[0];
  return unit.frozen || !unit.places.empty() ? -1 : model.units[0]->looks_up();
}

FirstRead TilesLookedUp(const ModelDescription& description, int looked_up,
                        const StateLayout& layout, const std::vector<MicroBatch>& micro_batches) {
  std::vector<bool> read(layout.NumTiles(0));
  const auto note = [&](uint64_t first, uint64_t count) {
    const uint64_t end = (first + count + layout.tile_parameters() - 1) / layout.tile_parameters();
    for (uint64_t tile = first / layout.tile_parameters(); tile < end; ++tile) read[tile] = true;
  };
  const std::vector<ParameterDescription>& parameters = description.units[0].parameters;
  for (int i = 0; i < parameters.size(); ++i) {
    if (i != looked_up) note(parameters[i].offset, parameters[i].words);
  }
  const ParameterDescription& matrix = parameters[looked_up];
  const int64_t rows = matrix.shape[0], width = matrix.elements / rows;
  for (const MicroBatch& micro : micro_batches) {
    const torch::Tensor ids = micro.inputs[0].to(torch::kCPU, torch::kInt64).contiguous();
    for (int64_t i = 0; i < ids.numel(); ++i) {
      const int64_t row = ids.const_data_ptr<int64_t>()[i];
      if (row >= 0 && row < rows) note(matrix.offset + row * width, width);
    }
  }
  FirstRead first_read = {0, {}};
  for (int tile = 0; tile < read.size(); ++tile) {
    if (read[tile]) first_read.tiles.push_back(tile);
  }
  return first_read;
}

}  // namespace spillway
