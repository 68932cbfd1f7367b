// WKV-7 in chunks of C = 16 tokens, what forward and backward share. In a chunk that begins with the state S
// (N,N), value rows x key columns, let P_t be the product of its decays up to token t, P_0 = 1, and
//   r'_t = P_t r_t,  a'_t = P_{t-1} a_t,  k'_t = k_t / P_t,  b'_t = b_t / P_t          (C,N), bf16
//   AB = a' b'^T, AK = a' k'^T, strictly lower;  RB = r' b'^T, RK = r' k'^T, lower     (C,C)
//   M = (I - AB)^-1
// Then, for u_t = S_{t-1} a_t,
//   U = M (a' S^T + AK V),  O = r' S^T + RK V + RB U,  S <- (S + U^T b' + V^T k') diag(P_C)
// which is the delta rule's form of Yang et al. (arXiv:2406.06484) with a decay for each key, as in gated
// linear attention (arXiv:2312.06635). All but M, which is found in f32, are products of 16x16 blocks.
//
// A warp has 16 value rows of the state; its vectors U, V lie as (values, tokens), so what it multiplies next
// is in its registers. P must be a normal number of f32: the model's decays, 0.545 and more, give P >= 6e-5.
#pragma once

#include "native/cuda/launch.h"
#include "native/cuda/tensor_core.h"
#include "native/cuda/wkv7_tiles.h"

namespace aegir::cuda {

static_assert(wkv7Chunk == blockSize, "a chunk is a block of rows");

constexpr int keyVectors = 4;
enum KeyVector { vectorR, vectorK, vectorA, vectorB };

// So that the compiler keeps to 128 registers a thread: 512 heads of 64 are then on 132 SMs at once.
template <int N>
constexpr int blocksPerSm = 256 / N;

// A block has a warp for each 16 value rows, 2 N threads. Each has two neighbouring columns of one of the key
// vectors, and of every fourth token of the value vectors.
template <int N>
__device__ int ownVector() {
  return threadIdx.x / (N / 2);
}
template <int N>
__device__ int ownColumn() {
  return threadIdx.x % (N / 2) * 2;
}

__device__ inline uint32_t wordAt(const void* from, int64_t at) {
  return *reinterpret_cast<const uint32_t*>(static_cast<const __nv_bfloat16*>(from) + at);
}
__device__ inline void setWord(void* to, int64_t at, uint32_t word) {
  *reinterpret_cast<uint32_t*>(static_cast<__nv_bfloat16*>(to) + at) = word;
}

// Of a normal number; an ulp off.
__device__ inline float reciprocal(float x) { return __fdividef(1.0f, x); }

// Asks for 128 bytes of global memory to be brought into the L2 cache.
__device__ inline void prefetchLine([[maybe_unused]] const void* from) {
#ifndef AEGIR_CUDA_EMULATION
  asm volatile("prefetch.L2 [%0];" ::"l"(from));
#endif
}

// A chunk's tokens in memory.
struct ChunkPlace {
  int64_t at;      // of the first token
  int64_t stride;  // between tokens
  int count;       // of tokens inside the sequence
};
__device__ inline ChunkPlace chunkPlace(const Head& head, int64_t index) {
  const int64_t first = index * wkv7Chunk;
  return {head.offset + first * head.stride, head.stride,
          static_cast<int>(min(head.span.length - first, wkv7Chunk))};
}

// A thread's words of a chunk, on their way from memory. Tokens past the sequence's end are neutral: decay 1,
// all else 0.
struct KeyWords {
  uint32_t decay[blockSize], vector[blockSize];
};
struct ValueWords {
  uint32_t x[blockSize / keyVectors];
};

template <int N, class Task>
__device__ void fetch(KeyWords& to, const Task& p, const ChunkPlace& place) {
  constexpr uint32_t ones = 0x3f803f80;
  const int own = ownVector<N>();
  const void* vector = own == vectorR ? p.r : own == vectorK ? p.k : own == vectorA ? p.a : p.b;
#pragma unroll
  for (int t = 0; t < blockSize; ++t) {
    const bool inside = t < place.count;
    const int64_t from = place.at + t * place.stride + ownColumn<N>();
    to.decay[t] = inside ? wordAt(p.decay, from) : ones;
    to.vector[t] = inside ? wordAt(vector, from) : 0;
  }
}

template <int N>
__device__ void fetch(ValueWords& to, const void* vector, const ChunkPlace& place) {
#pragma unroll
  for (int i = 0; i < blockSize / keyVectors; ++i) {
    const int t = keyVectors * i + ownVector<N>();
    to.x[i] = t < place.count ? wordAt(vector, place.at + t * place.stride + ownColumn<N>()) : 0;
  }
}

template <int N>
__device__ void put(Matrix<blockSize, N>& to, const ValueWords& words) {
#pragma unroll
  for (int i = 0; i < blockSize / keyVectors; ++i) {
    to.word(keyVectors * i + ownVector<N>(), ownColumn<N>()) = words.x[i];
  }
}

// Writes r', k', a', b'; products(t, column, pair) is given P of token t and two columns.
template <int N, class Products>
__device__ void putScaled(Matrix<blockSize, N> (&to)[keyVectors], const KeyWords& words,
                          const Products& products) {
  const int own = ownVector<N>(), column = ownColumn<N>();
  float2 product{1, 1};
#pragma unroll
  for (int t = 0; t < blockSize; ++t) {
    const float2 before = product, decay = unpack(words.decay[t]), x = unpack(words.vector[t]);
    product = {product.x * decay.x, product.y * decay.y};
    float2 factor = own == vectorA ? before : product;
    if (own == vectorK || own == vectorB) factor = {reciprocal(product.x), reciprocal(product.y)};
    to[own].word(t, column) = pack(x.x * factor.x, x.y * factor.y);
    if (own == vectorR) products(t, column, product);
  }
}

enum ChunkMatrix { matrixAB, matrixAK, matrixRB, matrixRK, chunkMatrices };

// Zeros on and above the diagonal (AB, AK), or above it (RB, RK).
__device__ inline void keepLower(Sums& sums, int matrix) {
  const int reach = matrix < matrixRB ? 1 : 0;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (columnOf(h, i) + reach > rowOf(i)) sums.x[h][i] = 0;
    }
  }
}

