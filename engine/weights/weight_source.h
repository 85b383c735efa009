// Source of a run's first weights, read piece by piece so that a model is never whole in memory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "engine/numeric/packed_matrix.h"

namespace spillway {

// A parameter that is one contiguous, row-major tensor of a file.
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

  // Reads elements [first, first + count) of parameter `name`, row-major, as fp32. Names and shapes
  // have been checked before the first call.
  virtual absl::Status Read(const std::string& name, uint64_t first, uint64_t count,
                            float* out) = 0;

  // Whether the values are read from files, so that of several ranks with the same weights one
  // should read them for all. Otherwise each rank computes its own.
  virtual bool reads_files() const { return true; }

  // The place of a parameter's exact bytes, from which they may be read directly. None: they are
  // computed, come from somewhere else, or Read has to check them.
  virtual std::optional<StoredTensor> Stored(const std::string& name) const { return std::nullopt; }

  // The packed format of a matrix (kNone: not packed), and its `shape.bytes()` packed bytes. Read
  // returns the values of such a matrix, too.
  virtual PackedFormat packed(const std::string& name) const { return PackedFormat::kNone; }
  virtual absl::Status ReadPacked(const std::string& name, const PackedShape& shape, char* out) {
    return absl::UnimplementedError(name);
  }
};

}  // namespace spillway
