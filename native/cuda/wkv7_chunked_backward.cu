// The backward pass of WKV-7 in chunks (wkv7_chunked.h), chunk after chunk from the last. With G = dL/dS
// after the chunk, G' = G diag(P_C) and the chunk's S, V, dO, (tokens, N) for vectors:
//   U as forwards;  W = M^T (RB^T dO + b' G'^T) = dL/du
//   dV = RK^T dO + k' G'^T + AK^T W,   G <- G' + W^T a' + dO^T r'
// with X(Y,Z) = Y Z^T lower as forwards: dAB = X(W,U), dAK = X(W,V), dRB = X(dO,U), dRK = X(dO,V),
//   dr' = dO S + dRB b' + dRK k',    db' = U G' + (dAB^T a' + dRB^T r')
//   da' = W S + dAB b' + dAK k',     dk' = V G' + (dAK^T a' + dRK^T r')
// dr = P_t dr', da = P_{t-1} da', db = db' / P_t, dk = dk' / P_t. A decay enters every P from its token on:
//   decay_t ddecay_t = sum_i (S * G')_i + sum_{s<t} (b' * U G' + k' * V G')_s
//     + sum_{s>=t} (r' * dr' - b' * (db' - U G') - k' * (dk' - V G'))_s + sum_{s>t} (a' * da')_s
// whose products of one r' or a' with one k' or b', both after t, cancel: so the rounded factors stand there.
#include "native/cuda/wkv7_chunked.h"

namespace aegir::cuda {
namespace {

template <int N>
struct Chunk {
  Matrix<blockSize, N> scaled[keyVectors], v, gradOutput;
  Matrix<N, N> state, grad;                // S, G'
  Matrix<N, blockSize> u, w;               // (values, tokens)
  ChunkMatrices matrices;                  // later dAB, dAK, dRB, dRK
  float product[blockSize][N];             // P_t
  float stateTimesGrad[N / blockSize][N];  // each warp's part of sum_i (S * G')_i
};

// The lanes of a column, from token to token.
__device__ inline float sumOfColumn(float x) {
  for (int distance = 4; distance < 32; distance *= 2) x += __shfl_xor_sync(0xffffffff, x, distance);
  return x;
}
// Of 8 tokens, one a lane: the sum from each to the last.
__device__ inline float sumFromToken(float x) {
  for (int distance = 1; distance < 8; distance *= 2) {
    const float later = __shfl_down_sync(0xffffffff, x, 4 * distance);
    if (laneRow() + distance < 8) x += later;
  }
  return x;
}

// sum_i (S * G')_i of the warp's rows and the 16 columns of a block.
template <int N>
__device__ void putStateTimesGrad(Chunk<N>& chunk, const Sums& state, const Sums& grad, int column) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float sum = sumOfColumn(state.x[h][i] * grad.x[h][i] + state.x[h][i + 2] * grad.x[h][i + 2]);
      if (laneRow() == 0) chunk.stateTimesGrad[threadIdx.x / 32][column + columnOf(h, i)] = sum;
    }
  }
}

// A warp's value rows: puts S, G', U and W into shared memory, stores dV and takes G to the chunk's start.
template <int N>
__device__ void backwardRows(Sums (&grad)[N / blockSize], Chunk<N>& chunk, const float* checkpoint,
                             void* gradV, const ChunkPlace& place) {
  const int value = threadIdx.x / 32 * blockSize;
  ChunkFloats& ab = *reinterpret_cast<ChunkFloats*>(&chunk.u);  // U comes when AB has been inverted
  static_assert(sizeof(ChunkFloats) <= sizeof(chunk.u), "AB lies in U's place");
  makeMatrices<N>(chunk.matrices, ab, chunk.scaled);
  Sums u, w, dv;
#pragma unroll
  for (int j = 0; j < N / blockSize; ++j) {
    const int column = j * blockSize;
    Sums state;
    loadBlock<N>(state, checkpoint, value, column);
    scaleColumns(grad[j], chunk.product[blockSize - 1], column);
    putStateTimesGrad(chunk, state, grad[j], column);
    put(chunk.state, value, column, state);
    put(chunk.grad, value, column, grad[j]);
    const Left g = rounded(grad[j]);
    addProduct(u, rounded(state), rightTransposed(chunk.scaled[vectorA], 0, column));
    addProduct(w, g, rightTransposed(chunk.scaled[vectorB], 0, column));
    addProduct(dv, left(chunk.scaled[vectorK], 0, column), transpose(g));
  }
  __syncthreads();
  if (threadIdx.x < 32) invert(chunk.matrices[matrixAB], ab);
  const Left v = leftTransposed(chunk.v, 0, value), gradOutput = leftTransposed(chunk.gradOutput, 0, value);
  addProduct(u, v, rightTransposed(chunk.matrices[matrixAK], 0, 0));
  addProduct(w, gradOutput, right(chunk.matrices[matrixRB], 0, 0));
  addProduct(dv, leftTransposed(chunk.matrices[matrixRK], 0, 0), transpose(gradOutput));
  __syncthreads();
  const Left beforeU = rounded(u), beforeW = rounded(w);
  addProduct(u, beforeU, rightTransposed(chunk.matrices[matrixAB], 0, 0));
  addProduct(w, beforeW, right(chunk.matrices[matrixAB], 0, 0));
  const Left roundedW = rounded(w);
  addProduct(dv, leftTransposed(chunk.matrices[matrixAK], 0, 0), transpose(roundedW));
  storeTokens(dv, gradV, place, value);
  put(chunk.u, value, 0, u);
  put(chunk.w, value, 0, w);
#pragma unroll
  for (int j = 0; j < N / blockSize; ++j) {
    addProduct(grad[j], roundedW, right(chunk.scaled[vectorA], 0, j * blockSize));
    addProduct(grad[j], gradOutput, right(chunk.scaled[vectorR], 0, j * blockSize));
  }
}

