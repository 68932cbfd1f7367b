// The weighted mean over the tokens of each sequence (native/model/sequences.h): a thread per column, its
// tokens in order, so that sums do not depend on timing.
#include "native/cuda/device_code.h"
#include "native/cuda/launch.h"

namespace aegir::cuda {
namespace {

constexpr int blockThreads = 128;

__device__ float weightOf(const SequenceMean& p, int64_t token) {
  return p.weights == nullptr ? 1.0f : p.weights[token];
}

__global__ void __launch_bounds__(blockThreads) meanKernel(const SequenceMean p) {
  const int64_t sequence = blockIdx.x % p.sequences, group = blockIdx.x / p.sequences;
  const int64_t column = group * blockThreads + threadIdx.x;
  const Span span = spanOf(Layout{p.sequences, p.tokens, p.cuSeqlens, nullptr}, sequence);
  float total = 0;
  for (int64_t t = 0; t < span.length; ++t) total += weightOf(p, span.start + t);
  const float inverse = total == 0 ? 0.0f : 1.0f / total;
  if (group == 0) {
    for (int64_t t = threadIdx.x; t < span.length; t += blockThreads) {
      p.scale[span.start + t] = weightOf(p, span.start + t) * inverse;
    }
  }
  if (column >= p.width) return;
  float sum = 0;
  for (int64_t t = 0; t < span.length; ++t) {
    const float weight = weightOf(p, span.start + t) * inverse;
    // What has no weight is not read: it may be NaN.
    if (weight != 0) sum += weight * p.x[(span.start + t) * p.width + column];
  }
  p.mean[sequence * p.width + column] = sum;
}

__global__ void __launch_bounds__(blockThreads) meanBackwardKernel(const SequenceMeanBackward p) {
  const int64_t at = static_cast<int64_t>(blockIdx.x) * blockThreads + threadIdx.x, token = at / p.width;
  if (token >= p.tokens) return;
  const float scale = p.scale[token];
  const int64_t sequence = sequenceOf(p.cuSeqlens, p.sequences, token);
  p.gradX[at] = scale == 0 ? 0.0f : scale * p.gradMean[sequence * p.width + at % p.width];
}

}  // namespace

cudaError_t launch(const SequenceMean& p, cudaStream_t stream) {
  // The first group of columns writes the scales, even of tensors without columns.
  const int64_t groups = p.width > 0 ? (p.width + blockThreads - 1) / blockThreads : 1;
  const auto blocks = static_cast<unsigned>(p.sequences * groups);
  if (blocks > 0) start(meanKernel, blocks, blockThreads, stream, p);
  return cudaGetLastError();
}

cudaError_t launch(const SequenceMeanBackward& p, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>((p.tokens * p.width + blockThreads - 1) / blockThreads);
  if (blocks > 0) start(meanBackwardKernel, blocks, blockThreads, stream, p);
  return cudaGetLastError();
}

}  // namespace aegir::cuda
