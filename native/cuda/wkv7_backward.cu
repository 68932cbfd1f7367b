// The backward pass of WKV-7, in two kernels. With
//   G_t = dL/dS_t (o_t's part included),   g_t = G_t b_t = dL/d(S_{t-1} a_t)
//   G_{t-1} = G_t diag(decay_t) + g_t a_t^T + do_{t-1} r_{t-1}^T
// the first kernel, a thread per value row, walks G alone and writes the sums along rows, dv_t = G_t k_t and
// g_t. With g known, every element of G and of S goes its own way, so the second kernel, a thread per key
// column, takes one element after another through a chunk of tokens and adds up the sums along columns:
//   dr_t = S_t^T do_t, dk_t = G_t^T v_t, db_t = G_t^T (S_{t-1} a_t), da_t = S_{t-1}^T g_t,
//   ddecay_t = sum_i (G_t * S_{t-1})_i
// The states of a chunk come again from its checkpoint: dividing the decay out would amplify rounding.
#include "native/cuda/launch.h"
#include "native/cuda/wkv7_tiles.h"

namespace aegir::cuda {
namespace {

template <int N>
struct StagedRows {
  __align__(16) float r[stagedTokens][N], decay[stagedTokens][N], k[stagedTokens][N], a[stagedTokens][N],
      b[stagedTokens][N];
  float gradOutput[stagedTokens][N];
};

template <class Stored, int N>
__device__ void stage(StagedRows<N>& to, const Wkv7Backward& p, int64_t at, int64_t stride, int count) {
  const int i = threadIdx.x;
#pragma unroll
  for (int t = 0; t < stagedTokens; ++t) {
    if (t >= count) break;
    const int64_t from = at + t * stride + i;
    to.r[t][i] = load(as<Stored>(p.r), from);
    to.decay[t][i] = load(as<Stored>(p.decay), from);
    to.k[t][i] = load(as<Stored>(p.k), from);
    to.a[t][i] = load(as<Stored>(p.a), from);
    to.b[t][i] = load(as<Stored>(p.b), from);
    to.gradOutput[t][i] = load(as<Stored>(p.gradOutput), from);
  }
}

// G <- G + do r^T for one row; its parts of G k and G b.
template <int N>
__device__ void addOutput(float (&grad)[N], const StagedRows<N>& rows, int t, float& gradV,
                          float& gradTimesB) {
  const float gradOutput = rows.gradOutput[t][threadIdx.x];
  Sum timesK, timesB;
#pragma unroll
  for (int j = 0; j < N; j += 4) {
    const float4 r = fourOf(rows.r[t], j), k = fourOf(rows.k[t], j), b = fourOf(rows.b[t], j);
    grad[j] += gradOutput * r.x;
    grad[j + 1] += gradOutput * r.y;
    grad[j + 2] += gradOutput * r.z;
    grad[j + 3] += gradOutput * r.w;
    timesK.x += grad[j] * k.x;
    timesK.y += grad[j + 1] * k.y;
    timesK.z += grad[j + 2] * k.z;
    timesK.w += grad[j + 3] * k.w;
    timesB.x += grad[j] * b.x;
    timesB.y += grad[j + 1] * b.y;
    timesB.z += grad[j + 2] * b.z;
    timesB.w += grad[j + 3] * b.w;
  }
  gradV = timesK.total();
  gradTimesB = timesB.total();
}

template <int N>
__device__ void stepBack(float (&grad)[N], const StagedRows<N>& rows, int t, float gradTimesB) {
#pragma unroll
  for (int j = 0; j < N; j += 4) {
    const float4 decay = fourOf(rows.decay[t], j), a = fourOf(rows.a[t], j);
    grad[j] = grad[j] * decay.x + gradTimesB * a.x;
    grad[j + 1] = grad[j + 1] * decay.y + gradTimesB * a.y;
    grad[j + 2] = grad[j + 2] * decay.z + gradTimesB * a.z;
    grad[j + 3] = grad[j + 3] * decay.w + gradTimesB * a.w;
  }
}

template <class Stored, int N>
__global__ void __launch_bounds__(N) rowsKernel(const Wkv7Backward p) {
  __shared__ StagedRows<N> rows;
  __shared__ float tile[N * tileStride];
  const Head head = headOfBlock(p.layout, p.heads, N);
  float grad[N];
  loadRows(grad, p.gradState + head.state, tile);
  const int64_t stages = (head.span.length + stagedTokens - 1) / stagedTokens;
  for (int64_t index = stages - 1; index >= 0; --index) {
    const int64_t first = index * stagedTokens, at = head.offset + first * head.stride;
    const int count = static_cast<int>(min(head.span.length - first, int64_t{stagedTokens}));
    __syncthreads();
    stage<Stored, N>(rows, p, at, head.stride, count);
    __syncthreads();
    for (int t = count - 1; t >= 0; --t) {
      float gradV, gradTimesB;
      addOutput(grad, rows, t, gradV, gradTimesB);
      const int64_t to = at + t * head.stride + threadIdx.x;
      store(as<Stored>(p.gradV), to, gradV);
      p.gradTimesB[to] = gradTimesB;
      stepBack(grad, rows, t, gradTimesB);
    }
  }
}

constexpr int chunkTokens = static_cast<int>(wkv7Chunk);
// Tokens of one value row lie together; four words more against bank conflicts.
constexpr int rowStride = chunkTokens + 4;

template <int N>
struct ChunkRows {
  __align__(16) float v[N * rowStride], stateTimesA[N * rowStride], gradTimesB[N * rowStride],
      gradOutput[N * rowStride];
};

// The thread's own column of a chunk.
struct ChunkColumn {
  float r[chunkTokens], decay[chunkTokens], k[chunkTokens], a[chunkTokens], b[chunkTokens];
};
struct ColumnSums {
  float r[chunkTokens] = {}, decay[chunkTokens] = {}, k[chunkTokens] = {}, a[chunkTokens] = {},
        b[chunkTokens] = {};
};

// Tokens past the sequence's end are neutral: decay 1, all else 0.
template <class Stored, int N>
__device__ void loadChunk(ChunkRows<N>& rows, ChunkColumn& column, const Wkv7Backward& p, int64_t at,
                          int64_t stride, int count) {
#pragma unroll
  for (int t = 0; t < chunkTokens; ++t) {
    const bool inside = t < count;
    const int64_t from = at + t * stride + threadIdx.x;
    const auto valueOf = [&](const void* x) { return inside ? load(as<Stored>(x), from) : 0.0f; };
    column.r[t] = valueOf(p.r);
    column.decay[t] = inside ? load(as<Stored>(p.decay), from) : 1.0f;
    column.k[t] = valueOf(p.k);
    column.a[t] = valueOf(p.a);
    column.b[t] = valueOf(p.b);
    const int to = threadIdx.x * rowStride + t;
    rows.v[to] = valueOf(p.v);
    rows.gradOutput[to] = valueOf(p.gradOutput);
    rows.stateTimesA[to] = inside ? p.stateTimesA[from] : 0.0f;
    rows.gradTimesB[to] = inside ? p.gradTimesB[from] : 0.0f;
  }
}

// One element (row, column) through the chunk: its states forwards, then its gradient backwards.
template <int N>
__device__ float backwardElement(float state, float grad, const ChunkRows<N>& rows, int row,
                                 const ChunkColumn& column, ColumnSums& sums) {
  const int from = row * rowStride;
  float states[chunkTokens + 1];
  states[0] = state;
#pragma unroll
  for (int t = 0; t < chunkTokens; ++t) {
    states[t + 1] = states[t] * column.decay[t] + rows.stateTimesA[from + t] * column.b[t] +
                    rows.v[from + t] * column.k[t];
  }
#pragma unroll
  for (int t = chunkTokens - 1; t >= 0; --t) {
    const float gradOutput = rows.gradOutput[from + t], gradTimesB = rows.gradTimesB[from + t];
    sums.r[t] += states[t + 1] * gradOutput;
    grad += gradOutput * column.r[t];
    sums.k[t] += grad * rows.v[from + t];
    sums.b[t] += grad * rows.stateTimesA[from + t];
    sums.decay[t] += grad * states[t];
    sums.a[t] += states[t] * gradTimesB;
    grad = grad * column.decay[t] + gradTimesB * column.a[t];
  }
  return grad;
}

template <class Stored>
__device__ void storeSums(const ColumnSums& sums, const Wkv7Backward& p, int64_t at, int64_t stride,
                          int count) {
#pragma unroll
  for (int t = 0; t < chunkTokens; ++t) {
    if (t >= count) break;
    const int64_t to = at + t * stride + threadIdx.x;
    store(as<Stored>(p.gradR), to, sums.r[t]);
    store(as<Stored>(p.gradDecay), to, sums.decay[t]);
    store(as<Stored>(p.gradK), to, sums.k[t]);
    store(as<Stored>(p.gradA), to, sums.a[t]);
    store(as<Stored>(p.gradB), to, sums.b[t]);
  }
}

template <class Stored, int N>
__global__ void __launch_bounds__(N) columnsKernel(const Wkv7Backward p) {
  __shared__ ChunkRows<N> rows;
  const Head head = headOfBlock(p.layout, p.heads, N);
  float* grad = p.gradState + head.state + threadIdx.x;  // a column; between chunks it lies here
  const int64_t chunks = (head.span.length + wkv7Chunk - 1) / wkv7Chunk;
  for (int64_t index = chunks - 1; index >= 0; --index) {
    const int64_t first = index * wkv7Chunk, at = head.offset + first * head.stride;
    const int count = static_cast<int>(min(head.span.length - first, wkv7Chunk));
    const float* state = p.checkpoints + head.checkpoint + index * p.heads * N * N + threadIdx.x;
    ChunkColumn column;
    ColumnSums sums;
    __syncthreads();
    loadChunk<Stored, N>(rows, column, p, at, head.stride, count);
    __syncthreads();
#pragma unroll 1
    for (int row = 0; row < N; ++row) {
      grad[row * N] = backwardElement<N>(state[row * N], grad[row * N], rows, row, column, sums);
    }
    storeSums<Stored>(sums, p, at, head.stride, count);
  }
}

template <class Stored, int N>
void launchBoth(const Wkv7Backward& p, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(p.layout.sequences * p.heads);
  start(rowsKernel<Stored, N>, blocks, N, stream, p);
  start(columnsKernel<Stored, N>, blocks, N, stream, p);
}

}  // namespace

cudaError_t launch(const Wkv7Backward& p, cudaStream_t stream) {
  if (p.layout.sequences * p.heads == 0) return cudaSuccess;
  if (p.form == Wkv7Form::Chunked) return launchChunked(p, stream);
  return withStorage(p.storage, [&](auto stored) {
    using Stored = decltype(stored);
    switch (p.headSize) {
      case 32: launchBoth<Stored, 32>(p, stream); break;
      case 64: launchBoth<Stored, 64>(p, stream); break;
      default: launchBoth<Stored, 128>(p, stream);
    }
  });
}

}  // namespace aegir::cuda