// dAB, dAK, dRB, dRK, one after another a warp.
template <int N>
__device__ void makeGradMatrices(ChunkMatrices& to, const Chunk<N>& chunk) {
  for (int matrix = threadIdx.x / 32; matrix < chunkMatrices; matrix += N / blockSize) {
    Sums sums;
#pragma unroll
    for (int i = 0; i < N; i += blockSize) {
      const Left rows = matrix < matrixRB ? leftTransposed(chunk.w, i, 0) : left(chunk.gradOutput, 0, i);
      const Right columns = matrix % 2 == 0 ? right(chunk.u, i, 0) : rightTransposed(chunk.v, 0, i);
      addProduct(sums, rows, columns);
    }
    keepLower(sums, matrix);
    put(to[matrix], 0, 0, sums);
  }
}

// A warp's 16 key columns, (tokens, keys).
struct KeyGrads {
  Sums r, a;    // dr', da'
  Sums ug, vg;  // U G', V G'
  Sums b, k;    // the rest of db', dk'
};

// ddecay, and the scales taken out of the others.
template <int N>
__device__ void finishKeys(KeyGrads& grads, Sums& decay, const Chunk<N>& chunk, int column) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int key = column + columnOf(h, i);
      const auto factor = [&](int vector, int e) {
        const float2 pair = chunk.scaled[vector].pair(rowOf(e), column + columnOf(h, 0));
        return i == 0 ? pair.x : pair.y;
      };
      float after[2], atA[2], before = 0;  // of tokens laneRow() and laneRow() + 8
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int e = i + 2 * half;
        const float b = factor(vectorB, e), k = factor(vectorK, e);
        const float past = b * grads.ug.x[h][e] + k * grads.vg.x[h][e];
        atA[half] = factor(vectorA, e) * grads.a.x[h][e];
        after[half] = factor(vectorR, e) * grads.r.x[h][e] - b * grads.b.x[h][e] - k * grads.k.x[h][e] +
                      atA[half] - past;
        before += past;
      }
      // The sum before t is that of all less that from t on.
      float whole = sumOfColumn(before);
#pragma unroll
      for (int warp = 0; warp < N / blockSize; ++warp) whole += chunk.stateTimesGrad[warp][key];
      const float later = sumFromToken(after[1]);
      const float sooner = sumFromToken(after[0]) + __shfl_sync(0xffffffff, later, threadIdx.x % 4);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int e = i + 2 * half, t = rowOf(e);
        const float product = chunk.product[t][key], past = t > 0 ? chunk.product[t - 1][key] : 1.0f;
        const float inverse = reciprocal(product);
        decay.x[h][e] = (whole + (half == 0 ? sooner : later) - atA[half]) * past * inverse;
        grads.r.x[h][e] *= product;
        grads.a.x[h][e] *= past;
        grads.b.x[h][e] = (grads.b.x[h][e] + grads.ug.x[h][e]) * inverse;
        grads.k.x[h][e] = (grads.k.x[h][e] + grads.vg.x[h][e]) * inverse;
      }
    }
  }
}

