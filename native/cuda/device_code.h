// Shared by the kernels: storage types, and where a sequence lies.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <type_traits>

#include "native/cuda/table.h"

namespace aegir::cuda {

__device__ inline float load(const float* from, int64_t at) { return from[at]; }
__device__ inline float load(const __nv_bfloat16* from, int64_t at) { return __bfloat162float(from[at]); }
__device__ inline void store(float* to, int64_t at, float value) { to[at] = value; }
__device__ inline void store(__nv_bfloat16* to, int64_t at, float value) { to[at] = __float2bfloat16(value); }

template <class Stored>
__device__ const Stored* as(const void* pointer) {
  return static_cast<const Stored*>(pointer);
}
template <class Stored>
__device__ Stored* as(void* pointer) {
  return static_cast<Stored*>(pointer);
}

struct Span {
  int64_t start, length;  // rows
};

__device__ inline int64_t clampTo(int64_t value, int64_t low, int64_t high) {
  return value < low ? low : value > high ? high : value;
}

__device__ inline Span spanOf(const Layout& layout, int64_t sequence) {
  if (layout.cuSeqlens == nullptr) {
    const int64_t length = layout.lengths == nullptr ? layout.tokens : layout.lengths[sequence];
    return {sequence * layout.tokens, clampTo(length, 0, layout.tokens)};
  }
  const int64_t start = clampTo(layout.cuSeqlens[sequence], 0, layout.tokens);
  return {start, clampTo(layout.cuSeqlens[sequence + 1], start, layout.tokens) - start};
}

// The sequence of a token: the last one that starts at or before it.
__device__ inline int64_t sequenceOf(const int64_t* cuSeqlens, int64_t sequences, int64_t token) {
  int64_t low = 0, high = sequences - 1;
  while (low < high) {
    const int64_t middle = (low + high + 1) / 2;
    if (cuSeqlens[middle] <= token) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

#ifndef AEGIR_CUDA_EMULATION
template <class Arguments>
void start(void (*kernel)(Arguments), unsigned blocks, unsigned threads, cudaStream_t stream,
           const std::remove_const_t<Arguments>& arguments) {
  kernel<<<blocks, threads, 0, stream>>>(arguments);
}
#endif

// launch(Stored{}) with the type that lies in memory.
template <class Launcher>
cudaError_t withStorage(Storage storage, const Launcher& launch) {
  if (storage == Storage::Bf16) {
    launch(__nv_bfloat16{});
  } else {
    launch(float{});
  }
  return cudaGetLastError();
}

}  // namespace aegir::cuda
