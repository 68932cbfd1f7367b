// The mean over sequences through the CUDA plug-in.
#pragma once

#include <ATen/core/Tensor.h>

namespace aegir::kernels {

// (S,D): the mean of x (K,D) f32 over the tokens of each packed sequence with weights (K) f32, or 1 where
// undefined; zero where the weights are. cuSeqlens (S+1) i64, S >= 1. All on one GPU. Differentiable once in
// x.
at::Tensor sequenceMeanCuda(const at::Tensor& x, const at::Tensor& weights, const at::Tensor& cuSeqlens);

}  // namespace aegir::kernels
