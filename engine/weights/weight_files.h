// Finds the files of a model's directory that have its weights, and those that cannot be read.
//
// A run may start from drawn values only if the directory has no weights. So a file that can
// contain weights and is not read is an error, by its kind and not by one known name: an extension
// of a format of weights or of an archive, or any large file that is not of a kind saved beside
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

// Searches in this order: model.safetensors or its index, pytorch_model.bin or its index, then a
// single file of torch.save of any other name. kNotFound means exactly: no file there can contain
// weights. kInvalidArgument names the file or folder that is not read, and the command that
// converts it or another remedy. Reads the first bytes of some files, and lists subfolders one
// level deep.
absl::StatusOr<WeightFiles> FindWeightFiles(const std::string& directory);

// Whether a file can contain weights, judged by its name alone.
bool CanHoldWeights(absl::string_view name);

// Describes the checkpoint of DeepSpeed or FSDP in a directory, with the command that converts it
// to weights; OK if there is none. Searches one folder deeper. kInvalidArgument.
absl::Status DescribeShardedCheckpoint(const std::string& directory);

}  // namespace spillway
