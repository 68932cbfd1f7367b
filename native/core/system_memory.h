// What memory this process can have.
#pragma once

#include <cstdint>

namespace aegir {

// Bytes of the machine, swap included, or of the container's limit.
int64_t memoryLimit();
// Bytes of memory and swap that are free, or cached and can be dropped.
int64_t availableMemory();

}  // namespace aegir
