// The elementwise pieces of time and channel mixing (native/kernels/time_mix.h), a thread a value.
#include "native/cuda/device_code.h"
#include "native/cuda/launch.h"

namespace aegir::cuda {
namespace {

constexpr int blockThreads = 256;
constexpr float decayScale = 0.60653065971263342f;  // exp(-0.5)

__device__ float sigmoidOf(float x) { return 1.0f / (1.0f + expf(-x)); }

__device__ void at(const Decay& p, int64_t i) { p.decay[i] = expf(-decayScale * sigmoidOf(p.z[i])); }

__device__ void at(const DecayBackward& p, int64_t i) {
  const float s = sigmoidOf(p.z[i]);
  p.gradZ[i] = -decayScale * p.grad[i] * p.decay[i] * s * (1.0f - s);
}

__device__ void at(const ValueMix& p, int64_t i) {
  p.mixed[i] = p.value[i] + (p.first[i] - p.value[i]) * sigmoidOf(p.z[i]);
}

__device__ void at(const ValueMixBackward& p, int64_t i) {
  const float s = sigmoidOf(p.z[i]), grad = p.grad[i];
  p.gradValue[i] = grad * (1.0f - s);
  p.gradFirst[i] = grad * s;
  p.gradZ[i] = grad * (p.first[i] - p.value[i]) * s * (1.0f - s);
}

// NaN is not below zero and stays.
__device__ void at(const SquaredRelu& p, int64_t i) { p.result[i] = p.x[i] <= 0 ? 0.0f : p.x[i] * p.x[i]; }

__device__ void at(const SquaredReluBackward& p, int64_t i) {
  p.gradX[i] = p.x[i] <= 0 ? 0.0f : 2.0f * p.x[i] * p.grad[i];
}

template <class Arguments>
__global__ void __launch_bounds__(blockThreads) elementKernel(const Arguments p) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockThreads + threadIdx.x;
  if (i < p.count) at(p, i);
}

template <class Arguments>
cudaError_t launchElements(const Arguments& p, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>((p.count + blockThreads - 1) / blockThreads);
  if (blocks > 0) start(elementKernel<Arguments>, blocks, blockThreads, stream, p);
  return cudaGetLastError();
}

}  // namespace

cudaError_t launch(const Decay& p, cudaStream_t stream) { return launchElements(p, stream); }
cudaError_t launch(const DecayBackward& p, cudaStream_t stream) { return launchElements(p, stream); }
cudaError_t launch(const ValueMix& p, cudaStream_t stream) { return launchElements(p, stream); }
cudaError_t launch(const ValueMixBackward& p, cudaStream_t stream) { return launchElements(p, stream); }
cudaError_t launch(const SquaredRelu& p, cudaStream_t stream) { return launchElements(p, stream); }
cudaError_t launch(const SquaredReluBackward& p, cudaStream_t stream) { return launchElements(p, stream); }

}  // namespace aegir::cuda
