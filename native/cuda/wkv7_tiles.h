// What the WKV-7 kernels share: a thread's row of N values, its way to and from memory, dot products.
#pragma once

#include "native/cuda/device_code.h"

namespace aegir::cuda {

// Tokens whose vectors lie in shared memory at a time.
constexpr int stagedTokens = 8;
// Columns that pass through shared memory at a time, and one word against bank conflicts.
constexpr int tileColumns = 16;
constexpr int tileStride = tileColumns + 1;

// Thread i gets row i of (N,N); neighbouring threads read neighbouring words. tile: N * tileStride.
template <int N>
__device__ void loadRows(float (&row)[N], const float* from, float* tile) {
#pragma unroll
  for (int first = 0; first < N; first += tileColumns) {
    __syncthreads();
    for (int e = threadIdx.x; e < N * tileColumns; e += N) {
      const int i = e / tileColumns, j = e % tileColumns;
      tile[i * tileStride + j] = from[i * N + first + j];
    }
    __syncthreads();
#pragma unroll
    for (int j = 0; j < tileColumns; ++j) row[first + j] = tile[threadIdx.x * tileStride + j];
  }
}

template <int N>
__device__ void storeRows(const float (&row)[N], float* to, float* tile) {
#pragma unroll
  for (int first = 0; first < N; first += tileColumns) {
    __syncthreads();
#pragma unroll
    for (int j = 0; j < tileColumns; ++j) tile[threadIdx.x * tileStride + j] = row[first + j];
    __syncthreads();
    for (int e = threadIdx.x; e < N * tileColumns; e += N) {
      const int i = e / tileColumns, j = e % tileColumns;
      to[i * N + first + j] = tile[i * tileStride + j];
    }
  }
}

__device__ inline float4 fourOf(const float* vector, int j) {
  return *reinterpret_cast<const float4*>(vector + j);
}

// Four sums, so that the additions need not wait for one another.
struct Sum {
  float x = 0, y = 0, z = 0, w = 0;
  __device__ float total() const { return (x + y) + (z + w); }
};

template <int N>
__device__ float dot(const float (&row)[N], const float* vector) {
  Sum sum;
#pragma unroll
  for (int j = 0; j < N; j += 4) {
    const float4 u = fourOf(vector, j);
    sum.x += row[j] * u.x;
    sum.y += row[j + 1] * u.y;
    sum.z += row[j + 2] * u.z;
    sum.w += row[j + 3] * u.w;
  }
  return sum.total();
}

// The head of a block, and where its tokens and states lie.
struct Head {
  Span span;
  int64_t stride;      // between tokens
  int64_t offset;      // of the first token
  int64_t state;       // of (S,H,N,N)
  int64_t checkpoint;  // of the first checkpoint; the next lies H * N * N further
};

__device__ inline Head headOfBlock(const Layout& layout, int64_t heads, int64_t n) {
  const int64_t sequence = blockIdx.x / heads, head = blockIdx.x % heads;
  const Span span = spanOf(layout, sequence);
  const int64_t chunk = span.start / wkv7Chunk + sequence;
  return {span, heads * n, (span.start * heads + head) * n, (sequence * heads + head) * n * n,
          (chunk * heads + head) * n * n};
}

}  // namespace aegir::cuda
