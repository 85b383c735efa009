// Finds the tensors of a state dict in the files that torch.save writes (.bin, .pt, .pth).
//
// Both formats are supported: a zip archive (since PyTorch 1.6), and the older one. Tensors are
// stored little-endian and uncompressed, so their data is read like that of safetensors. The pickle
// is read as data (engine/weights/pickle.h): none of its code is run.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/weights/safetensors_header.h"

namespace spillway {

// Whether a file that begins with these 8 bytes may be one of torch.save.
bool BeginsAsTorchFile(absl::string_view begin);

// The tensors of the file that `fd` reads, in the order of their data; `path` names it in messages.
// The file's value is a dict from names to tensors, or a dict that has one under "state_dict",
// "model_state_dict", "model" or "module"; a "module." or "_orig_mod." before every name is
// removed. Tensors that share their data have the same offset. kDataLoss if the format is broken.
// kInvalidArgument, with the remedy, for other content of torch.save: objects, TorchScript, tensors
// that are strided or sparse. Any thread.
absl::StatusOr<SafetensorsHeader> ReadTorchFileHeader(int fd, const std::string& path,
                                                      uint64_t file_size_bytes);

}  // namespace spillway
