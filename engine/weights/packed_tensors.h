// Matrices of a model's files that bitsandbytes has quantised: a tensor of codes, and tensors of
// their scales (engine/numeric/packed_matrix.h).
//
//   nf4   W U8 [bytes, 1], W.absmax F32 [blocks], or U8 [blocks] with W.nested_absmax F32,
//   W.quant_map,
//         W.nested_quant_map, W.quant_state.bitsandbytes__nf4 (JSON)
//   int8  W I8 [out, in], and for W = M.weight M.SCB F32 [out], M.weight_format U8 []
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "engine/numeric/packed_matrix.h"
#include "engine/weights/safetensors_model.h"

namespace spillway {

class PackedTensors {
 public:
  // Finds those of `model`, which outlives the result. kInvalidArgument, naming the tensor, if one
  // is missing, misshapen, or of an unsupported kind (fp4, other block sizes, other tables).
  static absl::StatusOr<PackedTensors> Find(const SafetensorsModel* model);

  bool empty() const { return shapes_.empty(); }
  // The shape [out, in] of a tensor of codes; format kNone: not such a tensor.
  PackedShape shape(const std::string& tensor) const;
  // Whether it belongs to a tensor of codes.
  bool IsBeside(const std::string& tensor) const { return beside_.count(tensor) > 0; }

  // Reads the packed bytes, shape(tensor).bytes() of them.
  absl::Status Read(const std::string& tensor, char* out) const;

 private:
  explicit PackedTensors(const SafetensorsModel* model) : model_(model) {}
  absl::Status AddNf4(const std::string& name);
  absl::Status AddInt8(const SafetensorsTensor& tensor);
  // The tensor of that name. kInvalidArgument if it is missing, or not `elements` of `dtype`.
  absl::StatusOr<const SafetensorsTensor*> Expect(const std::string& name, const char* dtype,
                                                  uint64_t elements);
  absl::Status CheckTable(const std::string& name, const float* expected, uint64_t count);

  const SafetensorsModel* model_;
  std::map<std::string, PackedShape> shapes_;
  std::map<std::string, float> means_;  // means of nested scales
  std::set<std::string> beside_;
};

}  // namespace spillway
