// CRC-32C (Castagnoli) for TensorBoard's records. Our own files use io/checksum.h instead.
#pragma once

#include <cstdint>

#include "absl/strings/string_view.h"

namespace spillway {

// Reflected, polynomial 0x1EDC6F41, initial value and final xor 0xFFFFFFFF (RFC 3720).
uint32_t Crc32c(absl::string_view bytes);

// The form in TFRecord files: rotated right by 15 and 0xA282EAD8 added, so that the CRC of bytes
// that contain a CRC is no special case.
uint32_t MaskedCrc32c(absl::string_view bytes);

}  // namespace spillway
