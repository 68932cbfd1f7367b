// The forward pass of WKV-7 in chunks (wkv7_chunked.h). One block per sequence and head.
#include "native/cuda/wkv7_chunked.h"

namespace aegir::cuda {
namespace {

template <int N>
struct Chunk {
  Matrix<blockSize, N> scaled[keyVectors], v;
  ChunkMatrices matrices;
  ChunkFloats ab;
  float product[N];  // P_C
};

// What one warp does with a chunk that lies in shared memory: its 16 value rows of outputs and state.
template <int N>
__device__ void advance(Sums (&state)[N / blockSize], Chunk<N>& chunk, Sums& output) {
  const int value = threadIdx.x / 32 * blockSize;
  const Left v = leftTransposed(chunk.v, 0, value);  // (values, tokens), as u below
  makeMatrices<N>(chunk.matrices, chunk.ab, chunk.scaled);
  Sums sums;
#pragma unroll
  for (int j = 0; j < N / blockSize; ++j) {
    const Left s = rounded(state[j]);
    addProduct(sums, s, rightTransposed(chunk.scaled[vectorA], 0, j * blockSize));
    addProduct(output, left(chunk.scaled[vectorR], 0, j * blockSize), transpose(s));
  }
  __syncthreads();
  if (threadIdx.x < 32) invert(chunk.matrices[matrixAB], chunk.ab);
  addProduct(sums, v, rightTransposed(chunk.matrices[matrixAK], 0, 0));
  addProduct(output, left(chunk.matrices[matrixRK], 0, 0), transpose(v));
  __syncthreads();
  const Left before = rounded(sums);
  addProduct(sums, before, rightTransposed(chunk.matrices[matrixAB], 0, 0));
  const Left u = rounded(sums);
  addProduct(output, left(chunk.matrices[matrixRB], 0, 0), transpose(u));
#pragma unroll
  for (int j = 0; j < N / blockSize; ++j) {
    addProduct(state[j], u, right(chunk.scaled[vectorB], 0, j * blockSize));
    addProduct(state[j], v, right(chunk.scaled[vectorK], 0, j * blockSize));
    scaleColumns(state[j], chunk.product, j * blockSize);
  }
}

template <int N>
__global__ void __launch_bounds__(2 * N, blocksPerSm<N>) chunkedForward(const Wkv7Forward p) {
  __shared__ Chunk<N> chunk;
  const Head head = headOfBlock(p.layout, p.heads, N);
  const int value = threadIdx.x / 32 * blockSize;
  Sums state[N / blockSize];
  if (p.initialState != nullptr) loadRows<N>(state, p.initialState + head.state, value);
  const int64_t chunks = (head.span.length + wkv7Chunk - 1) / wkv7Chunk;
  KeyWords keys;
  ValueWords values;
  const auto fetchChunk = [&](int64_t index) {
    const ChunkPlace place = chunkPlace(head, index);
    fetch<N>(keys, p, place);
    fetch<N>(values, p.v, place);
  };
  if (chunks > 0) fetchChunk(0);
  for (int64_t index = 0; index < chunks; ++index) {
    __syncthreads();
    putScaled<N>(chunk.scaled, keys, [&](int t, int column, float2 product) {
      if (t < blockSize - 1) return;
      chunk.product[column] = product.x;
      chunk.product[column + 1] = product.y;
    });
    put(chunk.v, values);
    __syncthreads();
    if (index + 1 < chunks) fetchChunk(index + 1);
    if (p.checkpoints != nullptr)
      storeRows<N>(state, p.checkpoints + head.checkpoint + index * p.heads * N * N, value);
    Sums output;
    advance<N>(state, chunk, output);
    storeTokens(output, p.output, chunkPlace(head, index), value);
  }
  storeRows<N>(state, p.finalState + head.state, value);
}

}  // namespace

cudaError_t launchChunked(const Wkv7Forward& p, cudaStream_t stream) {
  return startChunked(chunkedForward<32>, chunkedForward<64>, p, stream);
}

}  // namespace aegir::cuda
