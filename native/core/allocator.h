// The CPU allocator of every tensor: freed blocks are kept by size class and handed out again. Without it,
// loops over megabyte tensors fragment the C heap until it takes gigabytes.
#pragma once

#include <cstdint>

namespace aegir {

struct AllocatorStats {
  int64_t reservedBytes;  // obtained from the system: in use and cached
  int64_t cachedBytes;    // kept for reuse
  int64_t hits;           // allocations served from the cache
  int64_t misses;
};

// Makes the caching allocator libtorch's CPU allocator, once a process. Blocks allocated before keep their
// own deleter.
void installCachingAllocator();
AllocatorStats allocatorStats();
// Returns cached blocks to the system.
void emptyAllocatorCache();

}  // namespace aegir
