// Token shift and mixes (native/kernels/time_mix.h): a thread per column, a block per run of tokens.
#include "native/cuda/device_code.h"
#include "native/cuda/launch.h"

namespace aegir::cuda {
namespace {

constexpr int blockThreads = 128;

struct Run {
  int64_t column, first, last;  // tokens first .. last - 1
};
__device__ Run runOfBlock(int64_t tokens, int64_t runs) {
  const int64_t run = blockIdx.x % runs, column = blockIdx.x / runs * blockThreads + threadIdx.x;
  return {column, tokens * run / runs, tokens * (run + 1) / runs};
}

struct Source {
  const float *x, *carried;
  const int64_t* cuSeqlens;
  int64_t sequences, width;
};

// The row before a token, at one column.
__device__ float previousValue(const Source& s, int64_t token, int64_t column) {
  const int64_t sequence = sequenceOf(s.cuSeqlens, s.sequences, token);
  if (s.cuSeqlens[sequence] < token) return s.x[(token - 1) * s.width + column];
  return s.carried == nullptr ? 0.0f : s.carried[sequence * s.width + column];
}

__global__ void __launch_bounds__(blockThreads) forwardKernel(const ShiftMix p) {
  const Run run = runOfBlock(p.tokens, p.runs);
  if (run.column >= p.width) return;
  const Source source{p.x, p.carried, p.cuSeqlens, p.sequences, p.width};
  for (int64_t t = run.first; t < run.last; ++t) {
    const int64_t at = t * p.width + run.column;
    const float x = p.x[at], delta = previousValue(source, t, run.column) - x;
    for (int c = 0; c < p.mixes; ++c) p.mixed[c][at] = x + delta * p.mu[c * p.width + run.column];
  }
}

// Gradients of a token's mixes, times mu: what reaches the row before it.
__device__ float towardsPrevious(const ShiftMixBackward& p, const float (&mu)[maxMixes], int64_t at) {
  float sum = 0;
#pragma unroll
  for (int c = 0; c < maxMixes; ++c) {
    if (c < p.mixes) sum += p.gradMixed[c][at] * mu[c];
  }
  return sum;
}

// Tokens in reverse; what a token passes to the one before it is kept for the next step.
__global__ void __launch_bounds__(blockThreads) backwardKernel(const ShiftMixBackward p) {
  const Run run = runOfBlock(p.tokens, p.runs);
  if (run.column >= p.width) return;
  const Source source{p.x, p.carried, p.cuSeqlens, p.sequences, p.width};
  float mu[maxMixes], sums[maxMixes] = {};
#pragma unroll
  for (int c = 0; c < maxMixes; ++c) mu[c] = c < p.mixes ? p.mu[c * p.width + run.column] : 0.0f;
  float fromNext = 0;
  if (run.first < run.last && run.last < p.tokens) {
    const bool startsThere = p.cuSeqlens[sequenceOf(p.cuSeqlens, p.sequences, run.last)] == run.last;
    if (!startsThere) fromNext = towardsPrevious(p, mu, run.last * p.width + run.column);
  }
  for (int64_t t = run.last - 1; t >= run.first; --t) {
    const int64_t at = t * p.width + run.column, sequence = sequenceOf(p.cuSeqlens, p.sequences, t);
    const float delta = previousValue(source, t, run.column) - p.x[at];
    float total = 0;
#pragma unroll
    for (int c = 0; c < maxMixes; ++c) {
      const float grad = c < p.mixes ? p.gradMixed[c][at] : 0.0f;
      total += grad;
      sums[c] += grad * delta;
    }
    const float toPrevious = towardsPrevious(p, mu, at);
    p.gradX[at] = total - toPrevious + fromNext;
    const bool starts = p.cuSeqlens[sequence] == t;
    if (starts) p.gradCarried[sequence * p.width + run.column] = toPrevious;
    fromNext = starts ? 0 : toPrevious;
  }
#pragma unroll
  for (int c = 0; c < maxMixes; ++c) {
    if (c < p.mixes) p.gradMu[((blockIdx.x % p.runs) * p.mixes + c) * p.width + run.column] = sums[c];
  }
}

unsigned blocksOf(int64_t width, int64_t runs) {
  return static_cast<unsigned>((width + blockThreads - 1) / blockThreads * runs);
}

}  // namespace

cudaError_t launch(const ShiftMix& p, cudaStream_t stream) {
  if (p.tokens > 0) start(forwardKernel, blocksOf(p.width, p.runs), blockThreads, stream, p);
  return cudaGetLastError();
}

cudaError_t launch(const ShiftMixBackward& p, cudaStream_t stream) {
  if (p.tokens > 0) start(backwardKernel, blocksOf(p.width, p.runs), blockThreads, stream, p);
  return cudaGetLastError();
}

}  // namespace aegir::cuda
