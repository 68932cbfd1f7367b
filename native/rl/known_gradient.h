// A scalar whose gradient is known before backward is called: what fused losses return to autograd.
#pragma once

#include <ATen/core/Tensor.h>

namespace aegir::rl {

// `value` (a scalar), with `gradient` (of input's shape) as its derivative in `input`; `value` itself where
// `input` needs no gradient. Differentiable once.
at::Tensor withKnownGradient(const at::Tensor& input, const at::Tensor& value, const at::Tensor& gradient);

// Scalar sum of x * coefficients (one shape), differentiable once in x; an element with coefficient 0 is not
// read.
at::Tensor weightedSum(const at::Tensor& x, const at::Tensor& coefficients);

}  // namespace aegir::rl
