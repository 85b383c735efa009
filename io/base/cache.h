// What the processors' caches hold. Any thread.
#pragma once

#include <cstdint>

namespace spillway {

// Writes what caches have of [data, data + bytes) back and forgets it: who reads it next waits for
// memory. Nothing happens where a processor is not known to offer that.
void EvictFromCaches(const void* data, uint64_t bytes);

}  // namespace spillway