// The chunk's matrices; in the place of AB comes M - I. AB itself lies in f32, transposed: a column is read
// at a time.
using ChunkMatrices = Matrix<blockSize, blockSize>[chunkMatrices];
struct ChunkFloats {
  __align__(16) float x[blockSize][blockSize + 4];
};

// Each warp makes one matrix in turn.
template <int N>
__device__ void makeMatrices(ChunkMatrices& to, ChunkFloats& ab,
                             const Matrix<blockSize, N> (&scaled)[keyVectors]) {
  constexpr int warps = N / blockSize;
  for (int matrix = threadIdx.x / 32; matrix < chunkMatrices; matrix += warps) {
    const Matrix<blockSize, N>& rows = scaled[matrix < matrixRB ? vectorA : vectorR];
    const Matrix<blockSize, N>& columns = scaled[matrix % 2 == 0 ? vectorB : vectorK];
    Sums sums;
#pragma unroll
    for (int j = 0; j < N; j += blockSize) addProduct(sums, left(rows, 0, j), rightTransposed(columns, 0, j));
    keepLower(sums, matrix);
    if (matrix != matrixAB) {
      put(to[matrix], 0, 0, sums);
      continue;
    }
#pragma unroll
    for (int h = 0; h < 2; ++h) {
#pragma unroll
      for (int i = 0; i < 4; ++i) ab.x[columnOf(h, i)][rowOf(i)] = sums.x[h][i];
    }
  }
}

// M - I by forward substitution, a column for each of 16 threads.
__device__ inline void invert(Matrix<blockSize, blockSize>& inverse, const ChunkFloats& ab) {
  const int column = threadIdx.x;
  if (column >= blockSize) return;
  float m[blockSize];
#pragma unroll
  for (int t = 0; t < blockSize; ++t) m[t] = t == column ? 1.0f : 0.0f;
#pragma unroll
  for (int s = 0; s < blockSize; ++s) {
#pragma unroll
    for (int t = s + 1; t < blockSize; ++t) m[t] += ab.x[s][t] * m[s];
  }
#pragma unroll
  for (int t = 0; t < blockSize; ++t) {
    inverse.x[t * inverse.stride + column] = __float2bfloat16(t == column ? 0.0f : m[t]);
  }
}

// A block of a state in memory, (N,N) of f32.
template <int N>
__device__ void loadBlock(Sums& to, const float* state, int row, int column) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
#pragma unroll
    for (int i = 0; i < 4; i += 2) {
      const int64_t at = (row + rowOf(i)) * N + column + columnOf(h, 0);
      const float2 pair = *reinterpret_cast<const float2*>(state + at);
      to.x[h][i] = pair.x;
      to.x[h][i + 1] = pair.y;
    }
  }
}
template <int N>
__device__ void storeBlock(const Sums& from, float* state, int row, int column) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
#pragma unroll
    for (int i = 0; i < 4; i += 2) {
      const int64_t at = (row + rowOf(i)) * N + column + columnOf(h, 0);
      *reinterpret_cast<float2*>(state + at) = {from.x[h][i], from.x[h][i + 1]};
    }
  }
}

// A warp's 16 rows of a state.
template <int N>
__device__ void loadRows(Sums (&to)[N / blockSize], const float* state, int row) {
#pragma unroll
  for (int j = 0; j < N / blockSize; ++j) loadBlock<N>(to[j], state, row, j * blockSize);
}
template <int N>
__device__ void storeRows(const Sums (&from)[N / blockSize], float* state, int row) {
#pragma unroll
  for (int j = 0; j < N / blockSize; ++j) storeBlock<N>(from[j], state, row, j * blockSize);
}

// A block of (tokens, N) into a token tensor, whose rows past the sequence's end are not written.
__device__ inline void storeTokens(const Sums& from, void* to, const ChunkPlace& place, int column) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
#pragma unroll
    for (int i = 0; i < 4; i += 2) {
      if (rowOf(i) >= place.count) continue;
      setWord(to, place.at + rowOf(i) * place.stride + column + columnOf(h, 0),
              pack(from.x[h][i], from.x[h][i + 1]));
    }
  }
}

// Columns times P_C.
__device__ inline void scaleColumns(Sums& sums, const float* products, int column) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
#pragma unroll
    for (int i = 0; i < 4; ++i) sums.x[h][i] *= products[column + columnOf(h, i)];
  }
}

// Starts the kernel for the task's head size, 32 or 64: a block per sequence and head.
template <class Task>
cudaError_t startChunked(void (*of32)(Task), void (*of64)(Task), const Task& p, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(p.layout.sequences * p.heads);
  const auto threads = static_cast<unsigned>(2 * p.headSize);
  start(p.headSize == 32 ? of32 : of64, blocks, threads, stream, p);
  return cudaGetLastError();
}

}  // namespace aegir::cuda
