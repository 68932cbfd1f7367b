// One step of AdamW (native/optim/adamw.h), a thread a value.
#include "native/cuda/device_code.h"
#include "native/cuda/launch.h"

namespace aegir::cuda {
namespace {

constexpr int blockThreads = 256;

template <class Real>
__global__ void __launch_bounds__(blockThreads) updateKernel(const AdamW u) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockThreads + threadIdx.x;
  if (i >= u.count) return;
  Real *p = as<Real>(u.parameter), *mean = as<Real>(u.mean), *square = as<Real>(u.square);
  const Real gradient = as<Real>(u.gradient)[i] * static_cast<Real>(u.gradScale);
  const Real m = static_cast<Real>(u.beta1) * mean[i] + static_cast<Real>(1 - u.beta1) * gradient;
  const Real v =
      static_cast<Real>(u.beta2) * square[i] + static_cast<Real>(1 - u.beta2) * gradient * gradient;
  mean[i] = m;
  square[i] = v;
  p[i] = p[i] * static_cast<Real>(u.decay) -
         static_cast<Real>(u.stepSize) * m /
             (sqrt(v * static_cast<Real>(u.squareCorrection)) + static_cast<Real>(u.eps));
}

}  // namespace

cudaError_t launch(const AdamW& u, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>((u.count + blockThreads - 1) / blockThreads);
  if (blocks == 0) return cudaSuccess;
  if (u.f64) {
    start(updateKernel<double>, blocks, blockThreads, stream, u);
  } else {
    start(updateKernel<float>, blocks, blockThreads, stream, u);
  }
  return cudaGetLastError();
}

}  // namespace aegir::cuda
