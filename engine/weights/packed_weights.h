// First weights of which some matrices are to be packed: each is read and packed once, as its words
// are asked for, and never whole in fp32.
#pragma once

#include <map>
#include <string>

#include "absl/status/status.h"
#include "engine/model/model_description.h"
#include "engine/weights/packed_cache.h"
#include "engine/weights/weight_source.h"

namespace spillway {

// Any thread, as far as `source` is for it.
class PackedWeights final : public WeightSource {
 public:
  // Both outlive it.
  PackedWeights(WeightSource* source, const ModelDescription& model);

  // Of a packed parameter its words [first, first + count): each float has the bits of one, the
  // high ones zero where words are of 16 bits. kInvalidArgument where a value is not finite.
  absl::Status Read(const std::string& name, uint64_t first, uint64_t count, float* out) override;
  bool reads_files() const override { return source_->reads_files(); }
  std::optional<StoredTensor> Stored(const std::string& name) const override;

 private:
  absl::Status Pack(const ParameterDescription& parameter, PackedCache::Bytes* bytes);
  // Rows [row, row + rows) of what is packed, which may be columns of what is read.
  absl::Status ReadRows(const ParameterDescription& parameter, int64_t row, int64_t rows,
                        float* out);

  WeightSource* const source_;
  std::map<std::string, const ParameterDescription*> parameters_;  // that are packed
  PackedCache cache_;
};

}  // namespace spillway
