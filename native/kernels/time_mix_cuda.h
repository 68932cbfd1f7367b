// The time-mix operators through the CUDA plug-in, for f32 tensors on a GPU.
#pragma once

#include <initializer_list>

#include "native/kernels/time_mix.h"

namespace aegir::kernels {

// All tensors f32 on a GPU.
inline bool onGpu(std::initializer_list<at::Tensor> tensors) {
  for (const at::Tensor& x : tensors) {
    if (x.defined() && (x.scalar_type() != at::kFloat || !x.is_cuda())) return false;
  }
  return true;
}

// Head sizes for which there are kernels.
inline bool cudaHeadSize(int64_t headSize) { return headSize == 32 || headSize == 64 || headSize == 128; }

std::vector<at::Tensor> tokenShiftMixCuda(const TokenShiftMixInput& input);
NormalisedKey keyNormaliseCuda(const KeyNormaliseInput& input);
at::Tensor groupNormBonusGateCuda(const GroupNormBonusGateInput& input);
at::Tensor decayFromLogitsCuda(const at::Tensor& z);
at::Tensor valueResidualCuda(const at::Tensor& value, const at::Tensor& first, const at::Tensor& z);
at::Tensor squaredReluCuda(const at::Tensor& x);

}  // namespace aegir::kernels
