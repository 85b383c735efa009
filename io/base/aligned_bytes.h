// Memory for direct transfers.
#pragma once

#include <cstdint>
#include <memory>
#include <new>

namespace spillway {

inline constexpr std::align_val_t kAlignedBytesAlignment{4096};

struct AlignedBytesDeleter {
  void operator()(char* data) const { ::operator delete(data, kAlignedBytesAlignment); }
};
using AlignedBytes = std::unique_ptr<char, AlignedBytesDeleter>;

// Allocates `size_bytes` bytes, aligned to 4096. Throws std::bad_alloc, as any `new` does.
inline AlignedBytes NewAlignedBytes(uint64_t size_bytes) {
  return AlignedBytes(static_cast<char*>(::operator new(size_bytes, kAlignedBytesAlignment)));
}

}  // namespace spillway
