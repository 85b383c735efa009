// Where a run's first weights come from, read piece by piece so that a model is
// never whole in memory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "engine/numeric/packed_matrix.h"

namespace spillway {

// A parameter that is one tensor of a file, row-major and side by side.
struct StoredTensor {
  std::string file = {};
  uint64_t file_bytes = 0;
  std::string name = {};  // in the file
  DType dtype = DType::kFloat32;
  uint64_t offset_bytes = 0;
  uint64_t size_bytes = 0;
};

class WeightSource {
 public:
  virtual ~WeightSource() = default;

  // Elements [first, first + count) of parameter `name`, row-major, as fp32.
  // Names and shapes have been checked before the first call.
  virtual absl::Status Read(const std::string& name, uint64_t first, uint64_t count,
                            float* out) = 0;

  // Whether they are read from somewhere, so that of several ranks with the same weights one
  // should do it for all. Otherwise each makes its own.
  virtual bool reads_files() const { return true; }

  // Where a parameter's very bytes lie: who needs them as they are may read them there. None: they
  // are made, come from somewhere else, or have to be looked at by Read.
  virtual std::optional<StoredTensor> Stored(const std::string& name) const { return std::nullopt; }

  // How a matrix is packed there (kNone: it is not), and those bytes, of which there are
  // `shape.bytes()`. Read gives such a matrix's values all the same.
  virtual PackedFormat packed(const std::string& name) const { return PackedFormat::kNone; }
  virtual absl::Status ReadPacked(const std::string& name, const PackedShape& shape, char* out) {
    return absl::UnimplementedError(name);
  }
};

}  // namespace spillway
