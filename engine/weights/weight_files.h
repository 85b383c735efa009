// Which files of a model's directory have its weights, and which of them are not read.
//
// A run may start from drawn values only in a directory without weights. So a file that can hold
// weights and is not read is an error here, by its kind and not by one known name: an extension of
// a format of weights or of an archive, or any large file that is none of the kinds that lie beside
// weights (JSON, text, code, pictures, vocabularies).
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace spillway {

struct WeightFiles {
  std::string file;   // the path of the single file; "": there is an index
  std::string index;  // the path of the index of files in the same directory
};

// In this order: model.safetensors or its index, pytorch_model.bin or its index, then a single file
// of torch.save of any other name. kNotFound means exactly: no file there can hold weights.
// kInvalidArgument names the file or folder that is not read, with the command that converts it or
// what else to do. Reads the first bytes of some files, and lists subfolders one level deep.
absl::StatusOr<WeightFiles> FindWeightFiles(const std::string& directory);

// Whether a file of this name can hold weights, to judge from the name alone.
bool CanHoldWeights(absl::string_view name);

// What DeepSpeed's or FSDP's checkpoint in a directory is, with the command that makes weights of
// it; OK if there is none. It looks one folder deeper. kInvalidArgument.
absl::Status DescribeShardedCheckpoint(const std::string& directory);

}  // namespace spillway
