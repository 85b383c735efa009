// First weights of a run that packs some matrices: each is read and packed once, as its words are
// read, and is never whole in fp32.
#pragma once

#include <map>
#include <string>

#include "absl/status/status.h"
#include "engine/model/model_description.h"
#include "engine/weights/packed_cache.h"
#include "engine/weights/weight_source.h"

namespace spillway {

// Any thread, if `source` allows that.
class PackedWeights final : public WeightSource {
 public:
  // Both outlive the object.
  PackedWeights(WeightSource* source, const ModelDescription& model);

  // For a packed parameter, reads its words [first, first + count): each float has the bits of one
  // word, with the high bits zero if words have 16 bits. kInvalidArgument if a value is not finite.
  absl::Status Read(const std::string& name, uint64_t first, uint64_t count, float* out) override;
  bool reads_files() const override { return source_->reads_files(); }
  std::optional<StoredTensor> Stored(const std::string& name) const override;

 private:
  absl::Status Pack(const ParameterDescription& parameter, PackedCache::Bytes* bytes);
  // Reads rows [row, row + rows) of the packed matrix, which may be columns of the source.
  absl::Status ReadRows(const ParameterDescription& parameter, int64_t row, int64_t rows,
                        float* out);

  WeightSource* const source_;
  std::map<std::string, const ParameterDescription*> parameters_;  // the packed ones
  PackedCache cache_;
};

}  // namespace spillway
