// Control of the processors' caches. Any thread.
#pragma once

#include <cstdint>

namespace spillway {

// Flushes and evicts the cache lines of [data, data + bytes), so that the next read comes from
// memory. Does nothing on processors without a known instruction for it.
void EvictFromCaches(const void* data, uint64_t bytes);

}  // namespace spillway
