// The forward pass of WKV-7 (native/kernels/wkv7.h). One block per sequence and head, one thread per value
// row: S a and S r are then sums inside a thread, and the vectors of a token are the same for all threads.
#include "native/cuda/launch.h"
#include "native/cuda/wkv7_tiles.h"

namespace aegir::cuda {
namespace {

template <int N>
struct Staged {
  __align__(16) float r[stagedTokens][N], decay[stagedTokens][N], k[stagedTokens][N], a[stagedTokens][N],
      b[stagedTokens][N];
  float v[stagedTokens][N];
};

template <class Stored, int N>
__device__ void stage(Staged<N>& to, const Wkv7Forward& p, int64_t at, int64_t stride, int count) {
  const int i = threadIdx.x;
#pragma unroll
  for (int t = 0; t < stagedTokens; ++t) {
    if (t >= count) break;
    const int64_t from = at + t * stride + i;
    to.r[t][i] = load(as<Stored>(p.r), from);
    to.decay[t][i] = load(as<Stored>(p.decay), from);
    to.k[t][i] = load(as<Stored>(p.k), from);
    to.v[t][i] = load(as<Stored>(p.v), from);
    to.a[t][i] = load(as<Stored>(p.a), from);
    to.b[t][i] = load(as<Stored>(p.b), from);
  }
}

// S <- S diag(decay) + stateTimesA b^T + v k^T for one row; its part of S r.
template <int N>
__device__ float advance(float (&state)[N], float stateTimesA, const Staged<N>& rows, int t) {
  const float v = rows.v[t][threadIdx.x];
  Sum output;
#pragma unroll
  for (int j = 0; j < N; j += 4) {
    const float4 decay = fourOf(rows.decay[t], j), k = fourOf(rows.k[t], j), b = fourOf(rows.b[t], j),
                 r = fourOf(rows.r[t], j);
    state[j] = state[j] * decay.x + stateTimesA * b.x + v * k.x;
    state[j + 1] = state[j + 1] * decay.y + stateTimesA * b.y + v * k.y;
    state[j + 2] = state[j + 2] * decay.z + stateTimesA * b.z + v * k.z;
    state[j + 3] = state[j + 3] * decay.w + stateTimesA * b.w + v * k.w;
    output.x += state[j] * r.x;
    output.y += state[j + 1] * r.y;
    output.z += state[j + 2] * r.z;
    output.w += state[j + 3] * r.w;
  }
  return output.total();
}

template <class Stored, int N>
__global__ void __launch_bounds__(N) forwardKernel(const Wkv7Forward p) {
  static_assert(wkv7Chunk % stagedTokens == 0, "a checkpoint falls on the first token of a stage");
  __shared__ Staged<N> rows;
  __shared__ float tile[N * tileStride];
  const Head head = headOfBlock(p.layout, p.heads, N);
  float state[N] = {};
  if (p.initialState != nullptr) loadRows(state, p.initialState + head.state, tile);
  for (int64_t first = 0; first < head.span.length; first += stagedTokens) {
    const int count = static_cast<int>(min(head.span.length - first, int64_t{stagedTokens}));
    const int64_t at = head.offset + first * head.stride;
    __syncthreads();
    stage<Stored, N>(rows, p, at, head.stride, count);
    if (p.checkpoints != nullptr && first % wkv7Chunk == 0) {
      storeRows(state, p.checkpoints + head.checkpoint + first / wkv7Chunk * p.heads * N * N, tile);
    }
    __syncthreads();
    for (int t = 0; t < count; ++t) {
      const float stateTimesA = dot(state, rows.a[t]);
      const float output = advance(state, stateTimesA, rows, t);
      const int64_t to = at + t * head.stride + threadIdx.x;
      store(as<Stored>(p.output), to, output);
      if (p.stateTimesA != nullptr) p.stateTimesA[to] = stateTimesA;
    }
  }
  storeRows(state, p.finalState + head.state, tile);
}

}  // namespace

cudaError_t launch(const Wkv7Forward& p, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(p.layout.sequences * p.heads);
  if (blocks == 0) return cudaSuccess;
  if (p.form == Wkv7Form::Chunked) return launchChunked(p, stream);
  return withStorage(p.storage, [&](auto stored) {
    using Stored = decltype(stored);
    switch (p.headSize) {
      case 32: start(forwardKernel<Stored, 32>, blocks, 32, stream, p); break;
      case 64: start(forwardKernel<Stored, 64>, blocks, 64, stream, p); break;
      default: start(forwardKernel<Stored, 128>, blocks, 128, stream, p);
    }
  });
}

}  // namespace aegir::cuda