template <int N>
__device__ void backwardKeys(Chunk<N>& chunk, const Wkv7Backward& p, const ChunkPlace& place) {
  ChunkMatrices& matrices = chunk.matrices;
  const int column = threadIdx.x / 32 * blockSize;
  makeGradMatrices(matrices, chunk);
  KeyGrads grads;
#pragma unroll
  for (int i = 0; i < N; i += blockSize) {
    const Right state = right(chunk.state, i, column), grad = right(chunk.grad, i, column);
    addProduct(grads.r, left(chunk.gradOutput, 0, i), state);
    addProduct(grads.a, leftTransposed(chunk.w, i, 0), state);
    addProduct(grads.ug, leftTransposed(chunk.u, i, 0), grad);
    addProduct(grads.vg, left(chunk.v, 0, i), grad);
  }
  __syncthreads();
  const Right b = right(chunk.scaled[vectorB], 0, column), k = right(chunk.scaled[vectorK], 0, column);
  addProduct(grads.r, left(matrices[matrixRB], 0, 0), b);
  addProduct(grads.r, left(matrices[matrixRK], 0, 0), k);
  addProduct(grads.a, left(matrices[matrixAB], 0, 0), b);
  addProduct(grads.a, left(matrices[matrixAK], 0, 0), k);
  const Right a = right(chunk.scaled[vectorA], 0, column), r = right(chunk.scaled[vectorR], 0, column);
  addProduct(grads.b, leftTransposed(matrices[matrixAB], 0, 0), a);
  addProduct(grads.b, leftTransposed(matrices[matrixRB], 0, 0), r);
  addProduct(grads.k, leftTransposed(matrices[matrixAK], 0, 0), a);
  addProduct(grads.k, leftTransposed(matrices[matrixRK], 0, 0), r);
  Sums decay;
  finishKeys(grads, decay, chunk, column);
  storeTokens(grads.r, p.gradR, place, column);
  storeTokens(decay, p.gradDecay, place, column);
  storeTokens(grads.k, p.gradK, place, column);
  storeTokens(grads.a, p.gradA, place, column);
  storeTokens(grads.b, p.gradB, place, column);
}

// Brings a whole chunk into the L2 cache: there are no registers to hold it.
template <int N>
__device__ void prefetch(const Wkv7Backward& p, const ChunkPlace& place, const float* checkpoint) {
  constexpr int vectors = 7, lineBytes = 128, lines = N * N * sizeof(float) / lineBytes;
  for (int e = threadIdx.x; e < vectors * blockSize; e += 2 * N) {
    const int i = e / blockSize;
    const void* vector = i == 0   ? p.r
                         : i == 1 ? p.decay
                         : i == 2 ? p.k
                         : i == 3 ? p.v
                         : i == 4 ? p.a
                         : i == 5 ? p.b
                                  : p.gradOutput;
    prefetchLine(static_cast<const __nv_bfloat16*>(vector) + place.at + e % blockSize * place.stride);
  }
  for (int line = threadIdx.x; line < lines; line += 2 * N) {
    prefetchLine(checkpoint + line * (lineBytes / sizeof(float)));
  }
}

template <int N>
__global__ void __launch_bounds__(2 * N, blocksPerSm<N>) chunkedBackward(const Wkv7Backward p) {
  __shared__ Chunk<N> chunk;
  const Head head = headOfBlock(p.layout, p.heads, N);
  const int value = threadIdx.x / 32 * blockSize;
  Sums grad[N / blockSize];
  loadRows<N>(grad, p.gradState + head.state, value);
  const int64_t chunks = (head.span.length + wkv7Chunk - 1) / wkv7Chunk;
  for (int64_t index = chunks - 1; index >= 0; --index) {
    const ChunkPlace place = chunkPlace(head, index);
    const float* checkpoint = p.checkpoints + head.checkpoint + index * p.heads * N * N;
    KeyWords keys;
    ValueWords values, outputs;
    fetch<N>(keys, p, place);
    fetch<N>(values, p.v, place);
    fetch<N>(outputs, p.gradOutput, place);
    __syncthreads();
    putScaled<N>(chunk.scaled, keys, [&](int t, int column, float2 product) {
      chunk.product[t][column] = product.x;
      chunk.product[t][column + 1] = product.y;
    });
    put(chunk.v, values);
    put(chunk.gradOutput, outputs);
    __syncthreads();
    if (index > 0) prefetch<N>(p, chunkPlace(head, index - 1), checkpoint - p.heads * N * N);
    backwardRows<N>(grad, chunk, checkpoint, p.gradV, place);
    __syncthreads();
    backwardKeys<N>(chunk, p, place);
  }
  storeRows<N>(grad, p.gradState + head.state, value);
}

}  // namespace

cudaError_t launchChunked(const Wkv7Backward& p, cudaStream_t stream) {
  return startChunked(chunkedBackward<32>, chunkedBackward<64>, p, stream);
}

}  // namespace aegir::cuda
