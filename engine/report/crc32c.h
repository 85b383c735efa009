// CRC-32C (Castagnoli), as TensorBoard's records use it. Not what guards our own bytes: that
// is io/checksum.h.
#pragma once

#include <cstdint>

#include "absl/strings/string_view.h"

namespace spillway {

// Reflected, polynomial 0x1EDC6F41, initial value and final xor 0xFFFFFFFF (RFC 3720).
uint32_t Crc32c(absl::string_view bytes);

// As TFRecord files store it: rotated right by 15 and 0xA282EAD8 added, so that the CRC of
// bytes that hold a CRC is no special case.
uint32_t MaskedCrc32c(absl::string_view bytes);

}  // namespace spillway
